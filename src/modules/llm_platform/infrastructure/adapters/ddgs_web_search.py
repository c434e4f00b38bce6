"""Web search without a key, through the ddgs library: synchronous, so in threads of its own and with a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from itertools import chain, zip_longest
from typing import Any, Final

from modules.llm_platform.domain.canonical_url import admits_host, host_of, is_web_url
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest, WebSearchResponse, WebSearchResultItem
from modules.llm_platform.domain.exceptions import WebSearchConfigError, WebSearchTimeoutError
from modules.llm_platform.domain.freshness import Freshness, window
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from modules.llm_platform.domain.redaction import Redactor
from modules.llm_platform.infrastructure.ddgs_call import DdgsCall, Looked
from modules.llm_platform.infrastructure.ddgs_query import Kind, kinds_of, timelimit_of
from modules.llm_platform.infrastructure.ddgs_session import NEEDS_EXTRA, DdgsSession
from shared.exceptions import AppException

TIMEOUT_SECONDS: Final = 15.0  # for a search
ENGINE_SHARE: Final = 3  # one engine gets a third of it: the library asks several, one after the other
MARGIN_SECONDS: Final = 0.5  # between the library's end and ours
THREADS: Final = 4  # searches at once; more wait
MAX_TEXT_CHARS: Final = 10_000  # of a title or snippet


class DdgsWebSearchAdapter(IWebSearchProvider):
    """Searches the engines that the ddgs library knows. `engine` makes the DDGS-like object of one search."""

    name = "ddgs"

    def __init__(
        self,
        timeout: float = TIMEOUT_SECONDS,
        proxy: str | None = None,
        engine: Callable[[], Any] | None = None,
        redactor: Redactor | None = None,
    ) -> None:
        self._timeout = timeout
        self._engine_timeout = max(1, int(timeout / ENGINE_SHARE))
        self._proxy = proxy
        self._new_engine = engine or self._session
        self._redactor = redactor or Redactor()
        self._threads = ThreadPoolExecutor(max_workers=THREADS, thread_name_prefix="ddgs")  # start when needed

    async def search(self, request: WebSearchRequest) -> WebSearchResponse:
        limit = window(request)
        kinds = kinds_of(request)
        looked = await asyncio.gather(*(self._look(kind, request, limit) for kind in kinds), return_exceptions=True)
        answers = _answered(looked, self.name)
        rows = chain.from_iterable(zip_longest(*(answer.rows for answer in answers)))
        results = {item.url: item for item in map(self._item, rows) if item and _is_wanted(item, request, limit)}
        return WebSearchResponse(
            query=request.query,
            results=tuple(results.values())[: request.count],
            provider=self.name,
            degraded=(*_lacking(request), *(entry for answer in answers for entry in answer.degraded)),
        )

    async def ping(self) -> str:
        """Whether the library is there. Its engines are not asked: they count queries."""
        try:
            return f"ddgs {version('ddgs')}"
        except PackageNotFoundError as error:
            raise WebSearchConfigError(NEEDS_EXTRA) from error

    async def aclose(self) -> None:
        """Take no more searches; those under way end by the library's own timeout."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _session(self) -> DdgsSession:
        return DdgsSession(self._engine_timeout, self._proxy)

    async def _look(self, kind: Kind, request: WebSearchRequest, limit: Freshness | None) -> Looked:
        """One query in a thread. Stopped a little before the deadline, so that what was found by then is not lost."""
        loop = asyncio.get_running_loop()
        search = DdgsCall(self._new_engine, kind, request, timelimit_of(limit))
        early = loop.call_later(max(0.0, self._timeout - self._engine_timeout - MARGIN_SECONDS), search.stop)
        try:
            async with asyncio.timeout(self._timeout):
                return await loop.run_in_executor(self._threads, copy_context().run, search.run)
        except TimeoutError as error:
            raise WebSearchTimeoutError(f"ddgs did not answer within {self._timeout:g} s: try again") from error
        finally:
            early.cancel()
            search.stop()

    def _item(self, row: Any) -> WebSearchResultItem | None:
        """A result, or None for a row without a title or without an address that may be opened."""
        if not isinstance(row, Mapping):
            return None
        url, title = row.get("href") or row.get("url"), self._text(row.get("title"))
        if not title or not isinstance(url, str) or not is_web_url(url):
            return None
        return WebSearchResultItem(
            title=title,
            url=self._redactor.text(url),
            snippet=self._text(row.get("body")),
            site_name=self._text(row.get("source")) or None,
            published_date=_iso(row.get("date")),
            source=self.name,
        )

    def _text(self, value: object) -> str:
        return self._redactor.text(" ".join(value[:MAX_TEXT_CHARS].split())) if isinstance(value, str) else ""


def _answered(looked: Sequence[Looked | BaseException], name: str) -> list[Looked]:
    """The answers, those that failed as a word in `degraded`. Raises when none came, or what is no web search error."""
    failed = [error for error in looked if isinstance(error, BaseException)]
    answers = [answer for answer in looked if isinstance(answer, Looked)]
    for error in failed:
        if not answers or not isinstance(error, AppException):
            raise error
        answers.append(Looked((), (Degraded.of(name, error),)))
    return answers


def _lacking(request: WebSearchRequest) -> Iterator[Degraded]:
    for kind in ("academic", "documents"):
        if kind in request.sources:
            yield Degraded(component=DdgsWebSearchAdapter.name, reason=f"it has no {kind} search: the web was searched")


def _is_wanted(item: WebSearchResultItem, request: WebSearchRequest, limit: Freshness | None) -> bool:
    return (limit is None or limit.admits(item.published_date)) and admits_host(host_of(item.url), request.domains)


def _iso(value: object) -> str | None:
    """The date as given when it is one in ISO 8601; some engines say `yesterday` instead."""
    if not isinstance(value, str):
        return None
    try:
        date.fromisoformat(value[:10])
    except ValueError:
        return None
    return value
