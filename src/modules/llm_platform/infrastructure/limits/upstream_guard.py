"""The guard of an upstream: every call of a search provider, a language model or a page reader passes through it once.

It enforces the rate limit and the circuit breaker of the service, counts and traces the call, and retries it once after a
transient error. Callers that share a service share its circuit and its retry budget.
"""

from __future__ import annotations

import asyncio
import logging
import random
import sys
import time
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Final, NamedTuple, Self, TypeVar

from modules.llm_platform.domain import exceptions
from modules.llm_platform.domain.concurrency.deadline import remaining_s
from modules.llm_platform.domain.ports.metrics import NO_METRICS, IMetrics
from modules.llm_platform.domain.ports.tracing import CURRENT_SPAN, NO_SPAN, ISpan, traced
from modules.llm_platform.domain.telemetry.metrics import OK, UPSTREAM_DURATION, UPSTREAM_REQUESTS, result_label
from modules.llm_platform.domain.telemetry.spans import UPSTREAM, UPSTREAM_KIND, UPSTREAM_SPAN
from modules.llm_platform.infrastructure.limits import upstream_limits
from shared.exceptions import AppException

log = logging.getLogger(__name__)

Value = TypeVar("Value")
Sleep = Callable[[float], Awaitable[None]]
Jitter = Callable[[], float]  # 0 to 1


class UpstreamKind(NamedTuple):
    """The limits and errors of the upstreams of one port.

    - `blocked` and `unreachable` are the port's errors for a call that a limit, or the circuit, does not allow.
    - `max_wait_s` is the time that a caller waits for its turn, unless its guard has another.
    - `pause_s` is the maximum of the pause before a retry. The pause is random ("full jitter"), so that the retries of many
      callers do not arrive together, and is added to a Retry-After.
    - `max_pause_s` is the longest Retry-After that a retry waits for.
    - `retried` are the errors after which a call is tried again, unless they are in `final`. Errors in `timed` are
      tried again only with a Retry-After.
    """

    label: str
    blocked: type[AppException]
    unreachable: type[AppException]
    max_wait_s: float
    pause_s: float = 0.0
    max_pause_s: float = 0.0
    retried: tuple[type[AppException], ...] = ()
    final: tuple[type[AppException], ...] = ()
    timed: tuple[type[AppException], ...] = ()


SEARCH: Final = UpstreamKind(
    "search",
    exceptions.WebSearchBlockedError,
    exceptions.WebSearchConnectionError,
    max_wait_s=30.0,  # beyond it the next provider, or a later try, is better for a person who waits
    pause_s=0.2,  # long enough for a proxy to restart
    max_pause_s=1.5,  # plans of one search a second refuse the second of two simultaneous searches
    retried=(exceptions.WebSearchConnectionError,),
    final=(exceptions.WebSearchTimeoutError,),
    timed=(exceptions.WebSearchBlockedError,),
)
MODEL: Final = UpstreamKind(
    "llm",
    exceptions.LLMBlockedError,
    exceptions.LLMConnectionError,
    max_wait_s=30.0,  # beyond it the next model, or the extractive writer, is better for a person who waits
    pause_s=1.0,  # long enough for a gateway to find another worker, short enough for a person to wait
    max_pause_s=3.0,  # the next writer answers sooner than after a longer pause
    retried=(exceptions.LLMConnectionError, exceptions.LLMUnavailableError),
    final=(exceptions.LLMTimeoutError, exceptions.LLMQuotaError),
)
PAGE_READER: Final = UpstreamKind(
    "page_reader",
    exceptions.PageBlockedError,
    exceptions.PageConnectionError,
    max_wait_s=10.0,  # beyond it the next reader is faster
)


class UpstreamGuard:
    """The guard of the upstream `name`, which limits and repeats its calls.

    A caller that would wait too long for its turn, or past its deadline, gets the port's error at once and at no cost.

    - `circuit` counts failures. Without it, they are not counted.
    - `retries` is the retry budget. Without it, no call is retried.
    - `max_wait_s` is the longest wait for a turn. `setting` is the one that raises the limit.
    - `max_closed_s` is the longest wait for the end of a Retry-After.
    - `is_one_service` is True if a Retry-After holds for all calls.
    - `label` names the service in errors.
    """

    def __init__(
        self,
        kind: UpstreamKind,
        name: str,
        limiter: upstream_limits.RateLimiter,
        circuit: upstream_limits.CircuitBreaker | None = None,
        retries: upstream_limits.RetryBudget | None = None,
        *,
        max_wait_s: float | None = None,
        max_closed_s: float = upstream_limits.MAX_CLOSED_S,
        setting: str = upstream_limits.THE_LIMIT,
        label: str = "",
        is_one_service: bool = True,
        metrics: IMetrics = NO_METRICS,
        sleep: Sleep = asyncio.sleep,
        jitter: Jitter = random.random,
    ) -> None:
        self.kind = kind
        self.name = name
        self.circuit = circuit or upstream_limits.CircuitBreaker(name, failures_to_open=sys.maxsize)
        self.metrics = metrics
        self._limiter = limiter
        self._retries = retries
        self._max_wait_s = kind.max_wait_s if max_wait_s is None else max_wait_s
        self._max_closed_s = max_closed_s
        self._setting = setting
        self._label = label or name
        self._is_one_service = is_one_service
        self.sleep = sleep
        self._jitter = jitter

    async def call(self, send: Callable[[], Awaitable[Value]]) -> Value:
        """Return the result of `send`, which is called a second time after a transient error."""
        attempt = Attempt(self)
        self.record_call()
        try:
            async with attempt:
                return await send()
        except AppException as error:
            pause_s = self.retry_pause_s(error, attempt)
            if pause_s is None:
                raise
        await self.sleep(pause_s)
        async with Attempt(self):
            return await send()

    def record_call(self) -> None:
        """Count a first try for the retry budget."""
        if self._retries is not None:
            self._retries.record_call()

    def retry_pause_s(self, error: AppException, attempt: Attempt) -> float | None:
        """Spend one retry and return the pause before it, or return None if there is no retry.

        There is none if the kind does not retry the error, its Retry-After is longer than `max_pause_s`, the pause would outlast
        the deadline, or the retry budget is used up.
        """
        kind = self.kind
        if self._retries is None or not attempt.is_admitted:
            return None
        if not isinstance(error, kind.retried) or isinstance(error, kind.final):
            return None
        if error.retry_after_s is None and isinstance(error, kind.timed):
            return None
        wait_s = error.retry_after_s or 0.0
        pause_s = wait_s + self._jitter() * kind.pause_s
        if wait_s > kind.max_pause_s or pause_s >= remaining_s() or not self._retries.try_spend():
            return None
        return pause_s

    async def admit(self) -> int:
        """Wait for the turn of a call. Return the generation of the circuit, which `leave` needs.

        Raises the port's error if a limit or the circuit does not allow the call.

        The circuit is checked before a caller queues, and once more when its turn comes.
        """
        circuit, limiter = self.circuit, self._limiter
        try:
            is_closed = circuit.check(self._max_closed_s) > 0
            await limiter.acquire(self._max_wait_s, circuit.closed_s, is_closed=is_closed)
            try:
                return circuit.begin()
            except upstream_limits.Refused:
                limiter.release()
                raise
        except upstream_limits.Refused as refusal:
            error = self.kind.unreachable if refusal.is_open else self.kind.blocked
            message = refusal.message.format(name=self._label, seconds=refusal.wait_s, setting=self._setting)
            raise error(message, retry_after_s=refusal.wait_s) from None

    def leave(self, error: BaseException | None, generation: int | None, duration_s: float) -> None:
        """End a call with its outcome. If `generation` is None, the circuit has recorded the outcome."""
        self._limiter.release()
        if generation is not None:
            self.circuit.end(generation, error)
        if isinstance(error, AppException) and self._is_one_service:
            self.circuit.cool_down(self.name, error)
        if self.metrics is not NO_METRICS or log.isEnabledFor(logging.DEBUG):
            result = OK if error is None else result_label(error)
            self.metrics.count(UPSTREAM_REQUESTS, self.kind.label, self.name, result)
            self.metrics.observe(UPSTREAM_DURATION, duration_s, self.kind.label, self.name)
            fields = {"kind": self.kind.label, "upstream": self.name, "result": result}
            log.debug("upstream call", extra={**fields, "duration_ms": round(duration_s * 1000, 1)})


class Attempt:
    """One try of a call, as a context manager, which waits for its turn or raises the port's error.

    `span` is the span of the try. The span of a stream does not become the current span.
    """

    __slots__ = ("_began", "_generation", "_guard", "_is_stream", "_traced", "is_admitted", "span")

    def __init__(self, guard: UpstreamGuard, *, is_stream: bool = False) -> None:
        self._guard = guard
        self._is_stream = is_stream
        self._generation: int | None = None
        self._traced: traced | None = None
        self.span: ISpan = NO_SPAN
        self.is_admitted = False

    def succeed(self) -> None:
        """Report the first part of a stream. The circuit records a success at once, and ignores a later failure."""
        if self._generation is not None:
            self._guard.circuit.end(self._generation, None)
            self._generation = None

    async def __aenter__(self) -> Self:
        self._generation = await self._guard.admit()
        self.is_admitted = True
        self._began = time.perf_counter()
        if CURRENT_SPAN.get() is not None:
            guard = self._guard
            self._traced = traced(
                UPSTREAM_SPAN, f"{guard.kind.label} {guard.name}", runs=not self._is_stream
            ).__enter__()
            self.span = self._traced.span
            self.span.set(UPSTREAM_KIND, guard.kind.label)
            self.span.set(UPSTREAM, guard.name)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._guard.leave(error, self._generation, time.perf_counter() - self._began)
        if self._traced is not None:
            self._traced.__exit__(kind, error, trace)
