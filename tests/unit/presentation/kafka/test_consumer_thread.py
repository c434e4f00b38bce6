"""The thread that owns the consumer, with a consumer that does as it is told."""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from modules.llm_platform.presentation.kafka.worker import consumer
from modules.llm_platform.presentation.kafka.worker.clients import Callbacks
from modules.llm_platform.presentation.kafka.worker.consumer import ConsumerThread, Settled
from modules.llm_platform.presentation.kafka.worker.request import OffsetTracker, Request

PATIENCE_S = 30.0


def message(offset: int, partition: int = 0, error: KafkaError | None = None) -> SimpleNamespace:
    values = {
        "error": error, "topic": "in", "partition": partition, "offset": offset, "key": b"k", "value": b"v",
        "headers": [("a", b"b"), ("c", None)],
    }  # fmt: skip
    return SimpleNamespace(**{name: lambda value=value: value for name, value in values.items()})


def places(*numbers: int) -> list[TopicPartition]:
    return [TopicPartition("in", number) for number in numbers]


class FakeConsumer:
    """Gives what `incoming` holds; `later` is called within the next poll, as the client calls back."""

    def __init__(self) -> None:
        self.incoming: deque[SimpleNamespace] = deque()
        self.later: deque[Callable[[], None]] = deque()
        self.within_consume: deque[Callable[[], None]] = deque()
        self.paused: set[int] = set()  # which the client keeps, whatever is revoked
        self.closed = False
        self.closes = threading.Event()
        self.closes.set()
        self.polls = 0
        self.commits: list[tuple[dict[int, int], bool]] = []
        self.refusing: KafkaError | None = None
        self.answering = True
        self.callbacks: Callbacks = {}

    def made(self, callbacks: Callbacks) -> FakeConsumer:
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
        self.paused.update(each.partition for each in partitions)

    def resume(self, partitions: Sequence[TopicPartition]) -> None:
        self.paused.difference_update(each.partition for each in partitions)

    def commit(self, offsets: list[TopicPartition], asynchronous: bool) -> list[TopicPartition] | None:
        self.commits.append(({each.partition: each.offset for each in offsets}, asynchronous))
        if self.refusing is not None and not asynchronous:
            raise KafkaException(self.refusing)
        error = self.refusing
        if asynchronous and self.answering:
            self.later.append(lambda: self.callbacks["on_commit"](error, offsets))
        return None if asynchronous else offsets

    def close(self) -> None:
        self.closed = True
        self.closes.wait(PATIENCE_S)

    def committed(self, partition: int = 0) -> int | None:
        return next((floors[partition] for floors, _ in reversed(self.commits) if partition in floors), None)


class Rig:
    """A running thread: what arrived, what is let go."""

    def __init__(self, window: int = 4) -> None:
        self.consumer = FakeConsumer()
        self.arrived: list[Request] = []
        self.let_go: list[tuple[list[OffsetTracker], bool]] = []
        self.troubles: list[KafkaError] = []
        self.deliveries = 0
        self.settled: Settled = queue.SimpleQueue()
        self.error: BaseException | None = None
        self.thread = ConsumerThread(
            self.consumer.made, ["in"], window, self.settled, self._delivered,  # type: ignore[arg-type]
            lambda ledgers, at_once: self.let_go.append((list(ledgers), at_once)), self.troubles.append,
        )  # fmt: skip
        self._runner = threading.Thread(target=self._run)

    def _delivered(self, requests: list[Request]) -> None:
        self.deliveries += 1
        self.arrived.extend(requests)

    def _run(self) -> None:
        try:
            self.thread.run()
        except KafkaException as error:
            self.error = error

    def start(self) -> None:
        self._runner.start()

    def end(self) -> None:
        self.thread.leave()
        self._runner.join(PATIENCE_S)
        assert not self._runner.is_alive()

    def within_a_poll(self, call: Callable[[], None]) -> None:
        """The client calls back; returns when it has."""
        over = threading.Event()
        self.consumer.later.append(lambda: (call(), over.set()))  # type: ignore[arg-type,func-returns-value]
        assert over.wait(PATIENCE_S)

    def finish(self, *offsets: int, done: bool = True) -> None:
        those = [request for request in self.arrived if request.record.offset in offsets]
        for request in those:
            request.done = done
        self.settled.put(those)


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.002)


@contextmanager
def running(window: int = 4) -> Iterator[Rig]:
    rig = Rig(window)
    rig.start()
    try:
        rig.within_a_poll(lambda: rig.consumer.callbacks["on_assign"](rig.consumer, places(0, 1)))
        yield rig
    finally:
        rig.end()


def test_floors_are_committed() -> None:
    """Out-of-order completion: committed is the lowest offset that is not finished, never more."""
    with running(10) as rig:
        rig.consumer.incoming.extend(message(offset) for offset in range(5))
        until(lambda: len(rig.arrived) == 5)
        rig.finish(1, 2, 4)
        time.sleep(0.3)
        assert rig.consumer.commits == []
        rig.finish(0)
        until(lambda: rig.consumer.committed() == 3)
        rig.finish(3)
        until(lambda: rig.consumer.committed() == 5)
        until(lambda: rig.thread.commits.age() == 0)
    assert {asynchronous for _, asynchronous in rig.consumer.commits} == {True}


def test_the_record_is_what_was_read() -> None:
    """Key, value and headers, a header without a value among them."""
    with running() as rig:
        rig.consumer.incoming.append(message(7, partition=1))
        until(lambda: bool(rig.arrived))
    record = rig.arrived[0].record
    assert (record.topic, record.partition, record.offset) == ("in", 1, 7)
    assert (record.key, record.value, record.headers) == (b"k", b"v", (("a", b"b"), ("c", None)))


def test_a_full_window_takes_nothing_more() -> None:
    """A while is waited for; then the partitions are paused and the polling goes on; room resumes them."""
    with running(2) as rig:
        rig.consumer.incoming.extend(message(offset) for offset in range(6))
        until(lambda: len(rig.arrived) == 2)
        until(lambda: bool(rig.consumer.paused))
        polls = rig.consumer.polls
        until(lambda: rig.consumer.polls > polls + 3)
        assert len(rig.arrived) == 2
        rig.finish(0)
        until(lambda: len(rig.arrived) == 3)
        assert not rig.consumer.paused


def test_little_room_is_waited_on_for_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """What ends one by one while the window is almost full is replaced in one go, and after a moment in any case."""
    monkeypatch.setattr(consumer, "GATHER_S", PATIENCE_S)
    with running(8) as rig:
        rig.consumer.incoming.extend(message(offset) for offset in range(11))
        until(lambda: len(rig.arrived) == 8)
        deliveries = rig.deliveries
        rig.finish(0)
        time.sleep(0.05)
        assert len(rig.arrived) == 8
        rig.finish(1)
        until(lambda: len(rig.arrived) == 10)
        assert rig.deliveries == deliveries + 1
        monkeypatch.setattr(consumer, "GATHER_S", 0.01)
        rig.finish(2)
        until(lambda: len(rig.arrived) == 11)


def test_the_end_of_a_partition_is_noted() -> None:
    """It is no trouble and no request; behind the last record there may be markers, so the end says what was read."""
    with running(4) as rig:
        end = KafkaError(KafkaError._PARTITION_EOF)
        rig.consumer.incoming.extend([message(0), message(5, error=end), message(3, 1, error=end), message(9, 7, error=end)])
        until(lambda: [ledger.read_to for ledger in rig.thread.assigned().values()] == [5, 3])
        assert (len(rig.arrived), rig.troubles) == (1, [])
        rig.consumer.within_consume.append(lambda: rig.consumer.callbacks["on_revoke"](rig.consumer, places(1)))
        rig.consumer.within_consume.append(lambda: rig.consumer.callbacks["on_assign"](rig.consumer, places(1)))
        rig.consumer.incoming.append(message(8, 1, error=end))
        until(lambda: not rig.consumer.within_consume)
        rig.within_a_poll(lambda: None)  # what was read is noted
        assert rig.thread.assigned()["in", 1].read_to is None, "the end belongs to the assignment before"


def test_when_it_was_full_is_known() -> None:
    """A partition that is not read then waits for room."""
    with running(1) as rig:
        assert rig.thread.full_at < 0
        rig.consumer.incoming.append(message(0))
        until(lambda: rig.thread.full_at > 0)


def test_a_suspended_worker_is_not_stalled() -> None:
    """It takes nothing by intent: that counts as having no room, so nobody asks for a restart; then it goes on."""
    with running(4) as rig:
        rig.thread.suspend()
        until(lambda: bool(rig.consumer.paused))
        rig.consumer.incoming.append(message(0))
        last = rig.thread.full_at
        until(lambda: rig.thread.full_at > last)
        assert rig.arrived == []
        rig.thread.resume_taking()
        until(lambda: len(rig.arrived) == 1)


def test_partitions_that_come_while_it_is_full_are_paused_too() -> None:
    """Else their requests would come on top of a full window."""
    with running(1) as rig:
        rig.consumer.incoming.append(message(0))
        until(lambda: rig.consumer.paused == {0, 1})
        rig.within_a_poll(lambda: rig.consumer.callbacks["on_assign"](rig.consumer, places(2)))
        until(lambda: rig.consumer.paused == {0, 1, 2})


@pytest.mark.parametrize("how", ["on_revoke", "on_lost"])
def test_a_partition_that_goes_while_it_is_paused_comes_back_to_be_read(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client keeps a pause over a revocation. Those that stay are still paused until there is room."""
    monkeypatch.setattr(consumer, "REVOKE_WAIT_S", 0.05)
    with running(1) as rig:
        rig.consumer.incoming.append(message(0))
        until(lambda: rig.consumer.paused == {0, 1})
        rig.within_a_poll(lambda: rig.consumer.callbacks[how](rig.consumer, places(1)))
        until(lambda: rig.consumer.paused == {0})
        rig.finish(0)
        until(lambda: rig.consumer.paused == set())
        rig.within_a_poll(lambda: rig.consumer.callbacks["on_assign"](rig.consumer, places(1)))
        rig.consumer.incoming.append(message(4, partition=1))
        until(lambda: len(rig.arrived) == 2)


def test_revoking_waits_then_commits() -> None:
    """What runs may finish, what has not begun is given up, the floor is committed before the partition goes."""
    with running() as rig:
        rig.consumer.incoming.extend(message(offset) for offset in range(3))
        until(lambda: len(rig.arrived) == 3)
        rig.finish(0)

        def later() -> None:
            until(lambda: bool(rig.let_go))
            rig.finish(2, done=False)
            rig.finish(1)

        helper = threading.Thread(target=later)
        helper.start()
        rig.within_a_poll(lambda: rig.consumer.callbacks["on_revoke"](rig.consumer, places(0)))
        helper.join()
        assert rig.consumer.commits[-1] == ({0: 2}, False)
        assert [at_once for _, at_once in rig.let_go] == [False, True]


def test_revoking_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that takes minutes is handed over: the group does not wait for it, and it is not committed."""
    monkeypatch.setattr(consumer, "REVOKE_WAIT_S", 0.05)
    with running() as rig:
        rig.consumer.incoming.extend(message(offset) for offset in range(2))
        until(lambda: len(rig.arrived) == 2)
        rig.finish(1)
        rig.within_a_poll(lambda: rig.consumer.callbacks["on_revoke"](rig.consumer, places(0)))
        assert rig.let_go[-1][1] is True
        assert rig.consumer.commits == []


def test_what_is_lost_is_not_committed() -> None:
    """Another worker may have it by now: nothing is committed, and what runs is given up at once."""
    with running() as rig:
        rig.consumer.incoming.extend(message(offset) for offset in range(2))
        until(lambda: len(rig.arrived) == 2)
        rig.finish(0)
        rig.within_a_poll(lambda: rig.consumer.callbacks["on_lost"](rig.consumer, places(0, 1)))
        rig.finish(1)
        time.sleep(0.3)
        assert [floors for floors, _ in rig.consumer.commits if floors.get(0, 0) > 1] == []
        assert [at_once for _, at_once in rig.let_go] == [True]


def test_a_partition_that_comes_back_begins_anew() -> None:
    """What is finished late belongs to the old assignment and moves no floor of the new one."""
    with running(10) as rig:
        rig.consumer.incoming.append(message(0))
        until(lambda: len(rig.arrived) == 1)
        rig.within_a_poll(lambda: rig.consumer.callbacks["on_lost"](rig.consumer, places(0)))
        rig.within_a_poll(lambda: rig.consumer.callbacks["on_assign"](rig.consumer, places(0)))
        rig.consumer.incoming.append(message(0))
        until(lambda: len(rig.arrived) == 2)
        rig.arrived[0].done = True
        rig.settled.put([rig.arrived[0]])
        time.sleep(0.3)
        assert rig.consumer.commits == []
        rig.arrived[1].done = True
        rig.settled.put([rig.arrived[1]])
        until(lambda: rig.consumer.committed() == 1)


def test_what_is_another_workers_by_now_is_not_begun() -> None:
    """A partition that is handed over between two calls of the client: what was read of it before is left to its new
    owner, for a commit of ours would hide what that one has not finished. The same for what comes late.
    """
    with running(10) as rig:
        rig.consumer.within_consume.append(lambda: rig.consumer.callbacks["on_revoke"](rig.consumer, places(0)))
        rig.consumer.incoming.extend([message(5), message(6, partition=1)])
        until(lambda: len(rig.arrived) == 1)
        assert rig.arrived[0].record.partition == 1
        rig.consumer.incoming.extend([message(6), message(7, partition=1)])
        until(lambda: len(rig.arrived) == 2)
        assert rig.arrived[1].record.partition == 1


def test_what_was_read_before_a_new_assignment_is_not_begun() -> None:
    """The same when the partition comes back at once: it is read again from what is committed."""
    with running(10) as rig:
        consumer = rig.consumer
        consumer.within_consume.append(lambda: consumer.callbacks["on_revoke"](consumer, places(0)))
        consumer.within_consume.append(lambda: consumer.callbacks["on_assign"](consumer, places(0)))
        consumer.incoming.extend([message(6), message(9, partition=1)])
        until(lambda: len(rig.arrived) == 1)
        assert rig.arrived[0].record.partition == 1


def test_a_position_that_is_set_back_begins_anew() -> None:
    """The log was cut, or an operator set the group back: what is read again is done again."""
    with running(10) as rig:
        rig.consumer.incoming.extend([message(10), message(11), message(3)])
        until(lambda: len(rig.arrived) == 3)
        rig.finish(10, 11)
        time.sleep(0.3)
        assert rig.consumer.committed() is None
        rig.finish(3)
        until(lambda: rig.consumer.committed() == 4)


def test_a_commit_that_is_refused_is_tried_again() -> None:
    """Until it is taken; how long something waits for that can be seen."""
    with running() as rig:
        rig.consumer.refusing = KafkaError(KafkaError.REBALANCE_IN_PROGRESS)
        rig.consumer.incoming.append(message(0))
        until(lambda: len(rig.arrived) == 1)
        rig.finish(0)
        until(lambda: len(rig.consumer.commits) >= 2)
        assert rig.thread.commits.age() > 0
        rig.consumer.refusing = None
        until(lambda: rig.thread.commits.age() == 0)


def test_a_refused_commit_does_not_keep_a_partition() -> None:
    """The next owner does again what was not committed."""
    with running() as rig:
        rig.consumer.refusing = KafkaError(KafkaError.ILLEGAL_GENERATION)
        rig.consumer.incoming.append(message(0))
        until(lambda: len(rig.arrived) == 1)
        rig.finish(0)
        rig.within_a_poll(lambda: rig.consumer.callbacks["on_revoke"](rig.consumer, places(0)))
        assert rig.let_go[-1][1] is True


def test_draining_takes_nothing_more() -> None:
    """Polling goes on, so that the group hears of this worker; what comes is left for the next one."""
    with running() as rig:
        rig.thread.drain()
        until(lambda: bool(rig.consumer.paused))
        rig.consumer.paused.clear()  # a message that was on its way
        rig.consumer.incoming.append(message(0))
        polls = rig.consumer.polls
        until(lambda: rig.consumer.polls > polls + 2)
        assert rig.arrived == []


def test_the_last_commit_is_waited_for() -> None:
    """Leaving commits what is finished."""
    rig = Rig()
    rig.start()
    rig.within_a_poll(lambda: rig.consumer.callbacks["on_assign"](rig.consumer, places(0)))
    rig.consumer.incoming.append(message(0))
    until(lambda: len(rig.arrived) == 1)
    rig.finish(0)
    rig.end()
    assert rig.consumer.committed() == 1
    assert rig.consumer.closed


def test_the_last_commit_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the brokers away nobody answers: the worker ends all the same."""
    monkeypatch.setattr(consumer, "LAST_COMMIT_S", 0.05)
    rig = Rig()
    rig.consumer.answering = False
    rig.start()
    rig.within_a_poll(lambda: rig.consumer.callbacks["on_assign"](rig.consumer, places(0)))
    rig.consumer.incoming.append(message(0))
    until(lambda: len(rig.arrived) == 1)
    rig.finish(0)
    rig.end()
    assert rig.consumer.closed


def test_a_client_that_does_not_close_is_left_behind(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It waits for brokers that are away: the worker ends without it, and says so."""
    monkeypatch.setattr(consumer, "CLOSE_S", 0.05)
    rig = Rig()
    rig.consumer.closes.clear()
    rig.start()
    rig.end()
    assert "the group was not told" in caplog.text
    rig.consumer.closes.set()


def test_trouble_is_told_and_got_over() -> None:
    """An error among the messages is no message; the others arrive."""
    with running() as rig:
        away = KafkaError(KafkaError._ALL_BROKERS_DOWN)
        rig.consumer.incoming.extend([message(0, error=away), message(0)])
        until(lambda: len(rig.arrived) == 1)
        assert rig.troubles == [away]


def test_a_client_beyond_help_ends_the_thread() -> None:
    """`run` raises, and the client is closed."""
    rig = Rig()
    rig.consumer.incoming.append(message(0, error=KafkaError(KafkaError._FENCED, fatal=True)))
    rig.start()
    until(lambda: rig.error is not None)
    assert rig.consumer.closed
    rig.end()


def test_the_view_is_the_last_one() -> None:
    """What the client said of itself can be read from other threads."""
    with running() as rig:
        rig.within_a_poll(lambda: rig.consumer.callbacks["stats_cb"]('{"cgrp": {"join_state": "steady"}}'))
        assert rig.thread.view.joined
