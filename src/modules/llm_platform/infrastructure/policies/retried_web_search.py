"""One more try when a connection broke, or when a service refuses for a moment only."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest, WebSearchResponse
from modules.llm_platform.domain.exceptions import (
    WebSearchBlockedError,
    WebSearchConnectionError,
    WebSearchTimeoutError,
)
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider

PAUSE_S: Final = 0.1  # long enough for a restarting proxy to be back, short enough not to be felt
MAX_BLOCK_S: Final = 1.5  # plans of one search a second refuse the second of two searches at once; longer blocks are told


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
            pause_s = PAUSE_S
        await self._sleep(pause_s)
        return await self._provider.search(request)
