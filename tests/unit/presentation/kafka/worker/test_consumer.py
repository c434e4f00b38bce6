"""The consumer thread, on a scripted client."""

from __future__ import annotations

import json
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from modules.llm_platform.presentation.kafka.worker import consumer, known_brokers, unfetched_partitions
from modules.llm_platform.presentation.kafka.worker.clients import Callbacks
from modules.llm_platform.presentation.kafka.worker.consumer import ConsumerThread, SettledQueue, read_state
from modules.llm_platform.presentation.kafka.worker.in_flight_request import Ended, InFlightRequest
from modules.llm_platform.presentation.kafka.worker.offsets import OffsetTracker

TIMEOUT_S = 30.0


def message(offset: int, partition: int = 0, error: KafkaError | None = None) -> SimpleNamespace:
    values = {
        "error": error,
        "topic": "in",
        "partition": partition,
        "offset": offset,
        "key": b"k",
        "value": b"v",
        "headers": [("a", b"b"), ("c", None)],
    }
    return SimpleNamespace(**{name: lambda value=value: value for name, value in values.items()})


def positions(*numbers: int) -> list[TopicPartition]:
    return [TopicPartition("in", number) for number in numbers]


class FakeConsumer:
    """Returns `incoming`; `later` runs inside the next poll, as callbacks of the client do."""

    def __init__(self) -> None:
        self.incoming: deque[SimpleNamespace] = deque()
        self.later: deque[Callable[[], None]] = deque()
        self.within_consume: deque[Callable[[], None]] = deque()
        self.paused: set[int] = set()  # the client keeps them, whatever is revoked
        self.closed = False
        self.closes = threading.Event()
        self.closes.set()
        self.polls = 0
        self.commits: list[tuple[dict[int, int], bool]] = []
        self.refusing: KafkaError | None = None
        self.answering = True
        self.callbacks: Callbacks = {}

    def connect(self, callbacks: Callbacks) -> FakeConsumer:
        self.callbacks = callbacks
        return self

    def subscribe(self, topics: Sequence[str], **callbacks: Callable[..., None]) -> None:
        self.callbacks |= callbacks

    def poll(self, timeout: float) -> SimpleNamespace | None:
        self.polls += 1
        while self.later:
            self.later.popleft()()
        if self.incoming and self.incoming[0].partition() not in self.paused:
            return self.incoming.popleft()
        time.sleep(min(timeout, 0.002))
        return None

    def consume(self, count: int, timeout: float) -> list[SimpleNamespace]:
        while self.within_consume:
            self.within_consume.popleft()()
        return [self.incoming.popleft() for _ in range(min(count, len(self.incoming)))]

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        self.paused.update(partition.partition for partition in partitions)

    def resume(self, partitions: Sequence[TopicPartition]) -> None:
        self.paused.difference_update(partition.partition for partition in partitions)

    def commit(self, offsets: list[TopicPartition], asynchronous: bool) -> list[TopicPartition] | None:
        self.commits.append(({offset.partition: offset.offset for offset in offsets}, asynchronous))
        if self.refusing is not None and not asynchronous:
            raise KafkaException(self.refusing)
        error = self.refusing
        if asynchronous and self.answering:
            self.later.append(lambda: self.callbacks["on_commit"](error, offsets))
        return None if asynchronous else offsets

    def close(self) -> None:
        self.closed = True
        self.closes.wait(TIMEOUT_S)

    def committed(self, partition: int = 0) -> int | None:
        return next((offsets[partition] for offsets, _ in reversed(self.commits) if partition in offsets), None)


class Rig:
    """A running consumer thread with its callbacks."""

    def __init__(self, window: int = 4) -> None:
        self.consumer = FakeConsumer()
        self.requests: list[InFlightRequest] = []
        self.revoked: list[tuple[list[OffsetTracker], bool]] = []
        self.errors: list[KafkaError] = []
        self.deliveries = 0
        self.settled: SettledQueue = queue.SimpleQueue()
        self.error: BaseException | None = None
        self.thread = ConsumerThread(
            self.consumer.connect,
            ["in"],
            window,
            self.settled,
            self._delivered,  # type: ignore[arg-type]
            lambda trackers, cancel_running: self.revoked.append((list(trackers), cancel_running)),
            self.errors.append,
        )
        self._runner = threading.Thread(target=self._run)

    def _delivered(self, requests: list[InFlightRequest]) -> None:
        self.deliveries += 1
        self.requests.extend(requests)

    def _run(self) -> None:
        try:
            self.thread.run()
        except KafkaException as error:
            self.error = error

    def start(self) -> None:
        self._runner.start()

    def end(self) -> None:
        self.thread.close()
        self._runner.join(TIMEOUT_S)
        assert not self._runner.is_alive()

    def run_in_poll(self, call: Callable[[], None]) -> None:
        """Run a callback inside a poll, and wait for it."""
        over = threading.Event()
        self.consumer.later.append(lambda: (call(), over.set()))  # type: ignore[arg-type,func-returns-value]
        assert over.wait(TIMEOUT_S)

    def run_cycle_with_commit(self) -> None:
        """Wait for a complete cycle of the thread in which settled requests are taken and a commit is due."""
        until(self.settled.empty)

        def make_due() -> None:
            self.thread.committer._next_commit = 0.0

        for call in (make_due, lambda: None):
            self.run_in_poll(call)

    def finish(self, *offsets: int, is_written: bool = True) -> None:
        settled = [request for request in self.requests if request.record.offset in offsets]
        for request in settled:
            request.state = Ended(is_written)
        self.settled.put(settled)


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.002)


@contextmanager
def running(window: int = 4) -> Iterator[Rig]:
    rig = Rig(window)
    rig.start()
    try:
        rig.run_in_poll(lambda: rig.consumer.callbacks["on_assign"](rig.consumer, positions(0, 1)))
        yield rig
    finally:
        rig.end()


def test_committed_offset_is_the_first_unfinished() -> None:
    """With out-of-order completion."""
    with running(10) as rig:
        rig.consumer.incoming.extend(message(offset) for offset in range(5))
        until(lambda: len(rig.requests) == 5)
        rig.finish(1, 2, 4)
        rig.run_cycle_with_commit()
        assert rig.consumer.commits == []
        rig.finish(0)
        until(lambda: rig.consumer.committed() == 3)
        rig.finish(3)
        until(lambda: rig.consumer.committed() == 5)
        until(lambda: rig.thread.committer.age_s() == 0)
    assert {asynchronous for _, asynchronous in rig.consumer.commits} == {True}


def test_record_has_key_value_and_headers() -> None:
    """Including a header without a value."""
    with running() as rig:
        rig.consumer.incoming.append(message(7, partition=1))
        until(lambda: bool(rig.requests))
    record = rig.requests[0].record
    assert (record.topic, record.partition, record.offset) == ("in", 1, 7)
    assert (record.key, record.value, record.headers) == (b"k", b"v", (("a", b"b"), ("c", None)))


def test_full_window_pauses_partitions() -> None:
    """After a second; polling continues, and room resumes them."""
    with running(2) as rig:
        rig.consumer.incoming.extend(message(offset) for offset in range(6))
        until(lambda: len(rig.requests) == 2)
        until(lambda: bool(rig.consumer.paused))
        polls = rig.consumer.polls
        until(lambda: rig.consumer.polls > polls + 3)
        assert len(rig.requests) == 2
        rig.finish(0)
        until(lambda: len(rig.requests) == 3)
        assert not rig.consumer.paused


def test_almost_full_window_fetches_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Room for a few messages waits briefly for more."""
    monkeypatch.setattr(consumer, "BATCH_WAIT_S", TIMEOUT_S)
    with running(8) as rig:
        rig.consumer.incoming.extend(message(offset) for offset in range(11))
        until(lambda: len(rig.requests) == 8)
        deliveries = rig.deliveries
        rig.finish(0)
        time.sleep(0.05)
        assert len(rig.requests) == 8
        rig.finish(1)
        until(lambda: len(rig.requests) == 10)
        assert rig.deliveries == deliveries + 1
        monkeypatch.setattr(consumer, "BATCH_WAIT_S", 0.01)
        rig.finish(2)
        until(lambda: len(rig.requests) == 11)


def test_partition_end_moves_the_position() -> None:
    """The end of a partition is no error and no request. Transaction markers may follow the last record."""
    with running(4) as rig:
        end = KafkaError(KafkaError._PARTITION_EOF)
        rig.consumer.incoming.extend(
            [message(0), message(5, error=end), message(3, 1, error=end), message(9, 7, error=end)]
        )
        until(lambda: [tracker.position for tracker in rig.thread.assignment().values()] == [5, 3])
        assert (len(rig.requests), rig.errors) == (1, [])
        rig.consumer.within_consume.append(lambda: rig.consumer.callbacks["on_revoke"](rig.consumer, positions(1)))
        rig.consumer.within_consume.append(lambda: rig.consumer.callbacks["on_assign"](rig.consumer, positions(1)))
        rig.consumer.incoming.append(message(8, 1, error=end))
        until(lambda: not rig.consumer.within_consume)
        rig.run_in_poll(lambda: None)  # records read so far are noted
        assert rig.thread.assignment()["in", 1].position is None, "the end belongs to the assignment before"


def test_full_window_is_recorded() -> None:
    """So that a waiting partition does not stall."""
    with running(1) as rig:
        assert rig.thread.full_at < 0
        rig.consumer.incoming.append(message(0))
        until(lambda: rig.thread.full_at > 0)


def test_suspended_consumer_fetches_nothing_and_does_not_stall() -> None:
    """A suspension counts as a full window; `resume` ends it."""
    with running(4) as rig:
        rig.thread.suspend()
        until(lambda: bool(rig.consumer.paused))
        rig.consumer.incoming.append(message(0))
        last = rig.thread.full_at
        until(lambda: rig.thread.full_at > last)
        assert rig.requests == []
        rig.thread.resume()
        until(lambda: len(rig.requests) == 1)


def test_partitions_assigned_to_a_full_window_are_paused() -> None:
    """Else their requests would exceed the window."""
    with running(1) as rig:
        rig.consumer.incoming.append(message(0))
        until(lambda: rig.consumer.paused == {0, 1})
        rig.run_in_poll(lambda: rig.consumer.callbacks["on_assign"](rig.consumer, positions(2)))
        until(lambda: rig.consumer.paused == {0, 1, 2})


@pytest.mark.parametrize("how", ["on_revoke", "on_lost"])
def test_revoked_partition_is_resumed(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """librdkafka keeps a pause over a revocation; the other partitions stay paused."""
    monkeypatch.setattr(consumer, "REVOKE_WAIT_S", 0.05)
    with running(1) as rig:
        rig.consumer.incoming.append(message(0))
        until(lambda: rig.consumer.paused == {0, 1})
        rig.run_in_poll(lambda: rig.consumer.callbacks[how](rig.consumer, positions(1)))
        until(lambda: rig.consumer.paused == {0})
        rig.finish(0)
        until(lambda: rig.consumer.paused == set())
        rig.run_in_poll(lambda: rig.consumer.callbacks["on_assign"](rig.consumer, positions(1)))
        rig.consumer.incoming.append(message(4, partition=1))
        until(lambda: len(rig.requests) == 2)


def test_revocation_waits_and_commits() -> None:
    """Running requests finish, waiting ones are cancelled, and the offset is committed before the partition is revoked."""
    with running() as rig:
        rig.consumer.incoming.extend(message(offset) for offset in range(3))
        until(lambda: len(rig.requests) == 3)
        rig.finish(0)

        def later() -> None:
            until(lambda: bool(rig.revoked))
            rig.finish(2, is_written=False)
            rig.finish(1)

        helper = threading.Thread(target=later)
        helper.start()
        rig.run_in_poll(lambda: rig.consumer.callbacks["on_revoke"](rig.consumer, positions(0)))
        helper.join()
        assert rig.consumer.commits[-1] == ({0: 2}, False)
        assert [cancel_running for _, cancel_running in rig.revoked] == [False, True]


def test_revocation_has_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long request is handed over without a commit."""
    monkeypatch.setattr(consumer, "REVOKE_WAIT_S", 0.05)
    with running() as rig:
        rig.consumer.incoming.extend(message(offset) for offset in range(2))
        until(lambda: len(rig.requests) == 2)
        rig.finish(1)
        rig.run_in_poll(lambda: rig.consumer.callbacks["on_revoke"](rig.consumer, positions(0)))
        assert rig.revoked[-1][1] is True
        assert rig.consumer.commits == []


def test_lost_partition_is_not_committed() -> None:
    """Nothing of a lost partition is committed, neither earlier nor later outcomes. Its requests are cancelled at once."""
    with running() as rig:
        rig.consumer.answering = False  # so what has finished is not committed yet
        rig.consumer.incoming.extend(message(offset) for offset in range(2))
        until(lambda: len(rig.requests) == 2)
        rig.finish(0)
        until(lambda: rig.consumer.committed() == 1)
        commits: list[int] = []

        def lose() -> None:
            commits.append(len(rig.consumer.commits))
            rig.consumer.callbacks["on_lost"](rig.consumer, positions(0, 1))

        rig.run_in_poll(lose)
        rig.finish(1)
        rig.run_cycle_with_commit()
        assert len(rig.consumer.commits) == commits[0]
        assert [cancel_running for _, cancel_running in rig.revoked] == [True]


def test_reassigned_partition_has_a_new_tracker() -> None:
    """Late requests of the old assignment do not affect it."""
    with running(10) as rig:
        rig.consumer.incoming.append(message(0))
        until(lambda: len(rig.requests) == 1)
        rig.run_in_poll(lambda: rig.consumer.callbacks["on_lost"](rig.consumer, positions(0)))
        rig.run_in_poll(lambda: rig.consumer.callbacks["on_assign"](rig.consumer, positions(0)))
        rig.consumer.incoming.append(message(0))
        until(lambda: len(rig.requests) == 2)
        rig.requests[0].state = Ended(is_written=True)
        rig.settled.put([rig.requests[0]])
        rig.run_cycle_with_commit()
        assert rig.consumer.commits == []
        rig.requests[1].state = Ended(is_written=True)
        rig.settled.put([rig.requests[1]])
        until(lambda: rig.consumer.committed() == 1)


def test_message_of_a_revoked_partition_is_dropped() -> None:
    """Also when the partition is revoked between two calls of the client: a commit would skip the new owner's requests."""
    with running(10) as rig:
        rig.consumer.within_consume.append(lambda: rig.consumer.callbacks["on_revoke"](rig.consumer, positions(0)))
        rig.consumer.incoming.extend([message(5), message(6, partition=1)])
        until(lambda: len(rig.requests) == 1)
        assert rig.requests[0].record.partition == 1
        rig.consumer.incoming.extend([message(6), message(7, partition=1)])
        until(lambda: len(rig.requests) == 2)
        assert rig.requests[1].record.partition == 1


def test_message_of_an_earlier_assignment_is_dropped() -> None:
    """The partition is read again from the committed offset."""
    with running(10) as rig:
        consumer = rig.consumer
        consumer.within_consume.append(lambda: consumer.callbacks["on_revoke"](consumer, positions(0)))
        consumer.within_consume.append(lambda: consumer.callbacks["on_assign"](consumer, positions(0)))
        consumer.incoming.extend([message(6), message(9, partition=1)])
        until(lambda: len(rig.requests) == 1)
        assert rig.requests[0].record.partition == 1


def test_reset_position_has_a_new_tracker() -> None:
    """After the log was truncated or the group's offset was reset."""
    with running(10) as rig:
        rig.consumer.incoming.extend([message(10), message(11), message(3)])
        until(lambda: len(rig.requests) == 3)
        rig.finish(10, 11)
        rig.run_cycle_with_commit()
        assert rig.consumer.committed() is None
        rig.finish(3)
        until(lambda: rig.consumer.committed() == 4)


def test_refused_commit_is_retried() -> None:
    """The age shows how long it takes."""
    with running() as rig:
        rig.consumer.refusing = KafkaError(KafkaError.REBALANCE_IN_PROGRESS)
        rig.consumer.incoming.append(message(0))
        until(lambda: len(rig.requests) == 1)
        rig.finish(0)
        until(lambda: len(rig.consumer.commits) >= 2)
        assert rig.thread.committer.age_s() > 0
        rig.consumer.refusing = None
        until(lambda: rig.thread.committer.age_s() == 0)


def test_refused_commit_does_not_block_a_revocation() -> None:
    """The new owner repeats uncommitted requests."""
    with running() as rig:
        rig.consumer.refusing = KafkaError(KafkaError.ILLEGAL_GENERATION)
        rig.consumer.incoming.append(message(0))
        until(lambda: len(rig.requests) == 1)
        rig.finish(0)
        rig.run_in_poll(lambda: rig.consumer.callbacks["on_revoke"](rig.consumer, positions(0)))
        assert rig.revoked[-1][1] is True


def test_drain_fetches_nothing() -> None:
    """Polling continues, so that the group keeps the member."""
    with running() as rig:
        rig.thread.drain()
        until(lambda: bool(rig.consumer.paused))
        rig.consumer.paused.clear()  # a message that was on its way
        rig.consumer.incoming.append(message(0))
        polls = rig.consumer.polls
        until(lambda: rig.consumer.polls > polls + 2)
        assert rig.requests == []


def test_close_commits_finished_requests() -> None:
    """Before the client is closed."""
    rig = Rig()
    rig.start()
    rig.run_in_poll(lambda: rig.consumer.callbacks["on_assign"](rig.consumer, positions(0)))
    rig.consumer.incoming.append(message(0))
    until(lambda: len(rig.requests) == 1)
    rig.finish(0)
    rig.end()
    assert rig.consumer.committed() == 1
    assert rig.consumer.closed


def test_final_commit_has_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """With unreachable brokers the worker still ends."""
    monkeypatch.setattr(consumer, "FINAL_COMMIT_S", 0.05)
    rig = Rig()
    rig.consumer.answering = False
    rig.start()
    rig.run_in_poll(lambda: rig.consumer.callbacks["on_assign"](rig.consumer, positions(0)))
    rig.consumer.incoming.append(message(0))
    until(lambda: len(rig.requests) == 1)
    rig.finish(0)
    rig.end()
    assert rig.consumer.closed


def test_close_has_a_timeout(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """With unreachable brokers the worker ends and logs it."""
    monkeypatch.setattr(consumer, "CLOSE_S", 0.05)
    rig = Rig()
    rig.consumer.closes.clear()
    rig.start()
    rig.end()
    assert "without leaving the group" in caplog.text
    rig.consumer.closes.set()


def test_client_error_is_reported() -> None:
    """Other messages of the batch are delivered."""
    with running() as rig:
        away = KafkaError(KafkaError._ALL_BROKERS_DOWN)
        rig.consumer.incoming.extend([message(0, error=away), message(0)])
        until(lambda: len(rig.requests) == 1)
        assert rig.errors == [away]


@pytest.mark.parametrize("error", [KafkaError(KafkaError._FENCED, fatal=True), KafkaError(KafkaError._FATAL)])
def test_fatal_error_ends_the_thread(error: KafkaError) -> None:
    """`run` raises, and the client is closed. A fenced static member gets a message of the code _FATAL."""
    rig = Rig()
    rig.consumer.incoming.append(message(0, error=error))
    rig.start()
    until(lambda: rig.error is not None)
    assert rig.consumer.closed
    rig.end()


def test_state_comes_from_the_statistics() -> None:
    """Other threads can read it."""
    with running() as rig:
        rig.run_in_poll(lambda: rig.consumer.callbacks["stats_cb"]('{"cgrp": {"join_state": "steady"}}'))
        assert rig.thread.state.is_stable


def test_state_counts_brokers_once() -> None:
    """However many connections there are; and the group is stable."""
    statistics = {
        "brokers": {
            "a:9092/bootstrap": {"nodeid": -1, "state": "UP"},
            "a:9092/1": {"nodeid": 1, "state": "UP"},
            "b:9092/2": {"nodeid": 2, "state": "DOWN"},
            "GroupCoordinator": {"nodeid": -1, "state": "UP"},
        },
        "cgrp": {"join_state": "steady"},
    }
    state = read_state(statistics)
    assert (state.brokers_up, state.is_stable) == (1, True)


def test_state_without_brokers_and_group() -> None:
    """The first statistics have neither."""
    state = read_state({"name": "rdkafka#consumer-1"})
    assert (state.brokers_up, state.is_stable) == (0, False)


def test_consumer_that_has_lost_its_brokers_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """It joins as a new member. The partitions of the old one are lost: their requests are cancelled and nothing is committed.
    What the old client says while it closes changes nothing.
    """
    monkeypatch.setattr(known_brokers, "LOST_AFTER_S", 0.0)
    with running() as rig:
        old, new = rig.consumer, FakeConsumer()
        old.incoming.append(message(0))
        until(lambda: len(rig.requests) == 1)
        rig.thread._make_consumer = new.connect  # type: ignore[assignment]
        before = old.callbacks
        rig.run_in_poll(lambda: before["stats_cb"]('{"brokers": {"GroupCoordinator": {"source": "logical"}}}'))
        until(lambda: "on_assign" in new.callbacks)
        assert (old.closed, rig.revoked[-1][1], old.commits) == (True, True, [])
        rig.consumer = new
        rig.run_in_poll(lambda: new.callbacks["on_assign"](new, positions(0)))
        until(lambda: bool(rig.thread.assignment()))
        tracker = rig.thread.assignment()["in", 0]
        for callback in ("on_revoke", "on_lost", "on_assign"):
            before[callback](old, positions(0))
        assert rig.thread.assignment() == {("in", 0): tracker}
        before["stats_cb"]('{"brokers": {}, "cgrp": {"join_state": "steady"}}')
        assert not rig.thread.state.is_stable
        rig.finish(0, is_written=False)


def test_reply_to_a_commit_of_a_replaced_consumer_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would count as the reply to a commit of the new client, and as its offset."""
    monkeypatch.setattr(known_brokers, "LOST_AFTER_S", 0.0)
    with running() as rig:
        old, new = rig.consumer, FakeConsumer()
        new.answering = False
        rig.thread._make_consumer = new.connect  # type: ignore[assignment]
        before = old.callbacks
        rig.run_in_poll(lambda: before["stats_cb"]('{"brokers": {"GroupCoordinator": {"source": "logical"}}}'))
        until(lambda: "on_assign" in new.callbacks)
        rig.consumer = new
        rig.run_in_poll(lambda: new.callbacks["on_assign"](new, positions(0)))
        new.incoming.append(message(7))
        until(lambda: len(rig.requests) == 1)
        rig.finish(7)
        until(lambda: bool(new.commits))
        rig.run_in_poll(lambda: before["on_commit"](None, [TopicPartition("in", 0, 3)]))
        tracker = rig.thread.assignment()["in", 0]
        assert (tracker.requested, tracker.committed) == (8, None)
        rig.run_in_poll(lambda: new.callbacks["on_commit"](None, [TopicPartition("in", 0, 8)]))
        until(lambda: not rig.thread.committer.has_uncommitted())


def test_consumer_that_does_not_fetch_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """The brokers still answer, so finished work is committed before a new member joins."""
    monkeypatch.setattr(unfetched_partitions, "STUCK_AFTER_S", 0.0)
    statistics = {
        "cgrp": {"state": "up", "join_state": "steady"},
        "brokers": {"a:9092/1": {"nodeid": 1, "state": "UP", "source": "learned"}},
        "topics": {"in": {"partitions": {"0": {"fetch_state": "none"}}}},
    }
    with running() as rig:
        old, new = rig.consumer, FakeConsumer()
        old.incoming.append(message(0))
        until(lambda: len(rig.requests) == 1)
        rig.finish(0)
        until(lambda: rig.thread.committer.has_uncommitted() or bool(old.commits))
        rig.thread._make_consumer = new.connect  # type: ignore[assignment]
        before = old.callbacks
        rig.run_in_poll(lambda: before["stats_cb"](json.dumps(statistics)))
        until(lambda: "on_assign" in new.callbacks)
        assert (old.closed, rig.thread.assignment()) == (True, {})
        assert old.commits
        rig.consumer = new
