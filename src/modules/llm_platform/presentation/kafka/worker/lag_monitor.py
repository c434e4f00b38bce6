"""The lag of this worker's partitions, and which of them stall, as the brokers report it.

The consumer knows nothing about a partition that it does not fetch, so the monitor queries the ends of the partitions and
the group's committed offsets.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from modules.llm_platform.presentation.kafka.worker.clients import Callbacks
from modules.llm_platform.presentation.kafka.worker.known_brokers import GroupReader
from modules.llm_platform.presentation.kafka.worker.offsets import OffsetTracker, Partition

log = logging.getLogger(__name__)

QUERY_INTERVAL_S: Final = 2.0
MAX_STEP_S: Final = 4.0  # longest time counted between two queries: the process may have been suspended
COMMITTED_TIMEOUT_S: Final = 5.0
END_TIMEOUT_S: Final = 1.0  # limit for one partition
ALL_ENDS_TIMEOUT_S: Final = 10.0
STOP_WAIT_S: Final = 0.2
MAX_NAMED: Final = 3  # partitions that a reason names


@dataclass(slots=True)
class _Progress:
    """The time in `seconds` for which the window had room and `tracker` stayed at `position`."""

    tracker: OffsetTracker
    position: int | None
    seconds: float = 0.0


class LagMonitor:
    """Queries the brokers every QUERY_INTERVAL_S, on its own thread.

    It has its own client, because a call to the worker's consumer would wait behind its poll.

    - `make_client` is `make_group_reader`.
    - `assignment` returns the worker's partitions.
    - `full_at` returns the time on `clock` at which the window was last full: a partition that waits for room does not stall.
    - `stall_s` is the time in seconds after which an unread partition with a lag stalls.
    """

    def __init__(
        self,
        make_client: Callable[[Callbacks], Consumer],
        assignment: Callable[[], Mapping[Partition, OffsetTracker]],
        full_at: Callable[[], float],
        stall_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reader = GroupReader(make_client)
        self._assignment, self._full_at = assignment, full_at
        self._stall_s = stall_s
        self._clock = clock
        self.lag: Mapping[Partition, int] = {}  # uncommitted requests
        self.stalled: Mapping[Partition, float] = {}  # seconds without progress
        self._progress: dict[Partition, _Progress] = {}
        self._queried_at = self._updated_at = clock()
        self._error: str | None = None  # error of the last query
        self._is_failing = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kafka-lag", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread. One that waits for unreachable brokers continues as a daemon."""
        self._stopping.set()
        self._thread.join(STOP_WAIT_S)

    def age_s(self) -> float:
        """Return the seconds since the last complete reply of the brokers."""
        return self._clock() - self._updated_at

    def not_ready(self) -> str | None:
        """Return the partitions that stall, or None if there are none."""
        stalled = sorted(self.stalled)
        if not stalled:
            return None
        names = ", ".join(f"{topic}/{number}" for topic, number in stalled[:MAX_NAMED])
        more = f" and {len(stalled) - MAX_NAMED} more" if len(stalled) > MAX_NAMED else ""
        return f"assigned partitions have requests and are not read ({names}{more}): restart the worker"

    def query(self) -> None:
        """Query the brokers once. A value without a reply keeps its last state."""
        client = self._reader.client()
        self._error = None
        try:
            committed = _query_committed_offsets(client, self._assignment())
            ends = self._ends(client, committed)
        except KafkaException as error:
            self._error = _name_error(error)
            committed, ends = {}, {}
        assigned = self._assignment()  # asked after the replies, so that what was read meanwhile is not a lag
        known = [partition for partition in assigned if partition in ends]
        starts = {
            partition: committed[partition] if committed[partition] >= 0 else ends[partition][0] for partition in known
        }
        previous = {partition: count for partition, count in self.lag.items() if partition in assigned}
        self.lag = previous | {
            partition: assigned[partition].lag(starts[partition], ends[partition][1]) for partition in known
        }
        unread = {
            partition: assigned[partition]
            for partition in known
            if (assigned[partition].position or starts[partition]) < ends[partition][1]
        }
        self._update_stalled(unread, assigned.keys() - set(known))
        # Log the first of consecutive errors.
        if self._error is None:
            self._updated_at = self._clock()
        elif not self._is_failing:
            log.warning("the lag cannot be queried: it stays as it was", extra={"error": self._error})
        self._is_failing = self._error is not None

    def _run(self) -> None:
        while not self._stopping.wait(QUERY_INTERVAL_S):
            self.query()
        self._reader.close()

    def _ends(self, client: Consumer, partitions: Iterable[Partition]) -> dict[Partition, tuple[int, int]]:
        """Return the oldest offset and the end of each partition, without those that have no leader or exceed the timeout."""
        deadline = self._clock() + ALL_ENDS_TIMEOUT_S
        ends: dict[Partition, tuple[int, int]] = {}
        for partition in partitions:
            if self._clock() > deadline:
                break
            try:
                ends[partition] = client.get_watermark_offsets(
                    TopicPartition(*partition), timeout=END_TIMEOUT_S, cached=False
                )
            except KafkaException as error:
                self._error = _name_error(error)
        return ends

    def _update_stalled(self, unread: Mapping[Partition, OffsetTracker], unknown: Iterable[Partition]) -> None:
        """Update the stalled partitions.

        - `unread` are partitions that have more records than were read.
        - `unknown` are partitions without a reply.
        """
        now = self._clock()
        step = min(now - self._queried_at, MAX_STEP_S)
        had_room = self._full_at() < self._queried_at
        self._queried_at = now
        progress = {partition: self._progress[partition] for partition in unknown if partition in self._progress}
        for partition, tracker in unread.items():
            last = self._progress.get(partition)
            if had_room and last is not None and last.tracker is tracker and last.position == tracker.position:
                progress[partition] = last
                last.seconds += step
            else:
                progress[partition] = _Progress(tracker, tracker.position)
        self._progress = progress
        stalled = {partition: state.seconds for partition, state in progress.items() if state.seconds >= self._stall_s}
        for topic, number in stalled.keys() - self.stalled.keys():
            about = {"topic": topic, "partition": number, "lag": self.lag.get((topic, number))}
            log.error("an assigned partition has requests and is not read: restart this worker", extra=about)
        for topic, number in self.stalled.keys() - stalled.keys():
            log.info("a partition no longer stalls", extra={"topic": topic, "partition": number})
        self.stalled = stalled


def _query_committed_offsets(client: Consumer, partitions: Iterable[Partition]) -> dict[Partition, int]:
    """Return the committed offsets. Partitions without a commit have a negative offset. Raises KafkaException."""
    requested = [TopicPartition(*partition) for partition in partitions]
    committed = client.committed(requested, timeout=COMMITTED_TIMEOUT_S) if requested else []
    return {
        (partition.topic, partition.partition): partition.offset for partition in committed if partition.error is None
    }


def _name_error(error: KafkaException) -> str:
    return str(error.args[0].name())
