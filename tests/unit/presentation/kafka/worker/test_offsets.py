"""Offset tracking and commits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from confluent_kafka import KafkaError, TopicPartition
from hypothesis import given
from hypothesis import strategies as st

from modules.llm_platform.presentation.kafka.worker import offsets
from modules.llm_platform.presentation.kafka.worker.offsets import COMMIT_INTERVAL_S, OffsetCommitter, OffsetTracker


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[int], list[int], set[int]]:
    """Draw rising offsets with gaps, the order in which some are settled, and which of those are abandoned."""
    steps = draw(st.lists(st.integers(1, 4), min_size=1, max_size=40))
    offsets = [sum(steps[: position + 1]) for position in range(len(steps))]
    settled = draw(st.permutations(offsets))[: draw(st.integers(0, len(offsets)))]
    return offsets, settled, set(draw(st.lists(st.sampled_from(offsets), max_size=3)))


@given(history=histories())
def test_committable_offset_is_the_first_unfinished(history: tuple[list[int], list[int], set[int]]) -> None:
    """After every step: all offsets below it are finished."""
    offsets, settled, abandoned = history
    tracker = OffsetTracker("topic", 3)
    for offset in offsets:
        assert tracker.is_next(offset)
        tracker.start(offset)
    finished: set[int] = set()
    for offset in settled:
        if offset in abandoned:
            tracker.abandon()
        else:
            tracker.finish(offset)
            finished.add(offset)
        lowest = next((offset for offset in offsets if offset not in finished), None)
        below = [offset for offset in offsets if lowest is None or offset < lowest]
        assert tracker.committable == (below[-1] + 1 if below else None)
    assert tracker.in_flight == len(offsets) - len(settled)


def test_tracker_stores_nothing_below_the_committable_offset() -> None:
    """While new offsets start and others finish."""
    tracker = OffsetTracker("topic", 0)
    for offset in range(10_000):
        tracker.start(offset)
        if offset % 3 == 2:
            for finished in (offset, offset - 2, offset - 1):
                tracker.finish(finished)
            assert tracker.committable == offset + 1
    assert tracker.in_flight == 1
    assert len(tracker._unfinished) == 1
    assert not tracker._finished


def test_reset_position_is_detected() -> None:
    """An offset that was started before is not next, finished or not."""
    tracker = OffsetTracker("topic", 0)
    tracker.start(5)
    assert not tracker.is_next(5)
    assert not tracker.is_next(4)
    tracker.finish(5)
    assert tracker.is_next(6)
    assert not tracker.is_next(5)


def test_committable_offset_needs_one_commit() -> None:
    """And another one after a failure."""
    tracker = OffsetTracker("topic", 0)
    assert not tracker.needs_commit
    tracker.start(0)
    tracker.finish(0)
    assert tracker.needs_commit
    tracker.requested = tracker.committable
    assert not tracker.needs_commit
    tracker.commit_failed()
    assert tracker.needs_commit
    tracker.requested = tracker.committed = tracker.committable
    tracker.commit_failed()
    assert not tracker.needs_commit


def test_older_commit_that_arrives_late_is_repaired() -> None:
    """A repeated commit overwrites the newer one at the broker."""
    tracker = OffsetTracker("topic", 0)
    for offset in range(3):
        tracker.start(offset)
        tracker.finish(offset)
    tracker.requested = tracker.committable
    tracker.commit_succeeded(3)
    assert not tracker.needs_commit
    tracker.commit_succeeded(1)
    assert (tracker.needs_commit, tracker.committed, tracker.committable) == (True, 1, 3)


def test_reply_of_an_earlier_assignment_is_ignored() -> None:
    """A new tracker has requested no commit."""
    tracker = OffsetTracker("topic", 0)
    tracker.start(7)
    tracker.commit_succeeded(5)
    assert (tracker.needs_commit, tracker.committed) == (False, None)


REFUSED = KafkaError(KafkaError.UNKNOWN_MEMBER_ID)


def test_repeated_commit_failures_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """And again after a success."""
    committer = OffsetCommitter({})
    for error in (REFUSED, REFUSED, None, REFUSED):
        committer.on_commit(error, [])
    assert [record.message for record in caplog.records] == ["offset commits fail"] * 2


def test_lasting_commit_failures_are_logged_again(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After LOG_INTERVAL_S."""
    monkeypatch.setattr(offsets, "LOG_INTERVAL_S", 0.0)
    committer = OffsetCommitter({})
    for _ in range(3):
        committer.on_commit(REFUSED, [])
    assert len(caplog.records) == 3


class FakeConsumer:
    """Records commits; the test replies."""

    def __init__(self) -> None:
        self.requested: list[list[TopicPartition]] = []

    def commit(self, *, offsets: list[TopicPartition], asynchronous: bool) -> None:
        self.requested.append(offsets)


@dataclass
class FakePlace:
    """A partition of a reply. The client's own class does not let a test set `error`."""

    partition: int
    offset: int
    error: KafkaError | None
    topic: str = "in"


class Rig:
    """An OffsetCommitter of one partition with a manual clock."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.tracker = OffsetTracker("in", 0)
        self.trackers = {("in", 0): self.tracker}
        self.committer = OffsetCommitter(self.trackers, lambda: self.now)
        self.consumer = FakeConsumer()
        self._offset = 0

    def finish(self) -> None:
        self.tracker.start(self._offset)
        self.tracker.finish(self._offset)
        self._offset += 1

    def cycle(self, after_s: float = COMMIT_INTERVAL_S) -> float:
        """Advance the clock, commit if due, and return the age."""
        self.now += after_s
        self.committer.commit_periodically(self.consumer)  # type: ignore[arg-type]
        return round(self.committer.age_s(), 3)

    def reply(self, error: KafkaError | None = None) -> None:
        """Reply to the oldest commit."""
        committed: Sequence[TopicPartition] = self.consumer.requested.pop(0)
        self.committer.on_commit(error, committed)


def test_commit_age_starts_with_the_work() -> None:
    """Not with the last commit; without uncommitted work it is 0."""
    rig = Rig()
    assert rig.cycle() == 0.0
    for _ in range(2):
        assert rig.cycle(3600) == 0.0
        rig.finish()
        assert (rig.cycle(), rig.cycle(0.05)) == (0.0, 0.05)
        rig.reply()
        assert rig.committer.age_s() == 0.0


def test_commit_age_grows_while_commits_fail() -> None:
    """From the oldest work on, until the first success."""
    rig = Rig()
    rig.finish()
    rig.cycle()
    for tries in range(1, 6):
        rig.finish()
        rig.reply(REFUSED)
        assert rig.cycle(1.0) == tries
    rig.reply()
    assert rig.committer.age_s() == 0.0


def test_commit_age_is_that_of_uncommitted_work() -> None:
    """A late reply leaves what finished after its commit."""
    rig = Rig()
    for _ in range(4):
        rig.finish()
        rig.cycle(1.0)
    assert rig.committer.age_s() == 3.0
    rig.reply()
    assert rig.committer.age_s() == 3.0
    assert rig.cycle() == 3.2
    rig.reply()
    assert rig.committer.age_s() == 0.0


def test_a_commit_waits_for_the_reply_to_the_last_one() -> None:
    """A commit that the client repeats cannot arrive after a later one and set the group back."""
    rig = Rig()
    for _ in range(3):
        rig.finish()
        rig.cycle()
    assert [position.offset for [position] in rig.consumer.requested] == [1]
    rig.reply(REFUSED)
    rig.cycle()
    assert [position.offset for [position] in rig.consumer.requested] == [3]


def test_commit_age_grows_while_the_commits_of_one_partition_fail(caplog: pytest.LogCaptureFixture) -> None:
    """The brokers confirm the other partitions of the same request, and report no error for the whole."""
    rig = Rig()
    moved = rig.trackers["in", 1] = OffsetTracker("in", 1)
    moved.start(0)
    moved.finish(0)
    for tries in range(4):
        rig.finish()
        assert rig.cycle(1.0) == tries
        committed = [FakePlace(0, rig.tracker.committable or 0, None), FakePlace(1, 1, REFUSED)]
        rig.consumer.requested.clear()
        rig.committer.on_commit(None, committed)  # type: ignore[arg-type]
    assert [record.message for record in caplog.records] == ["offset commits fail"]


def test_revoked_partition_has_no_commit_age() -> None:
    """It is another worker's: nothing of it can be committed here."""
    rig = Rig()
    rig.finish()
    rig.cycle()
    rig.trackers.clear()
    assert (rig.committer.age_s(), rig.cycle(1.0)) == (0.0, 0.0)


def test_commit_has_metadata() -> None:
    """It names the worker's outcome store."""
    rig = Rig()
    rig.committer.metadata = "store=abc"
    rig.finish()
    rig.cycle()
    assert [position.metadata for position in rig.consumer.requested[0]] == ["store=abc"]
