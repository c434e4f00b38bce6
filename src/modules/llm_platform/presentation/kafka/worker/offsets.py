"""Offset tracking and commits: requests finish in any order, and only the offsets below the first unfinished one are committed.

A worker that takes over a partition starts at the committed offset, so it repeats no finished offset below it and skips none.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

log = logging.getLogger(__name__)

COMMIT_INTERVAL_S: Final = 0.2
LOG_INTERVAL_S: Final = 60.0  # pause between two log lines of failing commits

Partition = tuple[str, int]


class OffsetTracker:
    """The offsets of one assignment of one partition. Only the consumer thread changes it."""

    __slots__ = (
        "_finished",
        "_unfinished",
        "committable",
        "committed",
        "in_flight",
        "partition",
        "position",
        "requested",
        "topic",
    )

    def __init__(self, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self.committable: int | None = None  # all offsets below it are finished; None: none is finished yet
        self.requested: int | None = None  # the offset of the last commit request
        self.committed: int | None = None  # the offset that the broker confirmed
        self.position: int | None = None  # the next offset to read; None: nothing was read yet
        self.in_flight = 0  # offsets that were started and neither finished nor abandoned
        self._unfinished: deque[int] = deque()  # started offsets from `committable` on, in order; some may be finished
        self._finished: set[int] = set()  # the finished offsets in `_unfinished`

    def is_next(self, offset: int) -> bool:
        """Return whether the offset follows all started ones. It does unless the position was reset."""
        last = self._unfinished[-1] if self._unfinished else (self.committable or 0) - 1
        return offset > last

    def start(self, offset: int) -> None:
        """Add an offset that follows all started ones."""
        self._unfinished.append(offset)
        self.in_flight += 1
        self.position = offset + 1

    def reach_end(self, end: int) -> None:
        """Move the position to the end of the partition. It may lie beyond the last record: a transaction marker takes an
        offset and is never delivered.
        """
        self.position = max(end, self.position or 0)

    def lag(self, committed: int, end: int) -> int:
        """Return the number of uncommitted requests, given the group's committed offset and the end of the partition.
        Unread offsets count as requests.
        """
        if self.position is None:
            return max(end - committed, 0)
        finished = max(self.committable - max(committed, self.committed or 0), 0) if self.committable is not None else 0
        return finished + len(self._unfinished) + max(end - self.position, 0)

    def finish(self, offset: int) -> None:
        """Mark an offset as finished: its outcome is written."""
        self.in_flight -= 1
        unfinished, finished = self._unfinished, self._finished
        if not unfinished or offset != unfinished[0]:
            finished.add(offset)
            return
        unfinished.popleft()
        while unfinished and unfinished[0] in finished:
            offset = unfinished.popleft()
            finished.remove(offset)
        self.committable = offset + 1

    def abandon(self) -> None:
        """End an offset without an outcome. It stays uncommitted, so the next owner of the partition reads it again."""
        self.in_flight -= 1

    @property
    def needs_commit(self) -> bool:
        """True if the committable offset differs from the one that was last requested."""
        return self.committable != self.requested

    def commit_succeeded(self, offset: int) -> None:
        """Record the broker's offset. It may be older than the last request: a commit that librdkafka repeats after a lost
        connection arrives after the next one and overwrites it. Then the tracker needs a commit again.
        """
        if self.requested is not None:  # otherwise the reply belongs to an earlier assignment
            self.committed = self.requested = offset

    def commit_failed(self) -> None:
        """Mark the committable offset as not requested."""
        self.requested = self.committed


class OffsetCommitter:
    """Commits the offsets of `trackers`, the current assignment. Only the consumer thread uses it, except for `age_s`."""

    def __init__(
        self, trackers: Mapping[Partition, OffsetTracker], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._trackers = trackers
        self._clock = clock
        self._next_commit = 0.0
        self._uncommitted_since: float | None = None
        self._sent: deque[float] = deque()  # times of the commit requests without a reply
        self._next_log = 0.0
        self.metadata = ""  # attached to every commit, see group_watch.py; any thread may set it

    def age_s(self) -> float:
        """Return for how many seconds a finished offset has been uncommitted, or 0 if all are committed."""
        since = self._uncommitted_since
        return self._clock() - since if since is not None and self.has_uncommitted() else 0.0

    def has_uncommitted(self) -> bool:
        """Return whether an offset is finished and not confirmed by the broker."""
        return any(tracker.committable != tracker.committed for tracker in tuple(self._trackers.values()))

    def commit_periodically(self, consumer: Consumer) -> None:
        """Commit asynchronously, every COMMIT_INTERVAL_S at most. The reply comes to `on_commit`.

        The next commit waits for it: librdkafka repeats a commit after a lost connection, which could arrive after a later one
        and set the group back.
        """
        now = self._clock()
        if not self.has_uncommitted():
            self._uncommitted_since = None
        elif self._uncommitted_since is None:
            self._uncommitted_since = now
        if now >= self._next_commit and not self._sent:
            self._next_commit = now + COMMIT_INTERVAL_S
            self._commit(
                consumer, [tracker for tracker in self._trackers.values() if tracker.needs_commit], asynchronous=True
            )

    def commit_now(self, consumer: Consumer, trackers: Iterable[OffsetTracker]) -> None:
        """Commit revoked partitions synchronously."""
        self._commit(
            consumer, [tracker for tracker in trackers if tracker.committable != tracker.committed], asynchronous=False
        )

    def on_commit(self, error: KafkaError | None, partitions: Sequence[TopicPartition]) -> None:
        """Handle the reply to a commit. The client calls this inside a poll, in the order of the requests."""
        sent = self._sent.popleft() if self._sent else self._clock()
        failure = error
        for partition in partitions:
            tracker = self._trackers.get((partition.topic, partition.partition))
            if tracker is None:
                continue
            if error is None and partition.error is None:
                tracker.commit_succeeded(partition.offset)
            else:
                tracker.commit_failed()
                failure = error or partition.error  # brokers can refuse one partition of a request
        if failure is not None:
            now = self._clock()
            if now >= self._next_log:
                self._next_log = now + LOG_INTERVAL_S
                log.warning("offset commits fail", extra={"error": failure.name()})
            return
        if self._uncommitted_since is not None:
            self._uncommitted_since = max(self._uncommitted_since, sent)  # what is uncommitted now finished after that
        self._next_log = 0.0

    def forget_requests(self) -> None:
        """Expect no reply to the commits that were sent: their client is gone."""
        self._sent.clear()

    def _commit(self, consumer: Consumer, trackers: Sequence[OffsetTracker], *, asynchronous: bool) -> None:
        if not trackers:
            return
        offsets = [
            TopicPartition(tracker.topic, tracker.partition, tracker.committable or 0, self.metadata)
            for tracker in trackers
        ]
        for tracker in trackers:
            tracker.requested = tracker.committable
        self._sent.append(self._clock())
        try:
            if asynchronous:
                consumer.commit(offsets=offsets, asynchronous=True)
            else:
                self.on_commit(None, consumer.commit(offsets=offsets, asynchronous=False) or [])
        except KafkaException as error:  # the requests of uncommitted offsets are read again
            self.on_commit(error.args[0], offsets)
