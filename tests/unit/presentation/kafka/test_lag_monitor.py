"""How far behind partitions are, and which are not read, by what the brokers tell."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from modules.llm_platform.presentation.kafka.worker.consumer import Partition
from modules.llm_platform.presentation.kafka.worker.lag_monitor import LagMonitor
from modules.llm_platform.presentation.kafka.worker.request import OffsetTracker

STALL_S = 6.0
FIRST, SECOND = ("in", 0), ("in", 1)


class Brokers:
    """What they hold, asked through a client; `away` is what they say instead."""

    def __init__(self, ends: Mapping[Partition, int], committed: Mapping[Partition, int] | None = None) -> None:
        self.ends, self.committed_there = dict(ends), dict(committed or {})
        self.oldest = 0
        self.away: KafkaError | None = None
        self.without_leader: set[Partition] = set()

    def poll(self, timeout: float) -> None:
        return None

    def committed(self, places: Sequence[TopicPartition], timeout: float) -> list[SimpleNamespace]:
        if self.away is not None:
            raise KafkaException(self.away)
        offsets = {(each.topic, each.partition): -1001 for each in places} | self.committed_there
        return [
            SimpleNamespace(topic=each.topic, partition=each.partition, error=None, offset=offsets[each.topic, each.partition])
            for each in places
        ]

    def get_watermark_offsets(self, place: TopicPartition, timeout: float, cached: bool) -> tuple[int, int]:
        if (place.topic, place.partition) in self.without_leader:
            raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
        assert not cached, "what the client read last says nothing of what it does not read"
        return self.oldest, self.ends[place.topic, place.partition]


class Rig:
    """A worker that has these partitions, and a clock that is moved by hand."""

    def __init__(self, brokers: Brokers, *places: Partition) -> None:
        self.brokers = brokers
        self.ledgers = {place: OffsetTracker(*place) for place in places}
        self.now = 100.0
        self.full_at = 0.0
        self.monitor = LagMonitor(
            brokers, lambda: dict(self.ledgers), lambda: self.full_at, STALL_S, lambda: self.now,  # type: ignore[arg-type]
        )  # fmt: skip

    def look(self, times: int = 1) -> LagMonitor:
        for _ in range(times):
            self.now += 2
            self.monitor.look()
        return self.monitor


def test_the_lag_is_what_the_brokers_hold() -> None:
    """From what is committed, or from the oldest record, to the end, although this worker has read nothing of it."""
    brokers = Brokers({FIRST: 14, SECOND: 9}, {FIRST: 4})
    brokers.oldest = 2
    assert Rig(brokers, FIRST, SECOND).look().lag == {FIRST: 10, SECOND: 7}


def test_what_was_handed_over_is_no_lag_of_this_worker() -> None:
    """Also while the brokers do not answer."""
    rig = Rig(Brokers({FIRST: 5, SECOND: 5}), FIRST, SECOND)
    assert rig.look().lag == {FIRST: 5, SECOND: 5}
    del rig.ledgers[FIRST]
    rig.brokers.away = KafkaError(KafkaError._TRANSPORT)
    assert rig.look().lag == {SECOND: 5}


def test_markers_of_transactions_are_no_requests() -> None:
    """They take offsets: three requests and a marker that were read to the end are three until they are committed, then 0."""
    rig = Rig(Brokers({FIRST: 4}), FIRST)
    ledger = rig.ledgers[FIRST]
    for offset in range(3):
        ledger.start(offset)
    assert rig.look().lag == {FIRST: 4}  # nobody knows yet what the last one is
    ledger.reach(4)
    assert rig.look().lag == {FIRST: 3}
    ledger.finish(1)
    assert rig.look().lag == {FIRST: 3}
    ledger.finish(0)
    ledger.finish(2)
    assert rig.look().lag == {FIRST: 3}
    rig.brokers.committed_there[FIRST] = 3
    assert rig.look().lag == {FIRST: 0}
    rig.brokers.ends[FIRST] = 7
    assert rig.look().lag == {FIRST: 3}


def test_a_partition_that_holds_markers_alone_has_no_lag() -> None:
    """It was read to its end, and nothing came."""
    rig = Rig(Brokers({FIRST: 2}), FIRST)
    rig.ledgers[FIRST].reach(2)
    monitor = rig.look(10)
    assert (monitor.lag, monitor.not_ready()) == ({FIRST: 0}, None)


def test_a_partition_that_is_behind_and_not_read_is_an_error(caplog: pytest.LogCaptureFixture) -> None:
    """After so long, once, with its name; the other partition is read. When it moves again the worker is ready again."""
    rig = Rig(Brokers({FIRST: 4, SECOND: 5}, {FIRST: 4, SECOND: 2}), FIRST, SECOND)
    assert rig.look(3).not_ready() is None
    monitor = rig.look(4)
    assert monitor.not_ready() == (
        "requests wait in partitions that this worker has and does not read (in/1): restart it"
    )
    assert list(monitor.stalled) == [SECOND]
    errors = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert [(each.topic, each.partition, each.lag) for each in errors] == [("in", 1, 3)]  # type: ignore[attr-defined]
    rig.ledgers[SECOND].start(2)
    assert (rig.look().stalled, monitor.not_ready()) == ({}, None)


def test_the_reason_has_an_end() -> None:
    """A thousand partitions are counted, not listed."""
    places = [("in", number) for number in range(5)]
    monitor = Rig(Brokers(dict.fromkeys(places, 1)), *places).look(10)
    assert "(in/0, in/1, in/2 and 2 more)" in str(monitor.not_ready())


@pytest.mark.parametrize("what", ["full", "reads", "assigned anew", "behind no more"])
def test_a_partition_that_has_its_reason_is_not_stalled(what: str) -> None:
    """The window is full: it waits for room. It is read, if slowly. It came back only now. Its end was reached."""
    rig = Rig(Brokers({FIRST: 1000}), FIRST)
    for number in range(20):
        if what == "full":
            rig.full_at = rig.now + 1
        elif what == "reads":
            rig.ledgers[FIRST].start(number)
        elif what == "assigned anew":
            rig.ledgers[FIRST] = OffsetTracker(*FIRST)
        elif number == 2:
            rig.ledgers[FIRST].reach(1000)
        rig.look()
    assert rig.monitor.not_ready() is None


def test_a_process_that_was_suspended_is_not_stalled() -> None:
    """It could not read either; the time between two looks does not count for more than some seconds."""
    rig = Rig(Brokers({FIRST: 5}), FIRST)
    rig.look()
    rig.now += 3600
    assert rig.look().not_ready() is None


def test_brokers_that_do_not_tell_change_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """The lag stays, its age grows, a stalled partition is still one, and it is said once."""
    rig = Rig(Brokers({FIRST: 5, SECOND: 5}), FIRST, SECOND)
    rig.look(5)
    assert (len(rig.monitor.stalled), rig.monitor.age()) == (2, 0)
    rig.brokers.away = KafkaError(KafkaError._TRANSPORT)
    monitor = rig.look(3)
    assert (monitor.lag, monitor.age(), len(monitor.stalled)) == ({FIRST: 5, SECOND: 5}, 6, 2)
    rig.brokers.away = None
    rig.brokers.without_leader = {FIRST}
    rig.brokers.ends[SECOND] = 8
    assert rig.look().lag == {FIRST: 5, SECOND: 8}
    said = [each.error for each in caplog.records if each.levelno == logging.WARNING]  # type: ignore[attr-defined]
    assert said == ["_TRANSPORT"]
