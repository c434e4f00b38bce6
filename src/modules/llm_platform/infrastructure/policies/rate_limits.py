"""Limits of calls: how often a service is called (MS9), by how many callers at once, and not at all after a Retry-After or
while its circuit is open."""

from __future__ import annotations

import asyncio
import math
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Final, NamedTuple

from modules.llm_platform.domain.deadline import remaining_s
from modules.llm_platform.domain.dtos.llm_dtos import LLMRequest, LLMResponse, LLMStreamPart
from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest, WebSearchResponse
from modules.llm_platform.domain.exceptions import LLMBlockedError, PageBlockedError, WebSearchBlockedError
from modules.llm_platform.domain.ports.llm import ILLMProvider
from modules.llm_platform.domain.ports.page_reader import IPageReader
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from modules.llm_platform.infrastructure.policies.base import LLMPolicy, PageReaderPolicy, WebSearchPolicy
from modules.llm_platform.infrastructure.policies.circuit_breaker import (
    OPEN,
    CircuitBreaker,
    CircuitCall,
    CircuitOpen,
    LLMCircuitOpenError,
    PageCircuitOpenError,
    WebSearchCircuitOpenError,
)
from shared.exceptions import AppException

SECOND_S: Final = 1.0
MINUTE_S: Final = 60.0
CALL_S: Final = 4.0  # the assumed duration of a call: a high rate needs slots for the calls that it starts meanwhile
MAX_CLOSED_S: Final = 3600.0  # a longer Retry-After is tried again after an hour

MAX_LLM_WAIT_S: Final = 30.0  # beyond it the next model, or the extractive writer, is better for a person who waits
MAX_READ_WAIT_S: Final = 10.0  # beyond it the next reader is faster
MAX_SEARCH_WAIT_S: Final = 30.0  # beyond it the next provider, or a later try, is better for a person who waits

LIMITED = "{name} has reached its rate limit for the next {seconds:.0f} s: try later, or raise {setting}"
THE_LIMIT: Final = "the limit"  # of a service without a setting for it
CLOSED = "{name} asked for no requests for the next {seconds:.0f} s: try later"
BUSY = "{name} already serves as many of our requests as it may at once: try again in {seconds:.0f} s"


class RateLimitExceeded(Exception):  # noqa: N818  it never leaves the policies, which raise an error of their port
    """A caller would wait `wait_s` seconds, longer than it accepts; `message` is the template for its error."""

    def __init__(self, wait_s: float, message: str = LIMITED) -> None:
        super().__init__(wait_s)
        self.wait_s = wait_s
        self.message = message


class RateLimiter:
    """The rate limit of one service, shared by all callers.

    `rate` calls start in any `per_s` seconds: with 10 a minute ten may start at once, 0.33 a second is one in any three
    seconds. None: no rate. `max_concurrent` calls run at once, or as many as the rate starts in CALL_S seconds if that is
    more and the number not `is_strict`. Callers start in the order of their arrival; a cancelled one loses its position. A
    limit that is never reached costs nothing, however high it is.
    """

    def __init__(
        self,
        rate: float | None,
        per_s: float = SECOND_S,
        *,
        max_concurrent: int,
        is_strict: bool = False,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._burst = max(1, int(rate)) if rate else 0
        self._window_s = per_s * self._burst / rate if rate else 0.0
        slots = 0 if is_strict else math.ceil((rate or 0.0) / per_s * CALL_S)
        self._slots = asyncio.Semaphore(max(max_concurrent, slots))
        self._start_lock = asyncio.Lock()
        self._starts: deque[float] = deque()  # within the window, on our clock
        self._waiting = 0
        self._closed_until = -math.inf
        self._clock = clock
        self._sleep = sleep

    @asynccontextmanager
    async def slot(self, max_wait_s: float) -> AsyncIterator[None]:
        """Wait until a call may start, and occupy a slot for the block.

        Raises RateLimitExceeded for a wait of more than `max_wait_s`: at once where that can be computed beforehand.
        """
        await self._wait(max_wait_s)
        try:
            yield
        finally:
            self._slots.release()

    def close_for(self, seconds: float) -> None:
        """Start no call for this time, MAX_CLOSED_S at most; a shorter time than an earlier one changes nothing."""
        self._closed_until = max(self._closed_until, self._clock() + min(seconds, MAX_CLOSED_S))

    def closed_s(self) -> float:
        """For how long no call starts after `close_for`; 0 or less: calls may start."""
        return self._closed_until - self._clock()

    def earliest_wait_s(self) -> float:
        """How long a caller that arrives now waits at least: behind those that wait, each `burst` of them takes a window."""
        now = self._clock()
        start = max(self._next_start(), now)
        if not self._burst:
            return start - now
        windows, position = divmod(self._waiting, self._burst)
        previous = len(self._starts) - self._burst + position
        if 0 <= previous < len(self._starts):
            start = max(start, self._starts[previous] + self._window_s)
        return start + windows * self._window_s - now

    async def _wait(self, max_wait_s: float) -> None:
        deadline = self._clock() + max_wait_s
        self._check(self.earliest_wait_s(), max_wait_s)
        self._waiting += 1
        try:
            await self._acquire_slot(max_wait_s)
            has_started = False
            try:
                await self._wait_for_start(deadline)
                has_started = True
            finally:
                if not has_started:
                    self._slots.release()
        finally:
            self._waiting -= 1

    async def _acquire_slot(self, max_wait_s: float) -> None:
        if not self._slots.locked():
            await self._slots.acquire()
            return
        try:
            async with asyncio.timeout(max_wait_s):
                await self._slots.acquire()
        except TimeoutError:
            raise RateLimitExceeded(CALL_S, BUSY) from None

    async def _wait_for_start(self, deadline: float) -> None:
        """The start is recorded when it happens, so that no two windows overlap."""
        async with self._start_lock:
            while (wait_s := self._next_start() - self._clock()) > 0:  # `close_for` may be called meanwhile
                self._check(wait_s, deadline - self._clock())
                await self._sleep(wait_s)
            if self._burst:
                self._starts.append(self._clock())

    def _next_start(self) -> float:
        """When the first waiting caller may start, whatever the number of running calls."""
        now = self._clock()
        while self._starts and self._starts[0] + self._window_s <= now:
            self._starts.popleft()
        if not self._burst or len(self._starts) < self._burst:
            return self._closed_until
        return max(self._closed_until, self._starts[-self._burst] + self._window_s)

    def _check(self, wait_s: float, max_wait_s: float) -> None:
        if wait_s > max_wait_s:
            raise RateLimitExceeded(wait_s, CLOSED if self.closed_s() > max_wait_s else LIMITED)


class _Errors(NamedTuple):
    """The errors of a port for a call that is not made."""

    limited: type[AppException]
    circuit_open: type[AppException]


class _LimitedCalls:
    """The calls of one policy: each takes a slot of the limiter, and its outcome counts for the circuit of the service.

    Nobody waits past the deadline of the work under way. A Retry-After closes the limiter for all callers; a caller that
    would wait for its end longer than `max_closed_s` gets an error at once. The circuit is checked before a caller queues,
    and once more when its turn comes.
    """

    def __init__(
        self,
        limiter: RateLimiter,
        errors: _Errors,
        name: str,
        setting: str,
        max_wait_s: float,
        max_closed_s: float,
        circuit: CircuitBreaker | None,
        is_one_service: bool = True,
    ) -> None:
        self._limiter = limiter
        self._errors = errors
        self._name = name
        self._setting = setting
        self._max_wait_s = max_wait_s
        self._max_closed_s = max_closed_s
        self._circuit = circuit or CircuitBreaker(name, failures_to_open=sys.maxsize)
        self._is_one_service = is_one_service

    @asynccontextmanager
    async def call(self) -> AsyncIterator[CircuitCall]:
        try:
            self._circuit.check()
            if (closed_s := self._limiter.closed_s()) > self._max_closed_s:
                raise RateLimitExceeded(closed_s, CLOSED)
            async with self._limiter.slot(min(self._max_wait_s, remaining_s())):
                with self._circuit.call() as call:
                    yield call
        except RateLimitExceeded as limit:
            message = limit.message.format(name=self._name, seconds=limit.wait_s, setting=self._setting)
            raise self._errors.limited(message, retry_after_s=limit.wait_s) from None
        except CircuitOpen as circuit:
            message = OPEN.format(name=self._name, failures=self._circuit.failures, seconds=circuit.wait_s)
            raise self._errors.circuit_open(message, retry_after_s=circuit.wait_s) from None
        except AppException as error:
            if error.retry_after_s is not None and self._is_one_service and not _is_of_engines(error):
                self._limiter.close_for(error.retry_after_s)
            raise


def _is_of_engines(error: AppException) -> bool:
    """Whether engines behind a service are blocked, which does not close it: another caller may use other engines."""
    return isinstance(error, WebSearchBlockedError) and error.engines_only


class RateLimitedLLM(LLMPolicy):
    """Calls `provider` within the limit of its service; a stream occupies its slot until its end.

    A caller that would wait longer than `max_wait_s` gets LLMBlockedError at once, at no cost.
    """

    def __init__(
        self,
        provider: ILLMProvider,
        limiter: RateLimiter,
        *,
        max_wait_s: float = MAX_LLM_WAIT_S,
        max_closed_s: float = MAX_CLOSED_S,
        circuit: CircuitBreaker | None = None,
    ) -> None:
        super().__init__(provider)
        errors = _Errors(LLMBlockedError, LLMCircuitOpenError)
        self._limited = _LimitedCalls(limiter, errors, provider.name, "LLM_RPS", max_wait_s, max_closed_s, circuit)

    async def generate(self, request: LLMRequest) -> LLMResponse:
        async with self._limited.call():
            return await self._provider.generate(request)

    async def stream(self, request: LLMRequest) -> AsyncIterator[LLMStreamPart]:
        stream = self._provider.stream(request)  # starts with the first `anext`
        async with self._limited.call() as call, aclosing(stream) as parts:  # type: ignore[type-var]
            async for part in parts:
                call.succeed()  # a long stream must not delay the others until its end
                yield part


class RateLimitedPageReader(PageReaderPolicy):
    """Reads within the limit of the service. PageBlockedError at once for a wait of more than `max_wait_s`.

    `is_one_service`: whether all pages come from one service, so that a Retry-After holds for all of them.
    """

    def __init__(
        self,
        reader: IPageReader,
        limiter: RateLimiter,
        *,
        max_wait_s: float = MAX_READ_WAIT_S,
        circuit: CircuitBreaker | None = None,
        is_one_service: bool = True,
    ) -> None:
        super().__init__(reader)
        errors = _Errors(PageBlockedError, PageCircuitOpenError)
        self._limited = _LimitedCalls(
            limiter, errors, "The page reader", "JINA_RPS", max_wait_s, MAX_CLOSED_S, circuit, is_one_service
        )

    async def read(self, url: str) -> Page:
        async with self._limited.call():
            return await self._reader.read(url)


class RateLimitedWebSearch(WebSearchPolicy):
    """Searches within the limit of the service. WebSearchBlockedError at once for a wait of more than `max_wait_s`.

    `setting`: the one that raises the limit, for the error.
    """

    def __init__(
        self,
        provider: IWebSearchProvider,
        limiter: RateLimiter,
        *,
        max_wait_s: float = MAX_SEARCH_WAIT_S,
        max_closed_s: float = MAX_CLOSED_S,
        circuit: CircuitBreaker | None = None,
        setting: str = THE_LIMIT,
    ) -> None:
        super().__init__(provider)
        errors = _Errors(WebSearchBlockedError, WebSearchCircuitOpenError)
        self._limited = _LimitedCalls(limiter, errors, provider.name, setting, max_wait_s, max_closed_s, circuit)

    async def search(self, request: WebSearchRequest) -> WebSearchResponse:
        async with self._limited.call():
            return await self._provider.search(request)
