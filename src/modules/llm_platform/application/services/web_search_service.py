"""Web search for other modules and for the doors: the stable import of this context."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Final

from modules.llm_platform.domain.canonical_url import is_openable
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest, WebSearchResponse
from modules.llm_platform.domain.exceptions import WebSearchError
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from shared.exceptions import AppException

log = logging.getLogger(__name__)

SEARCHES_AT_ONCE: Final = 5  # of one search_multi
DEFECT = "The search provider failed in a way it should not; the log says how"


class WebSearchService:
    """Asks the configured provider, and tells the log how it went (requirement WS4).

    A query is somebody's secret until the operator decides otherwise: without `log_queries` only its length is logged.
    """

    def __init__(
        self,
        provider: IWebSearchProvider,
        clock: Callable[[], float] = time.perf_counter,
        *,
        log_queries: bool = False,
    ) -> None:
        self._provider = provider
        self._clock = clock
        self._log_queries = log_queries

    async def search(self, request: WebSearchRequest) -> WebSearchResponse:
        """What the provider found. Raises the web search errors of `domain.exceptions` and nothing else."""
        began = self._clock()
        try:
            answer = _openable(await self._provider.search(request))
        except AppException as error:
            self._log_failure(request, began, error)
            raise
        except Exception as error:  # a provider may be anybody's code: its defects are errors of this context too
            self._log_failure(request, began, error)
            raise WebSearchError(DEFECT) from error
        log.info(
            "web search",
            extra={
                "provider": answer.provider,
                "duration_ms": self._ms_since(began),
                "count": len(answer.results),
                "cached": answer.cached,
                **self._query_of(request),
            },
        )
        return answer

    async def search_multi(self, requests: Sequence[WebSearchRequest]) -> list[WebSearchResponse | AppException]:
        """One answer or error for each request, in their order, a few at a time; cancelling cancels all of them."""
        at_once = asyncio.Semaphore(SEARCHES_AT_ONCE)

        async def one(request: WebSearchRequest) -> WebSearchResponse | AppException:
            async with at_once:
                try:
                    return await self.search(request)
                except AppException as error:
                    return error

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(request)) for request in requests]
        return [task.result() for task in tasks]

    def _log_failure(self, request: WebSearchRequest, began: float, error: Exception) -> None:
        decided = isinstance(error, AppException)
        log.log(
            logging.WARNING if decided else logging.ERROR,
            "web search failed",
            extra={
                "provider": self._provider.name,
                "duration_ms": self._ms_since(began),
                "error": error.code if isinstance(error, AppException) else type(error).__name__,
                **self._query_of(request),
            },
            exc_info=None if decided else error,
        )

    def _query_of(self, request: WebSearchRequest) -> dict[str, object]:
        chars = {"query_chars": len(request.query)}
        return {**chars, "query": request.query} if self._log_queries else {**chars}

    def _ms_since(self, began: float) -> float:
        return round((self._clock() - began) * 1000, 1)


def _openable(answer: WebSearchResponse) -> WebSearchResponse:
    """The answer without results that nobody may open: providers of others do not know what a reader must not be sent to."""
    if all(is_openable(item.url) for item in answer.results):
        return answer
    return answer.model_copy(update={"results": tuple(item for item in answer.results if is_openable(item.url))})
