"""The port of web search."""

from abc import ABC, abstractmethod
from typing import Final

from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest, WebSearchResponse

MAX_CONCURRENT_SEARCHES: Final = 4  # searches of one caller, and at one provider unless its rate allows more


class IWebSearchProvider(ABC):
    """A web search provider."""

    name: str = "custom"  # shown in `provider`, `degraded`, logs and metrics

    @abstractmethod
    async def search(self, request: WebSearchRequest) -> WebSearchResponse:
        """Return at most `request.count` results, best first. Each URL has the scheme http, https or doc.

        Empty results mean that the search found nothing. A failed search raises a web search error of `domain.exceptions`
        and nothing else. An unsupported part of the request (a source kind, engines, a filter) is ignored and reported in
        `degraded`. Cancelling is safe at any point and closes all connections.
        """
