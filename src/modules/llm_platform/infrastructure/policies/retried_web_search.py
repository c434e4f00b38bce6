"""One more try when a connection could not be made or broke (bocha-web-search.md, risks)."""

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


class RetriedWebSearch(IWebSearchProvider):
    """Tries a second time after a lost connection. A timeout has used up its time, a block wants to be left alone."""

    def __init__(
        self, provider: IWebSearchProvider, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self.name = provider.name
        self._provider = provider
        self._sleep = sleep

    async def search(self, request: WebSearchRequest) -> WebSearchResponse:
        try:
            return await self._provider.search(request)
        except (WebSearchTimeoutError, WebSearchBlockedError):
            raise
        except WebSearchConnectionError:
            await self._sleep(PAUSE_S)
        return await self._provider.search(request)
