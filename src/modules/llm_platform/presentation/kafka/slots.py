"""Places for stages: so many run at once, and those that wait for a place come in their order.

A place is held while a stage runs, and not while the store of outcomes is asked or the brokers write: requests for which
that is done meanwhile keep all places taken.
"""

from __future__ import annotations

import asyncio
from collections import deque
from types import TracebackType


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
