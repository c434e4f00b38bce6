"""How far behind this worker's partitions are, as the brokers say, and which of them it does not read.

What the consumer read says nothing about a partition that it does not read. So the brokers are asked, for the ends of the
partitions and for the committed offsets of the group.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from modules.llm_platform.presentation.kafka.worker.consumer import Partition
from modules.llm_platform.presentation.kafka.worker.request import OffsetTracker

log = logging.getLogger(__name__)

LOOK_S: Final = 2.0  # from the end of one look to the next
LONGEST_STEP_S: Final = 4.0  # between two looks, for what was not read: the process may have been suspended meanwhile
ASK_S: Final = 5.0  # for the committed offsets
ASK_END_S: Final = 1.0  # for the end of one partition
LOOK_MOST_S: Final = 10.0  # for the ends of all of them
STOP_S: Final = 0.2
NAMED: Final = 3  # partitions of a reason


@dataclass(slots=True)
class _Unread:
    """`seconds` for which the reader had room and the ledger did not get beyond `read_to`."""

    ledger: OffsetTracker
    read_to: int | None
    seconds: float = 0.0


class LagMonitor:
    """Looks every LOOK_S on a thread of its own and with a client of its own: any call to the consumer would wait behind
    its poll. The client is a consumer of the same group that never subscribes, so it is no member. An AdminClient could
    ask for all ends at once, but librdkafka 2.16 ends the process when the coordinator moves while that one asks for the
    committed offsets.

    `assigned` gives the partitions of this worker. `full_at`: when the reader had no room last, by `clock`; a partition
    that waits for room is not stalled. `stall_s`: seconds after which a partition that is behind and not read is stalled.
    """

    def __init__(
        self,
        client: Consumer,
        assigned: Callable[[], Mapping[Partition, OffsetTracker]],
        full_at: Callable[[], float],
        stall_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._assigned, self._full_at = assigned, full_at
        self._stall_s = stall_s
        self._clock = clock
        self.lag: Mapping[Partition, int] = {}  # requests that are not committed
        self.stalled: Mapping[Partition, float] = {}  # seconds for which they were not read
        self._unread: dict[Partition, _Unread] = {}
        self._looked_at = self._known_at = clock()
        self._error: str | None = None  # of this look
        self._failing = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kafka-lag", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """The thread ends; where it waits for brokers that are away, it is left behind."""
        self._stopping.set()
        self._thread.join(STOP_S)

    def age(self) -> float:
        """Seconds since the brokers last told the lag."""
        return self._clock() - self._known_at

    def not_ready(self) -> str | None:
        """Why requests are not answered although the worker runs; None: they are."""
        stalled = sorted(self.stalled)
        if not stalled:
            return None
        names = ", ".join(f"{topic}/{number}" for topic, number in stalled[:NAMED])
        more = f" and {len(stalled) - NAMED} more" if len(stalled) > NAMED else ""
        return f"requests wait in partitions that this worker has and does not read ({names}{more}): restart it"

    def look(self) -> None:
        """Ask the brokers once. What they do not tell stays as it was told last."""
        self._client.poll(0)  # what this client has to log
        self._error = None
        asked = self._assigned()
        try:
            committed = self._committed(asked)
            ends = self._ends(committed)
        except KafkaException as error:
            self._error = _name(error)
            committed, ends = {}, {}
        now = self._assigned()  # after the brokers' answers, so that what was read meanwhile is no lag
        told = [place for place in now if place in ends]
        starts = {place: committed[place] if committed[place] >= 0 else ends[place][0] for place in told}
        lag = {place: count for place, count in self.lag.items() if place in now}
        self.lag = lag | {place: now[place].behind(starts[place], ends[place][1]) for place in told}
        read = {place for place in told if (now[place].read_to or starts[place]) >= ends[place][1]}
        self._find_stalled({place: now[place] for place in told if place not in read}, now.keys() - set(told))
        self._note_error()

    def _run(self) -> None:
        while not self._stopping.wait(LOOK_S):
            self.look()
        self._client.close()

    # --- the questions -------------------------------------------------------------------------------------------------

    def _committed(self, places: Iterable[Partition]) -> dict[Partition, int]:
        """Below 0: nothing of that partition was ever committed. Raises KafkaException."""
        wanted = [TopicPartition(*place) for place in places]
        told = self._client.committed(wanted, timeout=ASK_S) if wanted else []
        return {(each.topic, each.partition): each.offset for each in told if each.error is None}

    def _ends(self, places: Iterable[Partition]) -> dict[Partition, tuple[int, int]]:
        """The oldest offset and the end, without the partitions that have no leader now, or that time does not reach."""
        until = self._clock() + LOOK_MOST_S
        found: dict[Partition, tuple[int, int]] = {}
        for place in places:
            if self._clock() > until:
                break
            try:
                found[place] = self._client.get_watermark_offsets(
                    TopicPartition(*place), timeout=ASK_END_S, cached=False
                )
            except KafkaException as error:
                self._error = _name(error)
        return found

    def _note_error(self) -> None:
        """Said when it begins."""
        if self._error is None:
            self._known_at = self._clock()
        elif not self._failing:
            log.warning("the brokers do not tell the lag: it stays as it was", extra={"error": self._error})
        self._failing = self._error is not None

    # --- what is not read ----------------------------------------------------------------------------------------------

    def _find_stalled(self, behind: Mapping[Partition, OffsetTracker], unknown: Iterable[Partition]) -> None:
        """`behind`: partitions that hold more than was read of them. Of those `unknown` nothing new is known."""
        now = self._clock()
        step = min(now - self._looked_at, LONGEST_STEP_S)
        had_room = self._full_at() < self._looked_at
        self._looked_at = now
        unread = {place: self._unread[place] for place in unknown if place in self._unread}
        for place, ledger in behind.items():
            last = self._unread.get(place)
            if had_room and last is not None and last.ledger is ledger and last.read_to == ledger.read_to:
                unread[place] = last
                last.seconds += step
            else:
                unread[place] = _Unread(ledger, ledger.read_to)
        self._unread = unread
        stalled = {place: each.seconds for place, each in unread.items() if each.seconds >= self._stall_s}
        self._report(stalled)
        self.stalled = stalled

    def _report(self, stalled: Mapping[Partition, float]) -> None:
        for topic, number in stalled.keys() - self.stalled.keys():
            about = {"topic": topic, "partition": number, "lag": self.lag.get((topic, number))}
            log.error("a partition is assigned, behind and not read: restart this worker", extra=about)
        for topic, number in self.stalled.keys() - stalled.keys():
            log.info("a partition is not stalled any more", extra={"topic": topic, "partition": number})


def _name(error: KafkaException) -> str:
    return str(error.args[0].name())
