"""How fast one service may be asked, and by how many at once: what all throttling policies share (mind-search.md, limits)."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from shared.exceptions import AppException

SECOND_S: Final = 1.0
MINUTE_S: Final = 60.0
OPEN_FOR_S: Final = 4.0  # a call lasts about so long: a high rate needs room for the calls that it starts meanwhile
LONGEST_CLOSURE_S: Final = 3600.0  # whatever a header says, an hour later somebody looks whether it still holds


class Busy(Exception):  # noqa: N818  it never leaves the policies: each says it with an error of its port
    """Whoever asks now would wait longer than wanted: about `wait_s` seconds."""

    def __init__(self, wait_s: float) -> None:
        super().__init__(wait_s)
        self.wait_s = wait_s


class Pace:
    """The turns of one service, shared by all who ask it.

    `rate` calls in any `per_s` seconds: 10 a minute may come at once and are followed by a pause, 0.33 a second is one in
    any three. None: no rate. `at_once` calls may be under way, more where the rate starts more in OPEN_FOR_S seconds. Turns
    are given in the order of asking; who is cancelled leaves the line, and those behind move up. A rate that is never
    reached costs nothing, however high it is.
    """

    def __init__(
        self,
        rate: float | None,
        per_s: float = SECOND_S,
        *,
        at_once: int,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._burst = max(1, int(rate)) if rate else 0
        self._window_s = per_s * self._burst / rate if rate else 0.0
        self._places = asyncio.Semaphore(max(at_once, math.ceil((rate or 0.0) / per_s * OPEN_FOR_S)))
        self._line = asyncio.Lock()
        self._starts: deque[float] = deque()  # within the window, on our clock
        self._waiting = 0
        self._closed_until = -math.inf
        self._clock = clock
        self._sleep = sleep

    @asynccontextmanager
    async def turn(self, longest_wait_s: float) -> AsyncIterator[None]:
        """Wait for a turn, and keep one of the places for the block. Raises Busy, at once where that can be foreseen."""
        await self._wait(longest_wait_s)
        try:
            yield
        finally:
            self._places.release()

    def heed(self, error: AppException) -> None:
        """The service answered with an error: nobody asks it again before the time that it named."""
        if error.retry_after_s is not None:
            wait = min(error.retry_after_s, LONGEST_CLOSURE_S)
            self._closed_until = max(self._closed_until, self._clock() + wait)

    async def _wait(self, longest_s: float) -> None:
        until = self._clock() + longest_s
        self._check(self._foreseen(), until)
        self._waiting += 1
        try:
            await self._place(longest_s)
            started = False
            try:
                await self._start(until)
                started = True
            finally:
                if not started:
                    self._places.release()
        finally:
            self._waiting -= 1

    async def _place(self, longest_s: float) -> None:
        if not self._places.locked():
            await self._places.acquire()
            return
        try:
            async with asyncio.timeout(longest_s):
                await self._places.acquire()
        except TimeoutError:
            raise Busy(OPEN_FOR_S) from None

    async def _start(self, until: float) -> None:
        """The next start of the window is ours. It is written down when it comes, so that no two windows overlap."""
        async with self._line:
            while (wait := self._opens_at() - self._clock()) > 0:  # a Retry-After may come meanwhile
                self._check(self._clock() + wait, until)
                await self._sleep(wait)
            if self._burst:
                self._starts.append(self._clock())

    def _opens_at(self) -> float:
        """When the first in line may start, not heeding how many are under way."""
        now = self._clock()
        while self._starts and self._starts[0] + self._window_s <= now:
            self._starts.popleft()
        if not self._burst or len(self._starts) < self._burst:
            return self._closed_until
        return max(self._closed_until, self._starts[-self._burst] + self._window_s)

    def _foreseen(self) -> float:
        """When one who comes now would start at the earliest: behind those who wait, each `burst` of them a window later."""
        opens = max(self._opens_at(), self._clock())
        if not self._burst:
            return opens
        windows, place = divmod(self._waiting, self._burst)
        before = len(self._starts) - self._burst + place
        if 0 <= before < len(self._starts):
            opens = max(opens, self._starts[before] + self._window_s)
        return opens + windows * self._window_s

    def _check(self, start: float, until: float) -> None:
        if start > until:
            raise Busy(start - self._clock())
