"""A fixed number of places that callers take in turn, so that one with much to do does not keep the others waiting."""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncGenerator
from concurrent.futures import Future
from contextlib import asynccontextmanager
from threading import Lock


class CallerTurns:
    """Gives out `slots` to callers in turn: if several wait, each gets one place after the others got one.

    With `keeps_room`, a caller takes no more places than it leaves free, so that a new caller finds one at once even if
    places are given back late: alone it has half of them, the second one half of the rest. Any thread may use it.
    """

    def __init__(self, slots: int, *, keeps_room: bool = False) -> None:
        self._free = slots
        self._keeps_room = keeps_room
        self._taken: Counter[str] = Counter()
        self._waiting: dict[str, deque[Future[None]]] = {}  # keyed by caller, in the order of their turns
        self._lock = Lock()

    def ask(self, caller: str) -> Future[None]:
        """Return a future that is done when the caller has a place, to be given back. Cancel it to leave the queue."""
        slot: Future[None] = Future()
        with self._lock:
            self._waiting.setdefault(caller, deque()).append(slot)
            self._fill()
        return slot

    def give_back(self, caller: str) -> None:
        with self._lock:
            self._free += 1
            self._taken[caller] -= 1
            if not self._taken[caller]:
                del self._taken[caller]
            self._fill()

    async def take(self, caller: str) -> None:
        """Wait for a place. A caller that is cancelled has none."""
        slot = self.ask(caller)
        try:
            await asyncio.wrap_future(slot)
        except BaseException:  # a cancellation too must give the place back
            if not slot.cancel():  # it was given at the same moment
                self.give_back(caller)
            raise

    @asynccontextmanager
    async def turn(self, caller: str) -> AsyncGenerator[None]:
        """Wait for a place and hold it."""
        await self.take(caller)
        try:
            yield
        finally:
            self.give_back(caller)

    def _fill(self) -> None:
        """Give free places to those whose turn it is."""
        while True:
            fitting = (name for name in self._waiting if self._free > (self._taken[name] if self._keeps_room else 0))
            caller = next(fitting, None)
            if caller is None:
                return
            queue = self._waiting.pop(caller)
            slot = queue.popleft()
            if queue:
                self._waiting[caller] = queue  # goes behind all others
            if slot.set_running_or_notify_cancel():
                self._free -= 1
                self._taken[caller] += 1
                slot.set_result(None)
