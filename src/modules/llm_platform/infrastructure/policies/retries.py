"""One more try of a model whose service was gone, busy or broken for a moment (openai's own retries are off)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Final

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
from modules.llm_platform.domain.ports.llm import ILLMProvider, IWarmUp
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider

LLM_PAUSE_S: Final = 0.5  # long enough for a gateway to find another worker, short enough for a person to wait
LONGEST_PAUSE_S: Final = 3.0  # who asks for a longer wait is not asked again: the next writer is there at once


class RetriedLLM(ILLMProvider):
    """Tries a second time after a lost connection, a 5xx or a rate limit whose wait is short.

    A timeout has used up its time and an empty quota stays empty: those are final. So is a stream that has begun. For the
    only model that is configured: where there are several, the next one answers sooner. A request whose `max_tries` the
    first try has used up gets no second one.
    """

    def __init__(self, provider: ILLMProvider, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self.name = provider.name
        self.model = provider.model
        self._provider = provider
        self._sleep = sleep

    async def generate(self, request: LLMRequest) -> LLMResponse:
        try:
            return await self._provider.generate(request)
        except LLMException as error:
            first = error
        await self._pause(first, request)
        try:
            answer = await self._provider.generate(request)
        except LLMException as error:
            raise _with_both(error, first) from first
        return answer.after(first.spent, ())

    async def stream(self, request: LLMRequest) -> AsyncIterator[LLMStreamPart]:
        begun = False
        try:
            async with aclosing(self._provider.stream(request)) as parts:  # type: ignore[type-var]
                async for part in parts:
                    begun = True
                    yield part
            return
        except LLMException as error:
            if begun:
                raise
            first = error
        await self._pause(first, request)
        try:
            async with aclosing(self._provider.stream(request)) as parts:  # type: ignore[type-var]
                async for part in parts:
                    yield part.after(first.spent, ()) if isinstance(part, LLMResponse) else part
        except LLMException as error:
            raise _with_both(error, first) from first

    async def warm_up(self) -> None:
        if isinstance(self._provider, IWarmUp):
            await self._provider.warm_up()

    async def _pause(self, error: LLMException, request: LLMRequest) -> None:
        """Wait before the second try; raises the error where there is none."""
        wait = _pause_after(error)
        if wait is None or (request.max_tries is not None and error.spent.calls >= request.max_tries):
            raise error
        await self._sleep(wait)


def _pause_after(error: LLMException) -> float | None:
    if isinstance(error, (LLMTimeoutError, LLMQuotaError)):
        return None
    if not isinstance(error, (LLMConnectionError, LLMUnavailableError)):
        return None
    wait = LLM_PAUSE_S if error.retry_after_s is None else error.retry_after_s
    return wait if wait <= LONGEST_PAUSE_S else None


def _with_both(error: LLMException, first: LLMException) -> LLMException:
    """The second error, which also tells what the first try cost."""
    error.spent = first.spent + error.spent
    return error


# One more try when a connection broke, or when a service refuses for a moment only.


SEARCH_PAUSE_S: Final = 0.1  # long enough for a restarting proxy to be back, short enough not to be felt
MAX_BLOCK_S: Final = (
    1.5  # plans of one search a second refuse the second of two searches at once; longer blocks are told
)


class RetriedWebSearch(IWebSearchProvider):
    """Tries a second time after a lost connection, and after a block that ends within `MAX_BLOCK_S`. A timeout has used up
    its time, and a longer block wants to be left alone.
    """

    def __init__(
        self, provider: IWebSearchProvider, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self.name = provider.name
        self._provider = provider
        self._sleep = sleep

    async def search(self, request: WebSearchRequest) -> WebSearchResponse:
        try:
            return await self._provider.search(request)
        except WebSearchTimeoutError:
            raise
        except WebSearchBlockedError as error:
            if error.retry_after_s is None or error.retry_after_s > MAX_BLOCK_S:
                raise
            pause_s = error.retry_after_s
        except WebSearchConnectionError:
            pause_s = SEARCH_PAUSE_S
        await self._sleep(pause_s)
        return await self._provider.search(request)
