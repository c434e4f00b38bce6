"""Commits: what is said of refusals, and how old the work is that waits; the thread that commits has tests of its own."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from confluent_kafka import KafkaError, TopicPartition

from modules.llm_platform.presentation.kafka.worker import consumer
from modules.llm_platform.presentation.kafka.worker.consumer import COMMIT_EVERY_S, Commits
from modules.llm_platform.presentation.kafka.worker.request import OffsetTracker

REFUSED = KafkaError(KafkaError.UNKNOWN_MEMBER_ID)


def test_a_refusal_is_not_said_with_every_try(caplog: pytest.LogCaptureFixture) -> None:
    """Five tries a second would fill the log; the first after a success is said again."""
    some = Commits({})
    for error in (REFUSED, REFUSED, None, REFUSED):
        some.answered(error, [])
    assert [record.message for record in caplog.records] == ["offsets were not committed"] * 2


def test_it_is_said_again_after_a_while(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever reads the log later sees that it goes on."""
    monkeypatch.setattr(consumer, "SAID_AGAIN_AFTER_S", 0.0)
    some = Commits({})
    for _ in range(3):
        some.answered(REFUSED, [])
    assert len(caplog.records) == 3


class FakeConsumer:
    """Notes what is committed; somebody else answers."""

    def __init__(self) -> None:
        self.offered: list[list[TopicPartition]] = []

    def commit(self, *, offsets: list[TopicPartition], asynchronous: bool) -> None:
        self.offered.append(offsets)


class Bench:
    """Commits of one partition, and a clock that goes when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.ledger = OffsetTracker("in", 0)
        self.ledgers = {("in", 0): self.ledger}
        self.commits = Commits(self.ledgers, lambda: self.now)
        self.consumer = FakeConsumer()
        self._offset = 0

    def finish(self) -> None:
        self.ledger.start(self._offset)
        self.ledger.finish(self._offset)
        self._offset += 1

    def cycle(self, after_s: float = COMMIT_EVERY_S) -> float:
        """Let time pass, and look whether there is something to commit; the age after that."""
        self.now += after_s
        self.commits.now_and_then(self.consumer)  # type: ignore[arg-type]
        return round(self.commits.age(), 3)

    def answer(self, error: KafkaError | None = None) -> None:
        """To the oldest commit that has no answer."""
        floors: Sequence[TopicPartition] = self.consumer.offered.pop(0)
        self.commits.answered(error, floors)


def test_the_age_begins_with_the_work_and_not_with_the_last_commit() -> None:
    """After an hour without a request the first one is not an hour old; where all is committed there is no age."""
    bench = Bench()
    assert bench.cycle() == 0.0
    for _ in range(2):
        assert bench.cycle(3600) == 0.0
        bench.finish()
        assert (bench.cycle(), bench.cycle(0.05)) == (0.0, 0.05)
        bench.answer()
        assert bench.commits.age() == 0.0


def test_the_age_grows_while_commits_fail() -> None:
    """From the oldest work on, however often it is tried and whatever is finished meanwhile; the first success ends that."""
    bench = Bench()
    bench.finish()
    bench.cycle()
    for tries in range(1, 6):
        bench.finish()
        bench.answer(REFUSED)
        assert bench.cycle(1.0) == tries
    bench.answer()
    assert bench.commits.age() == 0.0


def test_the_age_is_that_of_what_is_still_waiting() -> None:
    """Commits that are answered late: each answer leaves what was finished after its commit was sent."""
    bench = Bench()
    for _ in range(4):
        bench.finish()
        bench.cycle(1.0)
    assert bench.commits.age() == 3.0
    bench.answer()
    assert bench.commits.age() == 3.0
    bench.answer()
    assert bench.commits.age() == 2.0
    bench.answer()
    bench.answer()
    assert bench.commits.age() == 0.0


def test_a_partition_that_is_gone_has_no_age() -> None:
    """It is another worker's: nothing of it can be committed here."""
    bench = Bench()
    bench.finish()
    bench.cycle()
    bench.ledgers.clear()
    assert (bench.commits.age(), bench.cycle(1.0)) == (0.0, 0.0)


def test_each_commit_carries_its_metadata() -> None:
    """By which workers of one group tell whose store of outcomes is behind it."""
    bench = Bench()
    bench.commits.metadata = "store=abc"
    bench.finish()
    bench.cycle()
    assert [place.metadata for place in bench.consumer.offered[0]] == ["store=abc"]
