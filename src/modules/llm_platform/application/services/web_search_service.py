"""Searches the web through the configured providers, and logs each search."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence

from modules.llm_platform.domain.concurrency.loop_guard import LoopGuard
from modules.llm_platform.domain.concurrency.stray_cancellation import fail_on_stray_cancellation
from modules.llm_platform.domain.dtos.request_type import require_request
from modules.llm_platform.domain.dtos.web_search_dtos import (
    MAX_QUERY_CHARS,
    SourceKind,
    WebSearchRequest,
    WebSearchResponse,
    WebSearchResultItem,
)
from modules.llm_platform.domain.exceptions import WebSearchError
from modules.llm_platform.domain.ports.web_search import MAX_CONCURRENT_SEARCHES, IWebSearchProvider
from modules.llm_platform.domain.text.scripts import replace_surrogates
from modules.llm_platform.domain.untrusted.untrusted_text import CONTROL_CHARACTERS, one_line, remove_controls
from modules.llm_platform.domain.urls.canonical_url import is_openable, remove_userinfo
from shared.exceptions import AppException

log = logging.getLogger(__name__)

MAX_SUGGESTIONS = 20
UNEXPECTED_ERROR = "The search provider raised an unexpected error: see the log"


class WebSearchService(IWebSearchProvider):
    """Searches with the configured provider and logs each search.

    It is an IWebSearchProvider itself, so that the research stages search through the port and are logged in the same way.
    The log has the length of a query, and its text only with `log_queries`. `source_kinds` are those that each configured
    provider supports, by its name.
    """

    def __init__(
        self,
        provider: IWebSearchProvider,
        clock: Callable[[], float] = time.perf_counter,
        *,
        log_queries: bool = False,
        source_kinds: Mapping[str, Sequence[SourceKind]] | None = None,
    ) -> None:
        self.source_kinds = {name: tuple(kinds) for name, kinds in (source_kinds or {}).items()}
        self.name = provider.name
        self._provider = provider
        self._clock = clock
        self._log_queries = log_queries
        self._loop_guard = LoopGuard()

    async def search(self, request: WebSearchRequest) -> WebSearchResponse:
        """Return the results that can be opened.

        Raises the web search errors of `domain.exceptions`, TypeError for a wrong argument type, and RuntimeError if another
        event loop is using the service.
        """
        require_request(request, WebSearchRequest)
        async with self._loop_guard:
            return await self._search(request)

    async def _search(self, request: WebSearchRequest) -> WebSearchResponse:
        began = self._clock()
        try:
            with fail_on_stray_cancellation():
                answer = _clean(await self._provider.search(request))
        except AppException as error:
            self._log_failure(request, began, error)
            raise
        except Exception as error:  # a caller's own provider may raise anything
            self._log_failure(request, began, error)
            raise WebSearchError(UNEXPECTED_ERROR) from error
        log.info(
            "web search",
            extra={
                "provider": answer.provider,
                "count": len(answer.results),
                "cached": answer.cached,
                **self._log_fields(request, began),
            },
        )
        return answer

    async def search_multi(self, requests: Sequence[WebSearchRequest]) -> list[WebSearchResponse | AppException]:
        """Search concurrently, at most MAX_CONCURRENT_SEARCHES at a time. Return an answer or an error per request, in order.

        Search errors are returned and not raised. Raises TypeError for a wrong argument type.
        """
        for request in requests:
            require_request(request, WebSearchRequest)
        slots = asyncio.Semaphore(MAX_CONCURRENT_SEARCHES)

        async def one(request: WebSearchRequest) -> WebSearchResponse | AppException:
            async with slots:
                try:
                    return await self.search(request)
                except AppException as error:
                    return error

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(request)) for request in requests]
        return [task.result() for task in tasks]

    def _log_failure(self, request: WebSearchRequest, began: float, error: Exception) -> None:
        expected = isinstance(error, AppException)
        log.log(
            logging.WARNING if expected else logging.ERROR,
            "web search failed",
            extra={
                "provider": self.name,
                "error": error.code if isinstance(error, AppException) else type(error).__name__,
                **self._log_fields(request, began),
            },
            exc_info=None if expected else error,
        )

    def _log_fields(self, request: WebSearchRequest, began: float) -> dict[str, object]:
        duration_ms = round((self._clock() - began) * 1000, 1)
        fields: dict[str, object] = {"duration_ms": duration_ms, "query_chars": len(request.query)}
        return fields | {"query": request.query} if self._log_queries else fields


def _clean(answer: WebSearchResponse) -> WebSearchResponse:
    """Return the sanitized answer, because sites and a caller's own provider are untrusted.

    Drops results whose address cannot be opened. Removes credentials from addresses and control characters from texts, and
    replaces lone surrogates, which UTF-8 cannot encode.
    """
    changes: dict[str, object] = {}
    results: list[WebSearchResultItem] = []
    for item in answer.results:
        if is_openable(item.url):
            optional = (item.summary, item.site_name, item.source, item.published_date)
            texts = "\n".join((item.title, item.snippet, *filter(None, optional)))
            if "@" in item.url or CONTROL_CHARACTERS.search(texts) or replace_surrogates(texts) != texts:
                cleaned = {name: _clean_text(value) for name, value in item if isinstance(value, str)}
                item = item.model_copy(update={**cleaned, "url": remove_userinfo(item.url)})
            results.append(item)
    if results != list(answer.results):
        changes["results"] = tuple(results)
    if answer.correction is not None or answer.suggestions:
        changes["correction"] = answer.correction and _clean_hint(answer.correction)
        changes["suggestions"] = tuple(map(_clean_hint, answer.suggestions[:MAX_SUGGESTIONS]))
    return answer.model_copy(update=changes) if changes else answer


def _clean_text(text: str) -> str:
    return remove_controls(replace_surrogates(text))


def _clean_hint(text: str) -> str:
    return one_line(_clean_text(text[:MAX_QUERY_CHARS]))
