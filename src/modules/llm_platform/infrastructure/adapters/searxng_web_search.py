"""SearXNG as a search provider: POST {base}/search, a form in, JSON out (requirements RB2 to RB4)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import partial
from itertools import chain, islice
from typing import Final, Protocol
from urllib.parse import quote_plus

import httpx2

from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.web_search_dtos import (
    SourceKind,
    VerbatimWebSearchRequest,
    WebSearchRequest,
    WebSearchResponse,
)
from modules.llm_platform.domain.exceptions import (
    WebSearchBlockedError,
    WebSearchConfigError,
    WebSearchError,
    WebSearchRequestError,
)
from modules.llm_platform.domain.freshness import Freshness, freshness_window
from modules.llm_platform.domain.ports.engine_lists import EngineListCheck
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from modules.llm_platform.domain.redaction import Redactor
from modules.llm_platform.infrastructure.adapters.searxng_protocol import (
    CATEGORIES,
    DEFAULT_ENGINES,
    SearXNGAnswer,
    SearXNGConfig,
    categories_of,
    engines_not_asked,
    engines_of,
    form_of,
    nobody_asked,
    wanted,
    why_not_asked,
)
from modules.llm_platform.infrastructure.adapters.searxng_refusals import (
    BOT_DETECTION,
    CREDENTIALS_REFUSED,
    LIMITER_WORDS,
    LONG_WINDOW_S,
    RULES,
    LastMet,
    LimiterWindow,
    Suspensions,
    bad_form,
    is_limiter_redirect,
)
from modules.llm_platform.infrastructure.http.client import Reply, Upstream, has_credentials
from modules.llm_platform.infrastructure.http.errors import retry_after_s
from shared.exceptions import AppException

SEARCH: Final = "/search"
REACHABLE: Final = "reachable"
RESULTS_PER_PAGE: Final = 10  # SearXNG has no limit parameter; a page has ten results or more, or it is the last one
MAX_PAGES: Final = 5
TOOK_NO_PART: Final = "took no part: {cause}"
NO_CONFIG: Final = "SearXNG does not tell its engines at /config: the lists of the settings cannot be held against them"

# Its limiter refuses clients that do not look like a reader of web pages, whatever format they ask for.
HEADERS: Final = {
    "Accept": "application/json, text/html;q=0.9, */*;q=0.8",
    "Accept-Language": "en-US,en;q=0.7",  # the language of its messages; that of the results is a field of the form
}


class SearXNGWebSearchAdapter(IWebSearchProvider):
    """One SearXNG instance. `engines` are asked by source kind; `timeout` (seconds) is for a whole search, second tries
    and pages included. Credentials may also stand in the address.

    When every engine that was asked is blocked, the instance's own choice is asked once. A verbatim request gets the
    instance's own answer instead, in which `unresponsive_engines` names them.
    """

    def __init__(
        self,
        base_url: str,
        *,
        name: str = "searxng",
        engines: Mapping[SourceKind, Sequence[str]] = DEFAULT_ENGINES,
        username: str | None = None,
        password: str | None = None,
        timeout: float = 10.0,
        safesearch: int = 0,
        client: httpx2.AsyncClient | None = None,
        redactor: Redactor | None = None,
        today: Callable[[], date] = lambda: datetime.now(UTC).date(),
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self._engines = engines
        self._safesearch = safesearch
        self._today = today
        self._limiter = LimiterWindow(clock)
        self._last_met = LastMet(clock)
        self._suspensions = Suspensions(now)
        self._upstream = Upstream(
            "SearXNG",
            base_url,
            setting="SEARXNG_URL",
            timeout=timeout,
            client=client,
            headers=HEADERS,
            auth=(username, password or "") if username else None,
            rules={**RULES, 401: CREDENTIALS_REFUSED} if username or has_credentials(base_url) else RULES,
            redactor=redactor,
        )

    async def search(self, request: WebSearchRequest) -> WebSearchResponse:
        try:
            response = await self._search(request)
        except WebSearchRequestError:  # the caller's mistake says nothing about the instance
            raise
        except AppException as error:
            self._last_met.failed(error)
            raise
        if response.results or not response.degraded:
            self._last_met.answered()
        return response

    async def _search(self, request: WebSearchRequest) -> WebSearchResponse:
        limit = freshness_window(request)
        engines = engines_of(request, self._engines)
        form = form_of(request, engines, limit, self._safesearch, self._today())
        found = await self._find(request, form, asyncio.get_running_loop().time() + self._upstream.timeout)
        if "documents" in request.sources:
            found.degraded.append(Degraded(component=self.name, reason="does not search documents"))
        if engines and not found.own_choice:
            found.degraded.extend(self._took_no_part(engines, found.form, found.pages, every=bool(request.engines)))
        return self._response(request, limit, found)

    async def ping(self) -> str:
        """What the last search met counts while it stands; else a search without a query, which asks no engine: it is
        refused with 400 where JSON is on, with 403 where it is off. /healthz knows neither of JSON nor of the limiter, so it
        is enough only where JSON was seen a moment ago.
        """
        if refusal := self._last_met.refusal:
            raise refusal
        if self._last_met.json_is_fresh:
            reply = await self._upstream.get("/healthz")
            if reply.status == httpx2.codes.OK and not reply.is_html:
                return REACHABLE
        try:
            await self._see_json()
        except WebSearchBlockedError as error:
            self._last_met.failed(error)
            raise
        return REACHABLE

    async def engine_lists(self) -> tuple[EngineListCheck, ...]:
        """The engine lists of the settings held against /config, which asks no engine."""
        try:
            config = SearXNGConfig(self._upstream.object_in(await self._upstream.get("/config")))
        except (WebSearchConfigError, WebSearchError) as error:  # their remedies are those of a search
            raise WebSearchError(NO_CONFIG) from error
        if not config.engines():
            raise WebSearchError(NO_CONFIG)
        return tuple(config.check(kind, self._engines[kind]) for kind in CATEGORIES if self._engines.get(kind))

    async def _see_json(self) -> None:
        reply = await self._upstream.post_form(SEARCH, {"format": "json"}, holds=None)
        self._check_limiter(reply)
        if reply.status != httpx2.codes.BAD_REQUEST or reply.is_html:
            self._upstream.object_in(reply)
        self._last_met.saw_json()

    async def _find(self, request: WebSearchRequest, form: dict[str, str], deadline: float) -> _Found:
        verbatim = isinstance(request, VerbatimWebSearchRequest)
        span = 1 if verbatim else min(-(-request.count // RESULTS_PER_PAGE), MAX_PAGES)
        number = (request.page - 1) * span + 1
        ask = partial(self._ask, deadline=deadline, finite=verbatim)
        found = await self._first_page(request, {**form, "pageno": str(number)}, ask)
        for next_number in range(number + 1, number + span):
            if len(found.pages[-1].rows) < RESULTS_PER_PAGE or found.rows >= request.count:
                break
            try:
                page = await ask({**found.form, "pageno": str(next_number)})
            except AppException as error:  # the earlier pages are an answer too
                found.degraded.append(Degraded.of(f"{self.name}/page {next_number}", error))
                break
            if not page.urls() - found.urls:  # an engine without pages gives its first one again
                break
            found.pages.append(page)
        return found

    async def _first_page(self, request: WebSearchRequest, form: dict[str, str], ask: _Ask) -> _Found:
        page = await ask(form)
        failed = page.failed()
        left_out: list[Degraded] = []
        if request.engines and isinstance(request, VerbatimWebSearchRequest):
            return _Found(form, [page], self._suspensions.degraded(self.name, failed), own_choice=False)
        if page.none_asked and request.engines:
            raise nobody_asked(form)
        own_choice = (page.all_blocked or page.none_asked) and "engines" in form
        if own_choice:
            if page.none_asked:
                left_out.extend(self._took_no_part(form["engines"].split(","), form, [page], every=False))
            form = {name: value for name, value in form.items() if name != "engines"}
            form["categories"] = categories_of(request)
            try:
                page = await ask(form)
            except AppException as error:
                if not failed:
                    raise
                raise self._suspensions.blocked(failed) from error
            failed += page.failed()
        if page.all_blocked:
            raise self._suspensions.blocked(failed)
        return _Found(form, [page], [*left_out, *self._suspensions.degraded(self.name, failed)], own_choice)

    async def _ask(self, form: dict[str, str], deadline: float, finite: bool) -> SearXNGAnswer:
        reply = await self._upstream.post_form(SEARCH, form, deadline)
        self._check_limiter(reply)
        if reply.status == httpx2.codes.BAD_REQUEST:
            raise bad_form(reply.body) or self._upstream.failure(reply.status)
        return SearXNGAnswer(self._upstream.object_in(reply, finite=finite), reply.headers)

    def _check_limiter(self, reply: Reply) -> None:
        """Its refusals name no time: WebSearchBlockedError with the time that its window lasts. That of a proxy is unknown."""
        if reply.status == httpx2.codes.TOO_MANY_REQUESTS:
            wait_s = retry_after_s(reply.headers)
            if wait_s is None and reply.body.strip() == LIMITER_WORDS:
                wait_s = self._limiter.refused()
            raise self._upstream.failure(reply.status, wait_s)
        url = f"{self._upstream.base_url}{SEARCH}"
        if is_limiter_redirect(reply.status, reply.headers.get("location", ""), url):
            raise WebSearchBlockedError(BOT_DETECTION, retry_after_s=LONG_WINDOW_S)
        self._limiter.passed()

    def _took_no_part(
        self, engines: Sequence[str], form: Mapping[str, str], pages: Sequence[SearXNGAnswer], *, every: bool
    ) -> Iterator[Degraded]:
        # Our own list is a wish, of which an instance may lack some, but not all; the caller's is reported one by one.
        if not every and any(row.get("engine") in engines for row in pages[0].rows if isinstance(row, dict)):
            return
        missing = engines_not_asked(engines, pages)
        if every or len(missing) == len(engines):
            reason = TOOK_NO_PART.format(cause=why_not_asked(form, "it"))
            for engine in missing:
                yield Degraded(component=f"{self.name}/{engine}", reason=reason)

    def _response(self, request: WebSearchRequest, limit: Freshness | None, found: _Found) -> WebSearchResponse:
        first = found.pages[0]
        search_page = partial(self._search_page, request.query)
        items = chain.from_iterable(page.items(search_page) for page in found.pages)
        return WebSearchResponse.model_validate(
            {
                "query": request.query,
                "total_matches": first.total(),
                "results": list(islice(wanted(items, request, limit), request.count)),
                "provider": self.name,
                "degraded": tuple({each.component: each for each in found.degraded}.values()),
                "correction": first.correction(),
                "suggestions": first.suggestions(),
                "raw": first.raw,
            }
        )

    def _search_page(self, query: str) -> str:
        """The instance's own page for a query: the address of an answer that has none."""
        return f"{self._upstream.base_url}{SEARCH}?q={quote_plus(query, errors='replace')}"


class _Ask(Protocol):
    async def __call__(self, form: dict[str, str]) -> SearXNGAnswer: ...


@dataclass(slots=True)
class _Found:
    """Pages that came, the form that brought them, and whether the instance chose the engines, ours being blocked."""

    form: dict[str, str]
    pages: list[SearXNGAnswer]
    degraded: list[Degraded]
    own_choice: bool

    @property
    def rows(self) -> int:
        return sum(len(page.rows) for page in self.pages)

    @property
    def urls(self) -> set[str]:
        return set().union(*(page.urls() for page in self.pages))
