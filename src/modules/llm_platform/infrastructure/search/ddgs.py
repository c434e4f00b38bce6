"""Search the web without an API key through the ddgs library. The library blocks, so it runs in threads with a deadline.

The library calls engines until it has enough results. It cannot be interrupted, and it reports an engine that refused (any
status but 200) as one that found nothing. Therefore the adapter wraps the HTTP client of each engine. It also works with a
version of the library that lacks the wrapped method, and then learns of failures only from exceptions.
"""

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

from modules.llm_platform.domain import exceptions
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.freshness import Freshness
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest, WebSearchResponse, WebSearchResultItem
from modules.llm_platform.domain.ports.tracing import current_span
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from modules.llm_platform.domain.privacy.egress_log import current_egress_log, log_sent
from modules.llm_platform.domain.privacy.redaction import Redactor
from modules.llm_platform.domain.search.freshness import freshness_window, is_admitted
from modules.llm_platform.domain.telemetry.spans import UPSTREAM, UPSTREAM_KIND, UPSTREAM_SPAN
from modules.llm_platform.domain.text.language import detect_language
from modules.llm_platform.domain.urls.canonical_url import is_web_url, site_operators
from modules.llm_platform.infrastructure.http.client import parse_proxy_host
from shared.exceptions import AppException

PROVIDER: Final = "ddgs"
NEEDS_EXTRA: Final = 'keyless web search needs an extra: pip install "llm-platform[web]"'
UNREACHABLE: Final = 0  # This number stands for the status of an engine that did not answer.
OK: Final = 200
DDGS_TIMEOUT_S: Final = 15.0  # The limit for one search.
ENGINE_SHARE: Final = 3  # An engine gets a third of the limit, because the library calls several, one after the other.
MARGIN_S: Final = 0.5  # The library's work ends so long before the deadline.
MAX_THREADS: Final = 4  # Searches at the same time. Further ones wait.
DDGS_TEXT_CHARS: Final = 10_000  # Longer titles and snippets are cut.
RETRY_AFTER_S: Final = 60.0  # Engines do not say how long they refuse requests.
DEFAULT_REGION: Final = "us-en"  # The library's default. It has no region for "anywhere" that all its engines support.

Kind = Literal["text", "news"]

_COUNTRIES: Final = {
    "en": "us",
    "uk": "ua",
    "zh": "cn",
    "ja": "jp",
    "ko": "kr",
    "ar": "xa",
    "hi": "in",
    "sv": "se",
    "da": "dk",
    "cs": "cz",
    "el": "gr",
    "he": "il",
    "vi": "vn",
    "ca": "ct",
    "fa": "ir",
    "sr": "rs",
    "et": "ee",
    "sl": "sl",
    "ms": "my",
}
_TERRITORIES: Final = {"gb": "uk", "hant": "tw", "hans": "cn"}
# The library calls encyclopedias first, and they rarely match. If they find nothing, the web may not have been searched.
_ENCYCLOPEDIAS: Final = frozenset({"wikipedia", "grokipedia"})
_REFUSALS: Final = frozenset({202, 401, 403, 418, 429, 503})
_NOTHING_FOUND = re.compile(r"no results", re.IGNORECASE)
_TIMED_OUT = re.compile(r"timed? ?out", re.IGNORECASE)
_UNREACHABLE = re.compile(
    r"connect|dns|resolv|network|proxy|tls|ssl|certificate|RequestError|unreachable", re.IGNORECASE
)


class DdgsSession:
    """The library's object for one search. Its requests can be observed and stopped.

    The library calls engines in threads that have no context variables, so the session stores the egress log and the span of
    the search that creates it. Raises WebSearchConfigError if the library is not installed.

    - `statuses` has the last HTTP status of each engine that was called, or UNREACHABLE.
    - `is_stopped` is True if no further engine may be called.
    - `via` is the host of the proxy, or None.
    - `observes_requests` is False for a version of the library whose requests cannot be observed.
    """

    def __init__(self, timeout: int, proxy: str | None = None) -> None:
        try:
            from ddgs import DDGS
        except ImportError as error:
            raise exceptions.WebSearchConfigError(NEEDS_EXTRA) from error
        logging.getLogger("ddgs").setLevel(logging.CRITICAL)  # It logs queries.
        logging.getLogger("primp").setLevel(logging.CRITICAL)
        self.statuses: dict[str, int] = {}
        self.is_stopped = False
        self.egress_log = current_egress_log()
        self.span = current_span()
        self.via = parse_proxy_host(proxy)
        self._ddgs: Any = DDGS(timeout=timeout, proxy=proxy)
        self._find_engines = getattr(self._ddgs, "_get_engines", None)
        self.observes_requests = self._find_engines is not None
        if self.observes_requests:
            vars(self._ddgs)["_get_engines"] = self._wrap_engines

    def text(self, query: str, **options: Any) -> Any:
        return self._ddgs.text(query, **options)

    def news(self, query: str, **options: Any) -> Any:
        return self._ddgs.news(query, **options)

    def stop(self) -> None:
        """Call no further engine. Running requests end by their own timeout. Thread-safe."""
        self.is_stopped = True

    def _wrap_engines(self, *args: Any, **options: Any) -> Any:
        engines = self._find_engines(*args, **options) if self._find_engines else []
        for engine in engines:
            if not isinstance(engine.http_client, _ObservedClient):
                engine.http_client = _ObservedClient(engine.http_client, engine.name, self)
        return engines


class _ObservedClient:
    """The library's HTTP client, which records statuses and egress, and sends nothing for a session that is stopped."""

    def __init__(self, client: Any, engine: str, session: DdgsSession) -> None:
        self._client = client
        self._engine = engine
        self._session = session

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def request(self, *args: Any, **options: Any) -> Any:
        if self._session.is_stopped:
            raise TimeoutError("timed out: this search was stopped")
        self._session.statuses[self._engine] = UNREACHABLE
        _log_request(self._session, args[1] if len(args) > 1 else options.get("url"), options)
        span = self._session.span.child(UPSTREAM_SPAN, f"search_engine {self._engine}")
        span.set(UPSTREAM_KIND, "search_engine")
        span.set(UPSTREAM, f"{PROVIDER}/{self._engine}")
        result = "unreachable"
        try:
            response = self._client.request(*args, **options)
            self._session.statuses[self._engine] = response.status_code
            result = "ok" if response.status_code == OK else str(response.status_code)
            return response
        finally:
            span.end(result)


def _log_request(session: DdgsSession, url: object, options: Mapping[str, Any]) -> None:
    """Record a request in the egress log. Each one counts as a query, because some engines put the query into the path."""
    if session.egress_log is not None:
        address = urlsplit(url if isinstance(url, str) else "")
        path = f"{address.path}?{address.query}" if address.query else address.path
        fields = (options.get("params"), options.get("data"))
        values = [str(value) for field in fields if isinstance(field, Mapping) for value in field.values()]
        size = len("".join([path, *values]).encode())
        session.egress_log.add(address.hostname or PROVIDER, "query", size, session.via)


def choose_kinds(request: WebSearchRequest) -> Sequence[Kind]:
    news = "news" in request.sources
    return ("text", "news") if news and len(request.sources) > 1 else ("news",) if news else ("text",)


def choose_region(request: WebSearchRequest) -> str:
    """Return the library's name of the region, `country-language`: at-de for de-AT, us-en for en."""
    tag = request.language or detect_language(request.query)
    if tag is None:
        return DEFAULT_REGION
    language, *rest = tag.lower().split("-")
    territory = rest[-1] if rest else _COUNTRIES.get(language, language)
    return f"{_TERRITORIES.get(territory, territory)}-{language}"


def choose_timelimit(window: Freshness | None) -> str | None:
    """Return the library's name of the shortest period that covers the window: d, w, m or y. Return None for no window."""
    span = window.time_range(datetime.now(UTC).date()) if window else None
    return span[0] if span else None


def choose_backends(kind: Kind, engines: Sequence[str]) -> tuple[str, tuple[Degraded, ...]]:
    """Return the library's names of the requested engines, joined by commas, and an entry of `degraded` for unknown ones.

    Without a requested engine that is known, the name is "auto". Raises WebSearchConfigError if the library is not installed.
    """
    if not engines:
        return "auto", ()
    try:
        from ddgs.engines import ENGINES
    except ImportError as error:
        raise exceptions.WebSearchConfigError(NEEDS_EXTRA) from error
    known = [name for name in dict.fromkeys(map(str.lower, engines)) if name in ENGINES.get(kind, {})]
    unknown = ", ".join(name for name in engines if name.lower() not in known)
    degraded = (Degraded(component=PROVIDER, reason=f"it has no engine named {unknown}"),) if unknown else ()
    return ",".join(known) or "auto", degraded


@dataclass(frozen=True, slots=True)
class DdgsResult:
    rows: Sequence[Any]
    degraded: tuple[Degraded, ...] = ()


class DdgsCall:
    """One call of the library.

    `run` blocks. It uses the egress log of the context in which it runs. `stop` may be called from another thread, before or
    during `run`.
    """

    def __init__(
        self, new_engine: Callable[[], Any], kind: Kind, request: WebSearchRequest, timelimit: str | None
    ) -> None:
        self._new_engine = new_engine
        self._kind = kind
        self._request = request
        self._timelimit = timelimit
        self._engine: Any = None
        self._is_stopped = False

    def stop(self) -> None:
        """Call no further engine, if this version of the library supports that. Thread-safe."""
        self._is_stopped = True
        if stop := getattr(self._engine, "stop", None):
            stop()

    def run(self) -> DdgsResult:
        """Run the search. Raises web search errors only."""
        self._engine = self._new_engine()
        if self._is_stopped:
            self.stop()
        backends, unknown_engines = choose_backends(self._kind, self._request.engines)
        query = f"{self._request.query} {site_operators(self._request.domains)}".strip()
        if not getattr(self._engine, "observes_requests", False):
            # The hosts that get the query are not known, so the library counts as one.
            log_sent(PROVIDER, "query", len(query.encode()), getattr(self._engine, "via", None))
        try:
            rows = getattr(self._engine, self._kind)(
                query,
                region=choose_region(self._request),
                safesearch="moderate",
                timelimit=self._timelimit,
                max_results=self._request.count,
                page=self._request.page,
                backend=backends,
            )
        except AppException:
            raise
        except OSError as error:
            raise exceptions.WebSearchConnectionError(
                "ddgs could not reach its engines: is there a network?"
            ) from error
        except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
            raise exceptions.WebSearchError(
                "ddgs failed on an engine's answer: try again, or name other engines"
            ) from error
        except _get_library_error() as error:
            return DdgsResult(self._accept_no_rows(error), (*unknown_engines, *self._list_failed_engines()))
        if not isinstance(rows, list | tuple):
            raise exceptions.WebSearchError("ddgs returned no list of results: is its version supported?")
        return DdgsResult(rows, (*unknown_engines, *self._list_failed_engines()))

    def _accept_no_rows(self, error: BaseException) -> Sequence[Any]:
        """Return no rows if an engine answered and found nothing.

        Otherwise raise the web search error that says what the library's exception and the statuses of the engines mean.
        """
        statuses = {name: status for name, status in self._list_statuses().items() if name not in _ENCYCLOPEDIAS}
        message = str(error)
        if OK in statuses.values() or (not self._list_statuses() and _NOTHING_FOUND.search(message)):
            return ()
        if type(error).__name__ == "RatelimitException" or not _REFUSALS.isdisjoint(statuses.values()):
            raise exceptions.WebSearchBlockedError(
                "all engines of ddgs refuse requests for now: try again later, or set SEARXNG_URL",
                retry_after_s=RETRY_AFTER_S,
                engines_only=True,
            ) from error
        if type(error).__name__ == "TimeoutException" or _TIMED_OUT.search(message):
            raise exceptions.WebSearchTimeoutError("the engines of ddgs did not answer in time: try again") from error
        if UNREACHABLE in statuses.values() or _UNREACHABLE.search(message):
            raise exceptions.WebSearchConnectionError(
                "ddgs could not reach its engines: is there a network?"
            ) from error
        raise exceptions.WebSearchError(
            "the engines of ddgs answered with errors: try again, or name others"
        ) from error

    def _list_statuses(self) -> Mapping[str, int]:
        statuses = getattr(self._engine, "statuses", None)
        return statuses if isinstance(statuses, dict) else {}

    def _list_failed_engines(self) -> Iterator[Degraded]:
        for engine, status in sorted(self._list_statuses().items()):
            if status != OK:
                reason = (
                    "it could not be reached in time" if status == UNREACHABLE else f"it answered with HTTP {status}"
                )
                yield Degraded(component=f"{PROVIDER}/{engine}", reason=reason)


def _get_library_error() -> type[BaseException]:
    try:
        from ddgs.exceptions import DDGSException
    except ImportError as error:
        raise exceptions.WebSearchConfigError(NEEDS_EXTRA) from error
    base: type[BaseException] = DDGSException
    return base


class DdgsWebSearchAdapter(IWebSearchProvider):
    """Web search with the engines of the ddgs library. `engine` creates the object for one search, by default a DdgsSession."""

    name = "ddgs"

    def __init__(
        self,
        timeout: float = DDGS_TIMEOUT_S,
        proxy: str | None = None,
        engine: Callable[[], Any] | None = None,
        redactor: Redactor | None = None,
    ) -> None:
        self._timeout = timeout
        self._engine_timeout = max(1, int(timeout / ENGINE_SHARE))
        self._proxy = proxy
        self._new_engine = engine or self._open_session
        self._redactor = redactor or Redactor()
        self._threads = ThreadPoolExecutor(max_workers=MAX_THREADS, thread_name_prefix="ddgs")

    async def search(self, request: WebSearchRequest) -> WebSearchResponse:
        window = freshness_window(request)
        searches = [self._search_kind(kind, request, window) for kind in choose_kinds(request)]
        answers = _collect_answers(await asyncio.gather(*searches, return_exceptions=True), self.name)
        rows = chain.from_iterable(zip_longest(*(answer.rows for answer in answers)))
        results = {item.url: item for item in map(self._make_item, rows) if item and is_admitted(item, request, window)}
        unsupported = [
            Degraded(component=self.name, reason=f"it has no {kind} search: the web was searched")
            for kind in ("academic", "documents")
            if kind in request.sources
        ]
        return WebSearchResponse(
            query=request.query,
            results=tuple(results.values())[: request.count],
            provider=self.name,
            degraded=(*unsupported, *(entry for answer in answers for entry in answer.degraded)),
        )

    async def ping(self) -> str:
        """Return the version of the library. Raises WebSearchConfigError if it is not installed.

        No engine is called, because engines count queries.
        """
        try:
            return f"ddgs {version('ddgs')}"
        except PackageNotFoundError as error:
            raise exceptions.WebSearchConfigError(NEEDS_EXTRA) from error

    async def aclose(self) -> None:
        """Accept no more searches. Running searches end by the library's own timeout."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _open_session(self) -> DdgsSession:
        return DdgsSession(self._engine_timeout, self._proxy)

    async def _search_kind(self, kind: Kind, request: WebSearchRequest, window: Freshness | None) -> DdgsResult:
        """Search for one kind of source in a thread. Raises WebSearchTimeoutError after the deadline.

        Shortly before the deadline the search calls no further engine, so that it returns the results of the others.
        """
        loop = asyncio.get_running_loop()
        search = DdgsCall(self._new_engine, kind, request, choose_timelimit(window))
        early_stop = loop.call_later(max(0.0, self._timeout - self._engine_timeout - MARGIN_S), search.stop)
        try:
            async with asyncio.timeout(self._timeout):
                return await loop.run_in_executor(self._threads, copy_context().run, search.run)
        except TimeoutError as error:
            raise exceptions.WebSearchTimeoutError(
                f"ddgs did not answer within {self._timeout:g} s: try again"
            ) from error
        finally:
            early_stop.cancel()
            search.stop()

    def _make_item(self, row: Any) -> WebSearchResultItem | None:
        """Return the result of a row, or None if the row has no title or no web address."""
        if not isinstance(row, Mapping):
            return None
        url, title = row.get("href") or row.get("url"), self._clean_text(row.get("title"))
        if not title or not isinstance(url, str) or not is_web_url(url):
            return None
        return WebSearchResultItem(
            title=title,
            url=self._redactor.text(url),
            snippet=self._clean_text(row.get("body")),
            site_name=self._clean_text(row.get("source")) or None,
            published_date=_write_iso_date(row.get("date")),
            source=self.name,
        )

    def _clean_text(self, value: object) -> str:
        return self._redactor.text(" ".join(value[:DDGS_TEXT_CHARS].split())) if isinstance(value, str) else ""


def _collect_answers(outcomes: Sequence[DdgsResult | BaseException], name: str) -> list[DdgsResult]:
    """Return the answers, and an answer without rows for each failure.

    Raises the first failure if there is no answer, and any error that is not an AppException.
    """
    answers = [outcome for outcome in outcomes if isinstance(outcome, DdgsResult)]
    for error in [outcome for outcome in outcomes if isinstance(outcome, BaseException)]:
        if not answers or not isinstance(error, AppException):
            raise error
        answers.append(DdgsResult((), (Degraded.of(name, error),)))
    return answers


def _write_iso_date(value: object) -> str | None:
    """Return an ISO 8601 date unchanged, and None for anything else, such as `yesterday`."""
    if not isinstance(value, str):
        return None
    try:
        date.fromisoformat(value[:10])
    except ValueError:
        return None
    return value
