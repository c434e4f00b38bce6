"""Web search without a key, through the ddgs library: synchronous, so in threads of its own and with a deadline."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from datetime import UTC, date, datetime
from importlib.metadata import PackageNotFoundError, version
from itertools import chain, zip_longest
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from modules.llm_platform.domain.canonical_url import admits_host, host_of, is_web_url
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest, WebSearchResponse, WebSearchResultItem
from modules.llm_platform.domain.egress_log import current_egress_log, log_sent
from modules.llm_platform.domain.exceptions import (
    WebSearchBlockedError,
    WebSearchConfigError,
    WebSearchConnectionError,
    WebSearchError,
    WebSearchTimeoutError,
)
from modules.llm_platform.domain.freshness import Freshness, freshness_window
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from modules.llm_platform.domain.redaction import Redactor
from modules.llm_platform.domain.text.language import detect
from modules.llm_platform.infrastructure.http.client import proxy_host
from shared.exceptions import AppException

# One search with the ddgs library, watched: which engines answered what, and a way to stop it.
# The library tries engines until it has enough results. It keeps to itself that an engine refused (any status but 200
# is "nothing found" to it), and cannot be interrupted. Its HTTP client is therefore wrapped as the engines get it.
# Where a later version has no such place, the watch sees nothing and the library's own word counts.
# The watch also keeps the ledger: the library asks each engine in a thread of its own, which inherits no context, so
# the session takes the ledger from where it is made.


PROVIDER: Final = "ddgs"
NEEDS_EXTRA: Final = 'keyless web search needs an extra: pip install "llm-platform[web]"'
UNREACHABLE: Final = 0  # in place of a status
OK: Final = 200


class DdgsSession:
    """A DDGS for one search. `statuses` holds the last HTTP status of each engine that was asked, 0 for none; `watched`
    says whether requests are seen at all."""

    def __init__(self, timeout: int, proxy: str | None = None) -> None:
        try:
            from ddgs import DDGS
        except ImportError as error:
            raise WebSearchConfigError(NEEDS_EXTRA) from error
        logging.getLogger("ddgs").setLevel(logging.CRITICAL)  # it logs what is searched for
        logging.getLogger("primp").setLevel(logging.CRITICAL)
        self.statuses: dict[str, int] = {}
        self.stopped = False
        self.ledger = current_egress_log()
        self.via = proxy_host(proxy)
        self._ddgs: Any = DDGS(timeout=timeout, proxy=proxy)
        self._find_engines = getattr(self._ddgs, "_get_engines", None)
        self.watched = self._find_engines is not None
        if self.watched:
            vars(self._ddgs)["_get_engines"] = self._watched_engines

    def text(self, query: str, **options: Any) -> Any:
        return self._ddgs.text(query, **options)

    def news(self, query: str, **options: Any) -> Any:
        return self._ddgs.news(query, **options)

    def stop(self) -> None:
        """Ask no engine any more; what is on its way ends by its own timeout. To be called from any thread."""
        self.stopped = True

    def _watched_engines(self, *args: Any, **options: Any) -> Any:
        engines = self._find_engines(*args, **options) if self._find_engines else []
        for engine in engines:
            if not isinstance(engine.http_client, _WatchedClient):
                engine.http_client = _WatchedClient(engine.http_client, engine.name, self)
        return engines


class _WatchedClient:
    """The library's HTTP client, which notes statuses and what is sent, and refuses once its session was stopped."""

    def __init__(self, client: Any, engine: str, session: DdgsSession) -> None:
        self._client = client
        self._engine = engine
        self._session = session

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def request(self, *args: Any, **options: Any) -> Any:
        if self._session.stopped:
            raise TimeoutError("timed out: this search was stopped")
        self._session.statuses[self._engine] = UNREACHABLE
        _note(self._session, args[1] if len(args) > 1 else options.get("url"), options)
        answer = self._client.request(*args, **options)
        self._session.statuses[self._engine] = answer.status_code
        return answer


def _note(session: DdgsSession, url: object, options: Mapping[str, Any]) -> None:
    """Every request to an engine counts as one that holds the query: some put it into the path."""
    address = urlsplit(url if isinstance(url, str) else "")
    written = f"{address.path}?{address.query}" if address.query else address.path
    fields = (options.get("params"), options.get("data"))
    values = [str(value) for field in fields if isinstance(field, Mapping) for value in field.values()]
    if session.ledger is not None:
        size = len("".join([written, *values]).encode())
        session.ledger.note(address.hostname or PROVIDER, "query", size, session.via)


# A search request in the words of the ddgs library.


Kind = Literal["text", "news"]

_COUNTRIES: Final = {
    "en": "us", "uk": "ua", "zh": "cn", "ja": "jp", "ko": "kr", "ar": "xa", "hi": "in", "sv": "se", "da": "dk", "cs": "cz",
    "el": "gr", "he": "il", "vi": "vn", "ca": "ct", "fa": "ir", "sr": "rs", "et": "ee", "sl": "sl", "ms": "my",
}  # fmt: skip
_TERRITORIES: Final = {"gb": "uk", "hant": "tw", "hans": "cn"}
DEFAULT_REGION: Final = "us-en"  # the library's own; it has none for "anywhere" that all its engines take


def kinds_of(request: WebSearchRequest) -> Sequence[Kind]:
    news = "news" in request.sources
    return ("text", "news") if news and len(request.sources) > 1 else ("news",) if news else ("text",)


def query_of(request: WebSearchRequest) -> str:
    sites = " OR ".join(f"site:{domain}" for domain in request.domains if not domain.startswith("-"))
    without = " ".join(f"-site:{domain[1:]}" for domain in request.domains if domain.startswith("-"))
    return " ".join(filter(None, (request.query, sites, without)))


def region_of(request: WebSearchRequest) -> str:
    """`country-language` as the library wants it: de-AT gives at-de, en gives us-en."""
    tag = request.language or detect(request.query)
    if tag is None:
        return DEFAULT_REGION
    language, *rest = tag.lower().split("-")
    territory = rest[-1] if rest else _COUNTRIES.get(language, language)
    return f"{_TERRITORIES.get(territory, territory)}-{language}"


def timelimit_of(limit: Freshness | None) -> str | None:
    """d, w, m or y: the smallest that covers the limit."""
    span = limit.time_range(datetime.now(UTC).date()) if limit else None
    return span[0] if span else None


def backends_of(kind: Kind, wanted: Sequence[str]) -> tuple[str, tuple[Degraded, ...]]:
    """The library's names for the engines asked for, and a word about those that it has not."""
    if not wanted:
        return "auto", ()
    try:
        from ddgs.engines import ENGINES
    except ImportError as error:
        raise WebSearchConfigError(NEEDS_EXTRA) from error
    known = [name for name in dict.fromkeys(map(str.lower, wanted)) if name in ENGINES.get(kind, {})]
    unknown = ", ".join(name for name in wanted if name.lower() not in known)
    words = (Degraded(component=PROVIDER, reason=f"it has no engine named {unknown}"),) if unknown else ()
    return ",".join(known) or "auto", words


# One call of the ddgs library, as it runs in a thread, and what its exceptions mean.


SAFE_SEARCH: Final = "moderate"
RETRY_AFTER_SECONDS: Final = 60.0  # engines do not say when they will serve us again

# Encyclopedias are asked first and rarely know a question: that they found nothing does not mean that the web was searched.
_LOOKED_UP: Final = frozenset({"wikipedia", "grokipedia"})
_REFUSALS: Final = frozenset({202, 401, 403, 418, 429, 503})
_NOTHING_FOUND = re.compile(r"no results", re.IGNORECASE)
_TIMED_OUT = re.compile(r"timed? ?out", re.IGNORECASE)
_UNREACHABLE = re.compile(
    r"connect|dns|resolv|network|proxy|tls|ssl|certificate|RequestError|unreachable", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class DdgsResult:
    """Rows as the library gives them, and which of its engines failed."""

    rows: Sequence[Any]
    degraded: tuple[Degraded, ...] = ()


class DdgsCall:
    """`run` blocks; `stop` may be called from another thread meanwhile, and before. Run it in the context of the search:
    what is sent is noted in its ledger."""

    def __init__(
        self, new_engine: Callable[[], Any], kind: Kind, request: WebSearchRequest, timelimit: str | None
    ) -> None:
        self._new_engine = new_engine
        self._kind = kind
        self._request = request
        self._timelimit = timelimit
        self._engine: Any = None
        self._stopped = False

    def stop(self) -> None:
        """From another thread: ask no further engine, if the library lets itself be told."""
        self._stopped = True
        if stop := getattr(self._engine, "stop", None):
            stop()

    def run(self) -> DdgsResult:
        """Rows as the library gives them. Raises web search errors only."""
        self._engine = self._new_engine()
        if self._stopped:
            self.stop()
        backends, unknown = backends_of(self._kind, self._request.engines)
        query = query_of(self._request)
        if not getattr(self._engine, "watched", False):  # then nobody can say which hosts it asks
            log_sent(PROVIDER, "query", len(query.encode()), getattr(self._engine, "via", None))
        try:
            rows = getattr(self._engine, self._kind)(
                query, region=region_of(self._request), safesearch=SAFE_SEARCH, timelimit=self._timelimit,
                max_results=self._request.count, page=self._request.page, backend=backends,
            )  # fmt: skip
        except AppException:
            raise
        except OSError as error:
            raise WebSearchConnectionError("ddgs could not reach its engines: is there a network?") from error
        except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
            raise WebSearchError("ddgs failed on an engine's answer: try again, or name other engines") from error
        except _library_error() as error:
            return DdgsResult(self._nothing_or_raise(error), (*unknown, *self._failed_engines()))
        if not isinstance(rows, list | tuple):
            raise WebSearchError("ddgs gave no list of results: is its version supported?")
        return DdgsResult(rows, (*unknown, *self._failed_engines()))

    def _nothing_or_raise(self, error: BaseException) -> Sequence[Any]:
        """No rows when engines looked and found nothing, else the error that the library's exception stands for."""
        statuses = {name: status for name, status in self._statuses().items() if name not in _LOOKED_UP}
        words = str(error)
        if OK in statuses.values() or (not self._statuses() and _NOTHING_FOUND.search(words)):
            return ()
        if type(error).__name__ == "RatelimitException" or not _REFUSALS.isdisjoint(statuses.values()):
            raise WebSearchBlockedError(
                "all engines that ddgs asked refuse us for now: try again later, or set SEARXNG_URL",
                retry_after_s=RETRY_AFTER_SECONDS,
                engines_only=True,
            ) from error
        if type(error).__name__ == "TimeoutException" or _TIMED_OUT.search(words):
            raise WebSearchTimeoutError("the engines that ddgs asked did not answer in time: try again") from error
        if UNREACHABLE in statuses.values() or _UNREACHABLE.search(words):
            raise WebSearchConnectionError("ddgs could not reach its engines: is there a network?") from error
        raise WebSearchError("the engines that ddgs asked answered with errors: try again, or name others") from error

    def _statuses(self) -> Mapping[str, int]:
        statuses = getattr(self._engine, "statuses", None)
        return statuses if isinstance(statuses, dict) else {}

    def _failed_engines(self) -> Iterator[Degraded]:
        for engine, status in sorted(self._statuses().items()):
            if status != OK:
                reason = (
                    "it could not be reached in time" if status == UNREACHABLE else f"it answered with HTTP {status}"
                )
                yield Degraded(component=f"{PROVIDER}/{engine}", reason=reason)


def _library_error() -> type[BaseException]:
    try:
        from ddgs.exceptions import DDGSException
    except ImportError as error:
        raise WebSearchConfigError(NEEDS_EXTRA) from error
    base: type[BaseException] = DDGSException
    return base


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
        limit = freshness_window(request)
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

    async def _look(self, kind: Kind, request: WebSearchRequest, limit: Freshness | None) -> DdgsResult:
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


def _answered(looked: Sequence[DdgsResult | BaseException], name: str) -> list[DdgsResult]:
    """The answers, those that failed as a word in `degraded`. Raises when none came, or what is no web search error."""
    failed = [error for error in looked if isinstance(error, BaseException)]
    answers = [answer for answer in looked if isinstance(answer, DdgsResult)]
    for error in failed:
        if not answers or not isinstance(error, AppException):
            raise error
        answers.append(DdgsResult((), (Degraded.of(name, error),)))
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
