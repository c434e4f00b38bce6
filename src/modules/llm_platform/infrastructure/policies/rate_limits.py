"""How fast one service may be asked, and by how many at once: what all throttling policies share (requirement MS9)."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from typing import Final

from modules.llm_platform.domain.dtos.llm_dtos import LLMRequest, LLMResponse, LLMStreamPart
from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest, WebSearchResponse
from modules.llm_platform.domain.exceptions import (
    LLMBlockedError,
    LLMException,
    PageBlockedError,
    WebSearchBlockedError,
)
from modules.llm_platform.domain.ports.llm import ILLMProvider, IWarmUp
from modules.llm_platform.domain.ports.page_reader import IPageReader
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from shared.exceptions import AppException

SECOND_S: Final = 1.0
MINUTE_S: Final = 60.0
OPEN_FOR_S: Final = 4.0  # a call lasts about so long: a high rate needs room for the calls that it starts meanwhile
LONGEST_CLOSURE_S: Final = 3600.0  # whatever a header says, an hour later somebody looks whether it still holds


class RateLimited(Exception):  # noqa: N818  it never leaves the policies: each says it with an error of its port
    """Whoever asks now would wait longer than wanted: about `wait_s` seconds."""

    def __init__(self, wait_s: float) -> None:
        super().__init__(wait_s)
        self.wait_s = wait_s


class RateLimiter:
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
            raise RateLimited(OPEN_FOR_S) from None

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
            raise RateLimited(start - self._clock())


# No more calls a second than a model's service allows, and none while it asked to be left alone.


LONGEST_LLM_WAIT_S: Final = 30.0  # beyond it the next model, or the extractive writer, is better for a person who waits

LLM_BUSY = "{name} may not be asked more often: it is busy for the next {seconds:.0f} s; try later, or raise LLM_RPS"


class ThrottledLLM(ILLMProvider):
    """Asks `llm` at the pace of its service; a streamed answer keeps its place until its end. Who would wait longer than
    `longest_wait_s` is sent away at once with LLMBlockedError that cost no call; a Retry-After is honoured for all who
    share the pace, whichever of them was told.
    """

    def __init__(self, llm: ILLMProvider, pace: RateLimiter, *, longest_wait_s: float = LONGEST_LLM_WAIT_S) -> None:
        self.name = llm.name
        self.model = llm.model
        self._llm = llm
        self._pace = pace
        self._longest_wait_s = longest_wait_s

    async def generate(self, request: LLMRequest) -> LLMResponse:
        with self._told_by_the_port():
            async with self._pace.turn(self._longest_wait_s):
                return await self._llm.generate(request)

    async def stream(self, request: LLMRequest) -> AsyncIterator[LLMStreamPart]:
        with self._told_by_the_port():
            parts = self._llm.stream(request)  # begins when it is first asked for a part
            async with self._pace.turn(self._longest_wait_s), aclosing(parts) as stream:  # type: ignore[type-var]
                async for part in stream:
                    yield part

    async def warm_up(self) -> None:
        if isinstance(self._llm, IWarmUp):
            await self._llm.warm_up()

    @contextmanager
    def _told_by_the_port(self) -> Iterator[None]:
        """A turn that is not to be had becomes an error of the port; a wait that the service names holds for all."""
        try:
            yield
        except RateLimited as busy:
            words = LLM_BUSY.format(name=self.name, seconds=busy.wait_s)
            raise LLMBlockedError(words, retry_after_s=busy.wait_s) from None
        except LLMException as error:
            self._pace.heed(error)
            raise


# No more reads a second than a service allows, and none while it asked to be left alone.


LONGEST_READ_WAIT_S: Final = 10.0  # beyond it the next reader is quicker

READER_BUSY = "The page reader may not be asked more often: it is busy for the next {seconds:.0f} s"


class ThrottledPageReader(IPageReader):
    """Reads at the pace of its service. Who would wait longer than `longest_wait_s` is sent away at once with
    PageBlockedError; Retry-After is honoured for all.
    """

    def __init__(self, reader: IPageReader, pace: RateLimiter, *, longest_wait_s: float = LONGEST_READ_WAIT_S) -> None:
        self.name = reader.name
        self._reader = reader
        self._pace = pace
        self._longest_wait_s = longest_wait_s

    async def read(self, url: str) -> Page:
        try:
            async with self._pace.turn(self._longest_wait_s):
                return await self._asked(url)
        except RateLimited as busy:
            raise PageBlockedError(READER_BUSY.format(seconds=busy.wait_s), retry_after_s=busy.wait_s) from None

    async def _asked(self, url: str) -> Page:
        try:
            return await self._reader.read(url)
        except AppException as error:
            self._pace.heed(error)
            raise


# No more searches a minute than a service allows, and none while it asked to be left alone.


LONGEST_SEARCH_WAIT_S: Final = 30.0  # beyond it the next provider, or a later try, is better for a person who waits

SEARCH_BUSY = (
    "{name} may not be asked more often: it is busy for the next {seconds:.0f} s; try later, or raise {setting}"
)


class ThrottledWebSearch(IWebSearchProvider):
    """Asks `provider` at the pace of its service. Who would wait longer than `longest_wait_s` is sent away at once with
    WebSearchBlockedError; a Retry-After of the service is honoured for all who share the pace, whichever of them was told.
    That of engines behind it is not: somebody else may ask others.
    """

    def __init__(
        self,
        provider: IWebSearchProvider,
        pace: RateLimiter,
        *,
        longest_wait_s: float = LONGEST_SEARCH_WAIT_S,
        setting: str = "SEARXNG_RPM",
    ) -> None:
        self.name = provider.name
        self._provider = provider
        self._pace = pace
        self._longest_wait_s = longest_wait_s
        self._setting = setting

    async def search(self, request: WebSearchRequest) -> WebSearchResponse:
        try:
            async with self._pace.turn(self._longest_wait_s):
                return await self._asked(request)
        except RateLimited as busy:
            words = SEARCH_BUSY.format(name=self.name, seconds=busy.wait_s, setting=self._setting)
            raise WebSearchBlockedError(words, retry_after_s=busy.wait_s) from None

    async def _asked(self, request: WebSearchRequest) -> WebSearchResponse:
        try:
            return await self._provider.search(request)
        except AppException as error:
            if not (isinstance(error, WebSearchBlockedError) and error.engines_only):
                self._pace.heed(error)
            raise
