"""Which offsets of a partition are under way, and below which all are finished.

Requests finish in any order; committed is the floor, the lowest offset that is not finished. Whoever takes over begins
there, so that nothing below it is done again and nothing above it is lost.
"""

from __future__ import annotations

from collections import deque


class PartitionLedger:
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
