"""One more try after an error that is over in a moment, within a budget."""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Final, Generic, TypeVar

from modules.llm_platform.domain.deadline import remaining_s
from modules.llm_platform.domain.dtos.llm_dtos import LLMRequest, LLMResponse, LLMStreamPart
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest, WebSearchResponse
from modules.llm_platform.domain.exceptions import (
    LLMConnectionError,
    LLMException,
    LLMQuotaError,
    LLMTimeoutError,
    LLMUnavailableError,
    WebSearchBlockedError,
    WebSearchConnectionError,
    WebSearchTimeoutError,
)
from modules.llm_platform.domain.metrics import RETRIES
from modules.llm_platform.domain.ports.llm import ILLMProvider
from modules.llm_platform.domain.ports.metrics import NO_METRICS, IMetrics
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from modules.llm_platform.infrastructure.policies.base import LLMPolicy, WebSearchPolicy
from modules.llm_platform.infrastructure.policies.circuit_breaker import CircuitOpenError

Provider = TypeVar("Provider")
Sleep = Callable[[float], Awaitable[None]]
Jitter = Callable[[], float]  # 0 to 1

# Full jitter: a pause is a random part of these, so that the retries of many callers do not arrive together.
LLM_PAUSE_S: Final = 1.0  # long enough for a gateway to find another worker, short enough for a person to wait
SEARCH_PAUSE_S: Final = 0.2  # long enough for a proxy to restart
# Longest Retry-After that is waited for; the pause is added to it.
MAX_LLM_PAUSE_S: Final = 3.0  # after a longer one the next writer answers sooner
MAX_SEARCH_PAUSE_S: Final = 1.5  # plans of one search a second refuse the second of two simultaneous searches

RETRY_SHARE: Final = 0.1  # of the recent calls
MIN_RETRIES: Final = 3  # a program that seldom calls still replaces a dropped connection
RECENT_S: Final = 60.0  # a call counts half after 42 s


class RetryBudget:
    """The retries of one service, shared by all of its callers: RETRY_SHARE of the recent calls, at least MIN_RETRIES.

    Calls and retries are counted with exponential decay, in constant memory.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, *, name: str = "", metrics: IMetrics = NO_METRICS
    ) -> None:
        self._clock = clock
        self._name = name
        self._metrics = metrics
        self._updated_at = clock()
        self._calls = 0.0
        self._retries = 0.0

    def record_call(self) -> None:
        """Count a first try."""
        self._decay()
        self._calls += 1

    def try_spend(self) -> bool:
        """Whether one more retry is within the budget; it is counted then."""
        self._decay()
        if self._retries + 1 > max(MIN_RETRIES, RETRY_SHARE * self._calls):
            self._metrics.count(RETRIES, self._name, "refused")
            return False
        self._metrics.count(RETRIES, self._name, "allowed")
        self._retries += 1
        return True

    def _decay(self) -> None:
        now = self._clock()
        if now > self._updated_at:
            factor = math.exp((self._updated_at - now) / RECENT_S)
            self._calls *= factor
            self._retries *= factor
            self._updated_at = now


class _Retried(Generic[Provider]):
    """What the policies share; comes before the policy of the port among the bases."""

    def __init__(
        self,
        provider: Provider,
        budget: RetryBudget | None = None,
        *,
        sleep: Sleep = asyncio.sleep,
        jitter: Jitter = random.random,
    ) -> None:
        super().__init__(provider)  # type: ignore[call-arg]  # of the policy
        self._budget = budget or RetryBudget()
        self._sleep = sleep
        self._jitter = jitter


class RetriedLLM(_Retried[ILLMProvider], LLMPolicy):
    """Tries a second time after a lost connection, a 5xx or a rate limit with a short wait.

    Timeouts, used-up quotas, open circuits and streams that have begun are final, and so is a first try that used up the
    `max_tries` of the request, or whose pause would outlast the deadline. Meant for a single configured model: with several,
    the next one answers sooner.
    """

    async def generate(self, request: LLMRequest) -> LLMResponse:
        self._budget.record_call()
        try:
            return await self._provider.generate(request)
        except LLMException as error:
            first_error = error
        await self._pause(first_error, request)
        try:
            answer = await self._provider.generate(request)
        except LLMException as error:
            error.spent = first_error.spent + error.spent
            raise error from first_error
        return answer.after(first_error.spent, ())

    async def stream(self, request: LLMRequest) -> AsyncIterator[LLMStreamPart]:
        has_begun = False
        self._budget.record_call()
        try:
            async with aclosing(self._provider.stream(request)) as parts:  # type: ignore[type-var]
                async for part in parts:
                    has_begun = True
                    yield part
            return
        except LLMException as error:
            if has_begun:
                raise
            first_error = error
        await self._pause(first_error, request)
        try:
            async with aclosing(self._provider.stream(request)) as parts:  # type: ignore[type-var]
                async for part in parts:
                    yield part.after(first_error.spent, ()) if isinstance(part, LLMResponse) else part
        except LLMException as error:
            error.spent = first_error.spent + error.spent
            raise error from first_error

    async def _pause(self, error: LLMException, request: LLMRequest) -> None:
        """Wait before the second try; raises the error if there is none."""
        is_final = isinstance(error, (LLMTimeoutError, LLMQuotaError, CircuitOpenError))
        if is_final or not isinstance(error, (LLMConnectionError, LLMUnavailableError)):
            raise error
        wait_s = error.retry_after_s or 0.0
        no_tries_left = request.max_tries is not None and error.spent.calls >= request.max_tries
        pause_s = wait_s + self._jitter() * LLM_PAUSE_S
        if wait_s > MAX_LLM_PAUSE_S or no_tries_left or pause_s >= remaining_s() or not self._budget.try_spend():
            raise error
        await self._sleep(pause_s)


class RetriedWebSearch(_Retried[IWebSearchProvider], WebSearchPolicy):
    """Tries a second time after a lost connection, and after a block of at most MAX_SEARCH_PAUSE_S.

    Timeouts and open circuits are final, and so is a first try whose pause would outlast the deadline.
    """

    async def search(self, request: WebSearchRequest) -> WebSearchResponse:
        self._budget.record_call()
        try:
            return await self._provider.search(request)
        except WebSearchConnectionError as error:
            wait_s = _search_wait_s(error)
            if wait_s is None or wait_s > MAX_SEARCH_PAUSE_S:
                raise
            pause_s = wait_s + self._jitter() * SEARCH_PAUSE_S
            if pause_s >= remaining_s() or not self._budget.try_spend():
                raise
        await self._sleep(pause_s)
        return await self._provider.search(request)


def _search_wait_s(error: WebSearchConnectionError) -> float | None:
    """The wait before another try; None if there is none."""
    if isinstance(error, (WebSearchTimeoutError, CircuitOpenError)):
        return None
    return error.retry_after_s if isinstance(error, WebSearchBlockedError) else error.retry_after_s or 0.0
