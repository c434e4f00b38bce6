"""No more reads a second than a service allows, and none while it asked to be left alone."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.exceptions import PageBlockedError
from modules.llm_platform.domain.ports.page_reader import IPageReader

LONGEST_WAIT_S: Final = 10.0  # beyond it the next reader is quicker

BUSY = "The page reader may not be asked more often: it is busy for the next {seconds:.0f} s"


class ThrottledPageReader(IPageReader):
    """`rps` reads a second: 5 means at most five in any second, 0.33 one in any three. Who would wait longer than
    `longest_wait_s` is sent away with PageBlockedError at once; Retry-After is honoured for all.
    """

    def __init__(
        self,
        reader: IPageReader,
        rps: float,
        *,
        longest_wait_s: float = LONGEST_WAIT_S,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.name = reader.name
        self._reader = reader
        burst = max(1, int(rps))
        self._window_s = burst / rps
        self._starts: deque[float] = deque([float("-inf")] * burst, maxlen=burst)
        self._closed_until = float("-inf")
        self._longest_wait_s = longest_wait_s
        self._clock = clock
        self._sleep = sleep

    async def read(self, url: str) -> Page:
        now = self._clock()
        start = max(now, self._starts[0] + self._window_s, self._closed_until)
        wait = start - now
        if wait > self._longest_wait_s:
            raise PageBlockedError(BUSY.format(seconds=wait), retry_after_s=wait)
        self._starts.append(start)
        if wait > 0:
            await self._sleep(wait)
        try:
            return await self._reader.read(url)
        except PageBlockedError as error:
            if error.retry_after_s is not None:
                self._closed_until = max(self._closed_until, self._clock() + error.retry_after_s)
            raise
