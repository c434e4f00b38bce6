"""A request on its way through the worker."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass
from types import TracebackType

from confluent_kafka import Message

from modules.llm_platform.presentation.kafka.contract.outcomes import IncomingRecord

# Which offsets of a partition are under way, and below which all are finished.
# Requests finish in any order; committed is the floor, the lowest offset that is not finished. Whoever takes over
# begins there, so that nothing below it is done again and nothing above it is lost.


class OffsetTracker:
    """The offsets of one assignment of one partition. Only the consumer's thread changes it."""

    __slots__ = ("_finished", "_order", "committed", "floor", "offered", "partition", "read_to", "running", "topic")

    def __init__(self, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self.floor: int | None = None  # what may be committed; None: nothing was finished yet
        self.offered: int | None = None  # the floor that was last sent to the broker
        self.committed: int | None = None  # the floor that the broker has confirmed
        self.read_to: int | None = None  # everything readable below it was read; None: nothing was read yet
        self.running = 0  # started, neither finished nor abandoned
        self._order: deque[int] = deque()  # offsets started and not below the floor
        self._finished: set[int] = set()

    def follows(self, offset: int) -> bool:
        """Whether the offset lies beyond all that were started: it does unless the position was set back."""
        last = self._order[-1] if self._order else (self.floor or 0) - 1
        return offset > last

    def start(self, offset: int) -> None:
        """An offset beyond all earlier ones is under way now."""
        self._order.append(offset)
        self.running += 1
        self.read_to = offset + 1

    def reach(self, end: int) -> None:
        """The partition was read to its end. That may lie beyond the last record: transactions leave markers, which take
        an offset each and are never delivered.
        """
        self.read_to = max(end, self.read_to or 0)

    def behind(self, committed: int, end: int) -> int:
        """Requests that are not committed, where the brokers hold `committed` and the partition ends with `end`. Offsets that
        were not read yet count as requests.
        """
        if self.read_to is None:
            return max(end - committed, 0)
        finished = max(self.floor - max(committed, self.committed or 0), 0) if self.floor is not None else 0
        return finished + len(self._order) + max(end - self.read_to, 0)

    def finish(self, offset: int) -> None:
        """Its outcome is written. The floor rises when it was the lowest that was not finished."""
        self.running -= 1
        order, finished = self._order, self._finished
        if not order or offset != order[0]:
            finished.add(offset)
            return
        order.popleft()
        while order and order[0] in finished:
            offset = order.popleft()
            finished.remove(offset)
        self.floor = offset + 1

    def abandon(self) -> None:
        """An offset will not be finished here: the floor stays below it, whoever comes next begins with it."""
        self.running -= 1

    @property
    def due(self) -> bool:
        """Whether the floor is above what was sent to the broker."""
        return self.floor != self.offered

    def confirmed(self, offset: int) -> None:
        """The broker has this floor now. That may be an older one than was sent last: a commit that was tried again after
        its connection broke arrives behind the next one, and takes the place of its floor. Then the floor is due again.
        """
        if self.offered is not None:  # else the answer belongs to an assignment that is over
            self.committed = self.offered = offset

    def refused(self) -> None:
        """The broker did not take the floor: it is due again."""
        self.offered = self.committed


# Places for stages: so many run at once, and those that wait for a place come in their order.
# A place is held while a stage runs, and not while the store of outcomes is asked or the brokers write: requests for
# which that is done meanwhile keep all places taken.


class Slot:
    """The place of one request, held inside `async with`. `begun` from the moment when it is had, until an exception leaves
    it: then the request has no outcome and waits again.
    """

    __slots__ = ("_slots", "begun")

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self.begun = False

    async def __aenter__(self) -> None:
        slots = self._slots
        if slots.free:
            slots.free -= 1
        else:
            await slots.comes()
        self.begun = True

    async def __aexit__(self, kind: type[BaseException] | None, _error: object, _trace: TracebackType | None) -> None:
        if kind is not None:
            self.begun = False
        self._slots.give()


class Slots:
    """`free`: how many places nobody holds. It is 0 while somebody waits."""

    def __init__(self, count: int) -> None:
        self.free = count
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def comes(self) -> None:
        """Wait for a place that another one gives back."""
        place = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if not place.cancelled():  # it came in the moment in which nobody wanted it any more
                self.give()
            elif place in self._waiting:  # unless somebody gave in the same moment, and passed it over
                self._waiting.remove(place)
            raise

    def give(self) -> None:
        """To the one who has waited longest."""
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(None)
                return
        self.free += 1


# Outcomes of one key leave in the order in which their requests came, although they are computed side by side.


class KeyOrderSlot:
    """The place of one request among those of the same key."""

    __slots__ = ("_key", "_passed", "_tails", "_told", "before")

    def __init__(self, key: Hashable, tails: dict[Hashable, KeyOrderSlot]) -> None:
        self._key = key
        self._tails = tails
        self._passed = False
        self._told: asyncio.Future[None] | None = None  # made when somebody waits: mostly nobody does
        before = tails.get(key)
        self.before = before
        tails[key] = self

    async def comes(self) -> None:
        """Wait until the request before has passed on its turn."""
        before = self.before
        if before is not None and not before._passed:
            if before._told is None:
                before._told = asyncio.get_running_loop().create_future()
            await before._told
        self.before = None  # a long row of turns must not keep itself alive

    def passes(self) -> None:
        """It is the next one's turn. A second call does nothing."""
        if self._passed:
            return
        self._passed = True
        if self._told is not None and not self._told.done():
            self._told.set_result(None)
        if self._tails.get(self._key) is self:
            del self._tails[self._key]


class KeyOrder:
    """The rows of all keys. A row exists while somebody stands in it."""

    def __init__(self) -> None:
        self._tails: dict[Hashable, KeyOrderSlot] = {}

    def take(self, key: Hashable) -> KeyOrderSlot:
        """The last place in the row of that key."""
        return KeyOrderSlot(key, self._tails)

    def __len__(self) -> int:
        return len(self._tails)


@dataclass(slots=True, eq=False)
class Request:
    """`ledger` is that of the assignment under which it was read. `done` is said once: was its outcome written?
    `slot` is there while the handler has it; `shrunk`: the brokers found its outcome too large.
    """

    record: IncomingRecord
    ledger: OffsetTracker
    done: bool = False
    shrunk: bool = False
    turn: KeyOrderSlot | None = None
    slot: Slot | None = None
    task: asyncio.Task[None] | None = None

    @property
    def waits(self) -> bool:
        """Whether its stage has not begun, and there is no outcome yet."""
        return self.slot is not None and not self.slot.begun


def record_of(message: Message) -> IncomingRecord:
    """What a client of Kafka read, without the client's types."""
    try:
        headers = message.headers()
    except UnicodeDecodeError:  # a name that is no UTF-8: the client can give none of them
        headers = None
    return IncomingRecord(
        message.topic() or "",
        message.partition() or 0,
        message.offset() or 0,
        _bytes(message.key()),
        _bytes(message.value()),
        tuple(headers) if headers else (),  # type: ignore[arg-type]  # its values are bytes, whatever its types say
    )


def _bytes(raw: str | bytes | None) -> bytes | None:
    return raw.encode() if isinstance(raw, str) else raw
