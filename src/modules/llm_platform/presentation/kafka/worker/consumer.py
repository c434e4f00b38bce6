"""Run the thread that owns the Kafka consumer. It polls, tracks offsets and commits.

A call from another thread would wait for a running poll, so other threads set flags and send finished requests through a
queue. The thread polls even if it fetches nothing, so a slow request does not exceed max.poll.interval.ms.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from modules.llm_platform.presentation.kafka.contract.outcomes import IncomingRecord
from modules.llm_platform.presentation.kafka.worker import offsets
from modules.llm_platform.presentation.kafka.worker.clients import Callbacks
from modules.llm_platform.presentation.kafka.worker.in_flight_request import InFlightRequest
from modules.llm_platform.presentation.kafka.worker.known_brokers import REPLACED, KnownBrokers
from modules.llm_platform.presentation.kafka.worker.scheduler import SettledQueue
from modules.llm_platform.presentation.kafka.worker.unfetched_partitions import UnfetchedPartitions

log = logging.getLogger(__name__)

POLL_S: Final = 0.1
PAUSE_AFTER_S: Final = (
    1.0  # A pause discards prefetched messages, so partitions pause only after the window stays full.
)
REVOKE_WAIT_S: Final = 5.0  # The longest wait for running requests of revoked partitions.
FINAL_COMMIT_S: Final = 5.0
CLOSE_S: Final = 10.0
CLOSE_UNREACHABLE_S: Final = 0.5
MAX_BATCH: Final = 1000  # Messages of one cycle.
MIN_BATCH_SHARE: Final = 4  # A batch has at least window // 4 messages, if they arrive within BATCH_WAIT_S.
BATCH_WAIT_S: Final = 0.01

REPLACED_UNFETCHED: Final = "a Kafka consumer does not fetch its partitions and is replaced: librdkafka's issue 5586"

_STABLE: Final = "steady"  # The join_state in librdkafka's statistics of a member whose assignment is complete.


@dataclass(frozen=True, slots=True)
class ConsumerState:
    """The state of the consumer, according to librdkafka's statistics.

    - `brokers_up` is the number of connected brokers.
    - `is_stable` is True if the group assignment is complete.
    """

    brokers_up: int = 0
    is_stable: bool = False


def read_state(parsed: Mapping[str, Any]) -> ConsumerState:
    up = {broker.get("nodeid", -1) for broker in parsed.get("brokers", {}).values() if broker.get("state") == "UP"}
    # The id -1 stands for a bootstrap address, and for a second connection to the group coordinator.
    return ConsumerState(len(up - {-1}), parsed.get("cgrp", {}).get("join_state") == _STABLE)


class ConsumerThread:
    """Consumer of the worker's topics. `run` is the body of its thread.

    - `make_consumer` creates a Kafka consumer with the given callbacks.
    - `window` limits the requests in flight.
    - `settled` returns each request once: finished, or abandoned.
    - `on_requests` gets new requests, on this thread.
    - `on_revoke` gets the trackers of revoked partitions twice, on this thread: first with False to cancel requests that
      have not started, then with True to cancel all.
    - `on_error` gets errors of the client that are not fatal.
    - `state` is the state that the client reported last.
    - `full_at` is the time at which the window was last full, on the monotonic clock.
    """

    def __init__(
        self,
        make_consumer: Callable[[Callbacks], Consumer],
        topics: Sequence[str],
        window: int,
        settled: SettledQueue,
        on_requests: Callable[[list[InFlightRequest]], object],
        on_revoke: Callable[[Sequence[offsets.OffsetTracker], bool], object],
        on_error: Callable[[KafkaError], None],
    ) -> None:
        self._trackers: dict[offsets.Partition, offsets.OffsetTracker] = {}
        self.committer = offsets.OffsetCommitter(self._trackers)
        self._make_consumer = make_consumer
        self._open_consumer()
        self._topics = list(topics)
        self._window = window
        self._min_batch = window // MIN_BATCH_SHARE
        self._settled = settled
        self._on_requests, self._on_revoke, self._on_error = on_requests, on_revoke, on_error
        self.state = ConsumerState()
        self._in_flight = 0
        self._paused: set[offsets.Partition] = set()  # The assigned partitions that are paused.
        self.full_at = float("-inf")
        self._full_since: float | None = None
        self._is_draining = self._is_closing = self._is_suspended = False

    # --- called from other threads -------------------------------------------------------------------------------------

    def assignment(self) -> dict[offsets.Partition, offsets.OffsetTracker]:
        """Return the assigned partitions with their trackers."""
        return self._trackers.copy()

    def suspend(self) -> None:
        """Fetch nothing until `resume`, as if the window were full. Requests in flight continue."""
        self._is_suspended = True
        self._wake_up()

    def resume(self) -> None:
        """Fetch again after `suspend`."""
        self._is_suspended = False
        self._wake_up()

    def drain(self) -> None:
        """Fetch nothing any more. Requests in flight continue."""
        self._is_draining = True
        self._wake_up()

    def close(self) -> None:
        """Commit, leave the group, and let `run` return."""
        self._is_draining = self._is_closing = True
        self._wake_up()

    def _wake_up(self) -> None:
        self._settled.put(())

    # --- the thread ----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run until `close`. Raises KafkaException for a fatal error of the client."""
        is_reachable = False
        try:
            self._subscribe()
            while not self._is_closing:
                self._cycle()
                if self._brokers.are_lost:
                    log.warning(REPLACED, extra={"client": "consumer"})
                    self._handle_loss(self._consumer, self._list_assigned_partitions())
                    self._replace_consumer()
                elif self._unfetched.are_stuck:
                    log.warning(REPLACED_UNFETCHED)
                    self._handle_revocation(self._consumer, self._list_assigned_partitions())
                    self._replace_consumer()
            is_reachable = self._commit_finished()
        finally:
            self._leave_group(CLOSE_S if is_reachable else CLOSE_UNREACHABLE_S)

    def _open_consumer(self) -> None:
        """Create a client. The callbacks of its predecessor, which closes on another thread, have no effect any more."""
        brokers = KnownBrokers()
        self._brokers, self._unfetched = brokers, UnfetchedPartitions()

        def update_state(statistics: str) -> None:
            if brokers is self._brokers:
                self._update_state(statistics)

        def on_commit(error: KafkaError | None, partitions: Sequence[TopicPartition]) -> None:
            if brokers is self._brokers:
                self.committer.on_commit(error, partitions)

        self._consumer = self._make_consumer({"on_commit": on_commit, "stats_cb": update_state})

    def _subscribe(self) -> None:
        self._consumer.subscribe(
            self._topics,
            on_assign=self._handle_assignment,
            on_revoke=self._handle_revocation,
            on_lost=self._handle_loss,
        )

    def _replace_consumer(self) -> None:
        """Join the group as a new member."""
        self.committer.forget_requests()
        self._leave_group(CLOSE_UNREACHABLE_S)
        self._open_consumer()
        self._subscribe()

    def _cycle(self) -> None:
        """Take finished requests, fetch new ones or wait for room, and commit."""
        self._settle(0)
        if 0 < self._room < self._min_batch:
            # Wait briefly in an almost full window: small batches cost more for each message.
            deadline = time.monotonic() + BATCH_WAIT_S
            while self._room < self._min_batch and (left := deadline - time.monotonic()) > 0 and not self._is_draining:
                self._settle(left)
        if self._room > 0 and not self._is_draining and not self._is_suspended:
            self._fetch(self._room)
        else:
            self._wait_for_room()
        self.committer.commit_periodically(self._consumer)

    @property
    def _room(self) -> int:
        return self._window - self._in_flight

    def _fetch(self, room: int) -> None:
        self._full_since = None
        self._resume_partitions(tuple(self._paused))
        first = self._consumer.poll(POLL_S)
        if first is None:
            return
        tracker = self._trackers.get(_read_partition(first))
        more = self._consumer.consume(min(room, MAX_BATCH) - 1, timeout=0) if room > 1 else []
        # A rebalance inside the second call may have revoked the partition of the first message, which then belongs to the
        # new owner. Within one call the client itself drops the messages of an earlier assignment.
        is_valid = _read_error(first) is not None or tracker is self._trackers.get(_read_partition(first))
        self._deliver([first, *more] if is_valid else more)

    def _wait_for_room(self) -> None:
        """Wait for finished requests. After PAUSE_AFTER_S, pause the partitions and poll for group events only."""
        now = self.full_at = time.monotonic()
        self._full_since = self._full_since or now
        if not self._is_draining and now - self._full_since < PAUSE_AFTER_S:
            self._settle(offsets.COMMIT_INTERVAL_S)
            return
        # Pause all partitions, including those that were assigned during the pause.
        unpaused = [partition for partition in self._trackers if partition not in self._paused]
        if unpaused:
            self._consumer.pause([TopicPartition(*partition) for partition in unpaused])
            self._paused.update(unpaused)
        # The poll may return a message that was fetched before the pause.
        message = self._consumer.poll(0)
        if message is not None and not self._is_draining:
            self._deliver([message])
        self._settle(POLL_S)

    def _resume_partitions(self, partitions: Iterable[offsets.Partition]) -> None:
        """Resume the partitions that are paused.

        librdkafka remembers the pause of a revoked partition. Without a resume, the partition would stay paused forever when
        it is assigned again.
        """
        paused = [partition for partition in partitions if partition in self._paused]
        if paused:
            self._consumer.resume([TopicPartition(*partition) for partition in paused])
            self._paused.difference_update(paused)

    def _deliver(self, messages: Sequence[Message]) -> None:
        requests = []
        for message in messages:
            error = _read_error(message)
            if error is not None:
                # The client reports fatal errors as messages with this code.
                if error.fatal() or error.code() == KafkaError._FATAL:
                    raise KafkaException(error)
                self._on_error(error)
                continue
            partition = _read_partition(message)
            tracker = self._trackers.get(partition)
            if tracker is None:
                # The partition is no longer assigned: a commit would skip unfinished requests of its new owner.
                continue
            if message.error() is not None:
                tracker.reach_end(message.offset() or 0)
                continue
            if not tracker.is_next(message.offset() or 0):
                # The position was reset.
                tracker = self._trackers[partition] = offsets.OffsetTracker(*partition)
            record = to_record(message)
            tracker.start(record.offset)
            requests.append(InFlightRequest(record, tracker))
        if requests:
            self._in_flight += len(requests)
            self._on_requests(requests)

    def _settle(self, timeout_s: float) -> None:
        """Finish or abandon the settled requests. If there are none, wait up to `timeout_s` seconds for the first."""
        try:
            requests = self._settled.get(timeout=timeout_s) if timeout_s else self._settled.get_nowait()
            while True:
                for request in requests:
                    self._in_flight -= 1
                    if request.is_written:
                        request.tracker.finish(request.record.offset)
                    else:
                        request.tracker.abandon()
                requests = self._settled.get_nowait()
        except queue.Empty:
            return

    def _commit_finished(self) -> bool:
        """Commit finished requests within FINAL_COMMIT_S, and return whether the brokers replied.

        The commit is asynchronous, because a synchronous one has no timeout while the brokers are unreachable.
        """
        self._settle(0)
        deadline = time.monotonic() + FINAL_COMMIT_S
        while (is_pending := self.committer.has_uncommitted()) and time.monotonic() < deadline:
            self.committer.commit_periodically(self._consumer)
            self._consumer.poll(POLL_S)
        # Closing the consumer revokes the partitions. Without trackers, nothing is committed again.
        self._trackers.clear()
        return not is_pending

    def _leave_group(self, timeout_s: float) -> None:
        """Close the client, and wait up to `timeout_s` seconds for it.

        While the brokers are unreachable, a close takes up to a minute and cannot be interrupted. It then continues on a
        daemon thread, which does not keep the process alive.
        """
        closing = threading.Thread(target=self._consumer.close, name="kafka-close", daemon=True)
        closing.start()
        closing.join(timeout_s)
        if closing.is_alive():
            log.warning("the worker ends without leaving the group: the brokers do not answer")

    # --- rebalance callbacks -------------------------------------------------------------------------------------------

    def _handle_assignment(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        if consumer is not self._consumer:
            return
        for partition in partitions:
            self._trackers[partition.topic, partition.partition] = offsets.OffsetTracker(
                partition.topic, partition.partition
            )
        log.info("partitions assigned", extra={"partitions": _name_partitions(partitions)})

    def _handle_revocation(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        """Let running requests finish within REVOKE_WAIT_S, commit, and drop the rest."""
        if consumer is not self._consumer:
            # The client that was replaced closes. Its partitions have been dropped.
            return
        trackers = self._find_trackers(partitions)
        self._on_revoke(trackers, False)
        deadline = time.monotonic() + REVOKE_WAIT_S
        while any(tracker.in_flight for tracker in trackers) and time.monotonic() < deadline:
            self._settle(POLL_S)
        self.committer.commit_now(consumer, trackers)
        self._drop(partitions, trackers)
        log.info("partitions revoked", extra={"partitions": _name_partitions(partitions)})

    def _handle_loss(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        """Drop partitions that another worker already owns, without a commit."""
        if consumer is not self._consumer:
            # Its successor may have these partitions now. Without trackers, their requests would be read and passed over.
            return
        self._drop(partitions, self._find_trackers(partitions))
        log.warning("partitions lost", extra={"partitions": _name_partitions(partitions)})

    def _list_assigned_partitions(self) -> list[TopicPartition]:
        return [TopicPartition(*partition) for partition in self._trackers]

    def _find_trackers(self, partitions: Sequence[TopicPartition]) -> list[offsets.OffsetTracker]:
        trackers = (self._trackers.get((partition.topic, partition.partition)) for partition in partitions)
        return [tracker for tracker in trackers if tracker is not None]

    def _drop(self, partitions: Sequence[TopicPartition], trackers: Sequence[offsets.OffsetTracker]) -> None:
        keys = [(partition.topic, partition.partition) for partition in partitions]
        self._resume_partitions(keys)
        for key in keys:
            self._trackers.pop(key, None)
        self._on_revoke(trackers, True)

    # --- client callbacks ----------------------------------------------------------------------------------------------

    def _update_state(self, statistics: str) -> None:
        parsed = self._brokers.update(statistics)
        self._unfetched.update(parsed, self._trackers)
        self.state = read_state(parsed)


def to_record(message: Message) -> IncomingRecord:
    try:
        headers = message.headers()
    except UnicodeDecodeError:
        # The client returns no headers at all if the name of one is not UTF-8.
        headers = None
    return IncomingRecord(
        message.topic() or "",
        message.partition() or 0,
        message.offset() or 0,
        _encode(message.key()),
        _encode(message.value()),
        tuple(headers) if headers else (),  # type: ignore[arg-type]  # the client's stubs do not say that values are bytes
    )


def _encode(raw: str | bytes | None) -> bytes | None:
    return raw.encode() if isinstance(raw, str) else raw


def _read_error(message: Message) -> KafkaError | None:
    """Return the error of a message.

    Return None for a record, and for the end of a partition, which the client reports as an error.
    """
    error = message.error()
    return None if error is None or error.code() == KafkaError._PARTITION_EOF else error


def _read_partition(message: Message) -> offsets.Partition:
    return message.topic() or "", message.partition() or 0


def _name_partitions(partitions: Iterable[TopicPartition]) -> list[str]:
    return [f"{partition.topic}/{partition.partition}" for partition in partitions]
