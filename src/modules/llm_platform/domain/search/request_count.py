"""Count the requests to search providers.

A failover and a second try make several requests for one search. A cache and an equal search that is under way make none. A
provider that joins others therefore counts each request when it makes it, also if the search then fails or is cancelled.

The count is a context variable: tasks inherit it, so that a shared search counts for the caller who started it.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass

from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest, WebSearchResponse
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider


@dataclass(slots=True)
class _Made:
    """The requests of one search; None if its provider does not count them."""

    requests: int | None = None


_CURRENT: ContextVar[_Made | None] = ContextVar("search_requests", default=None)


@dataclass(slots=True)
class RequestCount:
    """The requests that the searches of one run made so far."""

    requests: int = 0

    async def search(self, provider: IWebSearchProvider, request: WebSearchRequest) -> WebSearchResponse:
        """Search, and add the requests that it took. A provider that does not count takes one, unless its answer is cached."""
        made, is_cached = _Made(), False
        token = _CURRENT.set(made)
        try:
            answer = await provider.search(request)
            is_cached = answer.cached
        finally:
            _CURRENT.reset(token)
            self.requests += int(not is_cached) if made.requests is None else made.requests
        return answer


def count_requests(number: int) -> None:
    """Add to the requests of the current search. A provider that joins others adds 0 at its beginning."""
    if (made := _CURRENT.get()) is not None:
        made.requests = (made.requests or 0) + number
