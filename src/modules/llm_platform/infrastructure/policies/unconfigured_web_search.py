"""A provider that was named but is not set up."""

from __future__ import annotations

from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest, WebSearchResponse
from modules.llm_platform.domain.exceptions import WebSearchConfigError
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider


class UnconfiguredWebSearch(IWebSearchProvider):
    """Says at the call, not at the start, which setting is missing: search is an optional power (seed decision 5)."""

    def __init__(self, name: str, remedy: str) -> None:
        self.name = name
        self._remedy = remedy

    async def search(self, request: WebSearchRequest) -> WebSearchResponse:
        raise WebSearchConfigError(self._remedy)

    async def ping(self) -> str:
        raise WebSearchConfigError(self._remedy)
