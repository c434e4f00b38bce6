"""Lag and stalled partitions, as reported by the brokers."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from tests.support.cases import for_each

from modules.llm_platform.presentation.kafka.worker.lag_monitor import LagMonitor
from modules.llm_platform.presentation.kafka.worker.offsets import OffsetTracker, Partition

STALL_S = 6.0
FIRST, SECOND = ("in", 0), ("in", 1)


class Brokers:
    """Brokers of a client. `error` is raised instead of an answer."""

    def __init__(self, ends: Mapping[Partition, int], committed: Mapping[Partition, int] | None = None) -> None:
        self.ends, self.committed_offsets = dict(ends), dict(committed or {})
        self.oldest = 0
        self.error: KafkaError | None = None
        self.without_leader: set[Partition] = set()

    def poll(self, timeout: float) -> None:
        return None

    def committed(self, positions: Sequence[TopicPartition], timeout: float) -> list[SimpleNamespace]:
        if self.error is not None:
            raise KafkaException(self.error)
        offsets = {(partition.topic, partition.partition): -1001 for partition in positions} | self.committed_offsets
        return [
            SimpleNamespace(
                topic=partition.topic,
                partition=partition.partition,
                error=None,
                offset=offsets[partition.topic, partition.partition],
            )
            for partition in positions
        ]

    def get_watermark_offsets(self, position: TopicPartition, timeout: float, cached: bool) -> tuple[int, int]:
        if (position.topic, position.partition) in self.without_leader:
            raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
        assert not cached, "what the client read last says nothing of what it does not read"
        return self.oldest, self.ends[position.topic, position.partition]


class Rig:
    """A worker with these partitions, and a scripted clock."""

    def __init__(self, brokers: Brokers, *positions: Partition) -> None:
        self.brokers = brokers
        self.trackers = {position: OffsetTracker(*position) for position in positions}
        self.now = 100.0
        self.full_at = 0.0
        self.monitor = LagMonitor(
            lambda _: brokers,
            lambda: dict(self.trackers),
            lambda: self.full_at,
            STALL_S,
            lambda: self.now,  # type: ignore[arg-type]
        )

    def query(self, times: int = 1) -> LagMonitor:
        for _ in range(times):
            self.now += 2
            self.monitor.query()
        return self.monitor


def test_lag_comes_from_the_brokers() -> None:
    """From the committed or the oldest offset to the end, although this worker has read nothing."""
    brokers = Brokers({FIRST: 14, SECOND: 9}, {FIRST: 4})
    brokers.oldest = 2
    assert Rig(brokers, FIRST, SECOND).query().lag == {FIRST: 10, SECOND: 7}


def test_revoked_partition_has_no_lag() -> None:
    """Also while the brokers do not answer."""
    rig = Rig(Brokers({FIRST: 5, SECOND: 5}), FIRST, SECOND)
    assert rig.query().lag == {FIRST: 5, SECOND: 5}
    del rig.trackers[FIRST]
    rig.brokers.error = KafkaError(KafkaError._TRANSPORT)
    assert rig.query().lag == {SECOND: 5}


def test_transaction_markers_are_not_requests() -> None:
    """Three requests and a marker are a lag of three until they are committed, then 0."""
    rig = Rig(Brokers({FIRST: 4}), FIRST)
    tracker = rig.trackers[FIRST]
    for offset in range(3):
        tracker.start(offset)
    assert rig.query().lag == {FIRST: 4}  # the last offset is still unknown
    tracker.reach_end(4)
    assert rig.query().lag == {FIRST: 3}
    tracker.finish(1)
    assert rig.query().lag == {FIRST: 3}
    tracker.finish(0)
    tracker.finish(2)
    assert rig.query().lag == {FIRST: 3}
    rig.brokers.committed_offsets[FIRST] = 3
    assert rig.query().lag == {FIRST: 0}
    rig.brokers.ends[FIRST] = 7
    assert rig.query().lag == {FIRST: 3}


def test_partition_of_markers_has_no_lag() -> None:
    """It was read to its end."""
    rig = Rig(Brokers({FIRST: 2}), FIRST)
    rig.trackers[FIRST].reach_end(2)
    monitor = rig.query(10)
    assert (monitor.lag, monitor.not_ready()) == ({FIRST: 0}, None)


def test_unread_partition_with_lag_stalls(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged once and makes the worker unready until it is read."""
    rig = Rig(Brokers({FIRST: 4, SECOND: 5}, {FIRST: 4, SECOND: 2}), FIRST, SECOND)
    assert rig.query(3).not_ready() is None
    monitor = rig.query(4)
    assert monitor.not_ready() == ("assigned partitions have requests and are not read (in/1): restart the worker")
    assert list(monitor.stalled) == [SECOND]
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert [(error.topic, error.partition, error.lag) for error in errors] == [("in", 1, 3)]  # type: ignore[attr-defined]
    rig.trackers[SECOND].start(2)
    assert (rig.query().stalled, monitor.not_ready()) == ({}, None)


def test_reason_names_three_partitions() -> None:
    """The others are counted."""
    positions = [("in", number) for number in range(5)]
    monitor = Rig(Brokers(dict.fromkeys(positions, 1)), *positions).query(10)
    assert "(in/0, in/1, in/2 and 2 more)" in str(monitor.not_ready())


@for_each("what", ["full", "reads", "reassigned", "caught up"])
def test_partition_with_a_reason_does_not_stall(what: str) -> None:
    """The window is full, it is read slowly, it was assigned again, or its end was reached."""
    rig = Rig(Brokers({FIRST: 1000}), FIRST)
    for number in range(20):
        if what == "full":
            rig.full_at = rig.now + 1
        elif what == "reads":
            rig.trackers[FIRST].start(number)
        elif what == "reassigned":
            rig.trackers[FIRST] = OffsetTracker(*FIRST)
        elif number == 2:
            rig.trackers[FIRST].reach_end(1000)
        rig.query()
    assert rig.monitor.not_ready() is None


def test_suspended_process_does_not_stall() -> None:
    """A query counts a few seconds at most."""
    rig = Rig(Brokers({FIRST: 5}), FIRST)
    rig.query()
    rig.now += 3600
    assert rig.query().not_ready() is None


def test_failed_query_keeps_the_lag(caplog: pytest.LogCaptureFixture) -> None:
    """Its age grows, a stalled partition stays stalled, and one line is logged."""
    rig = Rig(Brokers({FIRST: 5, SECOND: 5}), FIRST, SECOND)
    rig.query(5)
    assert (len(rig.monitor.stalled), rig.monitor.age_s()) == (2, 0)
    rig.brokers.error = KafkaError(KafkaError._TRANSPORT)
    monitor = rig.query(3)
    assert (monitor.lag, monitor.age_s(), len(monitor.stalled)) == ({FIRST: 5, SECOND: 5}, 6, 2)
    rig.brokers.error = None
    rig.brokers.without_leader = {FIRST}
    rig.brokers.ends[SECOND] = 8
    assert rig.query().lag == {FIRST: 5, SECOND: 8}
    said = [record.error for record in caplog.records if record.levelno == logging.WARNING]  # type: ignore[attr-defined]
    assert said == ["_TRANSPORT"]
