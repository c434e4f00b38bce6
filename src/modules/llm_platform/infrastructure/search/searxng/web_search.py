"""Search with SearXNG: POST {base}/search with a form, which is answered with JSON."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import partial
from itertools import chain, islice
from operator import methodcaller
from typing import Final, Protocol
from urllib.parse import quote_plus

import httpx2

from modules.llm_platform.domain import exceptions
from modules.llm_platform.domain.dtos import web_search_dtos as dtos
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.freshness import Freshness
from modules.llm_platform.domain.ports.engine_lists import EngineListCheck
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from modules.llm_platform.domain.privacy.redaction import Redactor
from modules.llm_platform.domain.search.freshness import freshness_window
from modules.llm_platform.domain.urls.canonical_url import admits_host, get_host
from modules.llm_platform.infrastructure.http.client import Reply, Upstream, has_credentials
from modules.llm_platform.infrastructure.http.errors import NO_RESULTS, retry_after_s
from modules.llm_platform.infrastructure.search.searxng import refusals
from modules.llm_platform.infrastructure.search.searxng.answer import (
    FailedEngine,
    Fields,
    SearXNGAnswer,
    SearXNGConfig,
    list_engines_not_called,
)
from modules.llm_platform.infrastructure.search.searxng.form import (
    CATEGORIES,
    DEFAULT_ENGINES,
    build_form,
    choose_categories,
    choose_engines,
    explain_not_called,
    make_no_engine_error,
)
from shared.exceptions import AppException

SEARCH: Final = "/search"
REACHABLE: Final = "reachable"
RESULTS_PER_PAGE: Final = 10  # SearXNG has no parameter for the number. A page with fewer results is the last one.
SEARXNG_PAGES: Final = 5
NOT_CALLED: Final = "was not called: {cause}"
NO_CONFIG: Final = "SearXNG does not list its engines at /config: the engine lists of the settings cannot be checked"

# The limiter refuses clients that do not look like a browser, whatever format they request.
HEADERS: Final = {
    "Accept": "application/json, text/html;q=0.9, */*;q=0.8",
    "Accept-Language": "en-US,en;q=0.7",  # This is the language of messages. The form has the language of results.
}


class SearXNGWebSearchAdapter(IWebSearchProvider):
    """One SearXNG instance.

    If all named engines are blocked, the search is sent once more without names, so that the instance chooses its engines. A
    verbatim request gets the instance's answer instead, whose `unresponsive_engines` names them.

    - `base_url` may contain credentials.
    - `engines` are the engines of each source kind.
    - `timeout` is the limit in seconds for a search with all its pages and its second try.
    """

    def __init__(
        self,
        base_url: str,
        *,
        name: str = "searxng",
        engines: Mapping[dtos.SourceKind, Sequence[str]] = DEFAULT_ENGINES,
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
        self._limiter = refusals.LimiterWindow(clock)
        self._last_outcome = refusals.LastOutcome(clock)
        self._suspensions = refusals.Suspensions(now)
        self._upstream = Upstream(
            "SearXNG",
            base_url,
            setting="SEARXNG_URL",
            timeout=timeout,
            client=client,
            headers=HEADERS,
            auth=(username, password or "") if username else None,
            rules={**refusals.RULES, 401: refusals.CREDENTIALS_REFUSED}
            if username or has_credentials(base_url)
            else refusals.RULES,
            redactor=redactor,
        )

    async def search(self, request: dtos.WebSearchRequest) -> dtos.WebSearchResponse:
        try:
            response = await self._search(request)
        except exceptions.WebSearchRequestError:
            # This is an error of the caller, and says nothing about the instance.
            raise
        except AppException as error:
            self._last_outcome.note_failure(error)
            raise
        if response.results or not response.degraded:
            self._last_outcome.note_answer()
        return response

    async def _search(self, request: dtos.WebSearchRequest) -> dtos.WebSearchResponse:
        window = freshness_window(request)
        engines = choose_engines(request, self._engines)
        form = build_form(request, engines, window, self._safesearch, self._today)
        pages = await self._fetch_pages(request, form, asyncio.get_running_loop().time() + self._upstream.timeout)
        if "documents" in request.sources:
            pages.degraded.append(Degraded(component=self.name, reason="does not search documents"))
        if engines and not pages.instance_chose:
            pages.degraded.extend(
                self._list_not_called(engines, pages.form, pages.answers, every=bool(request.engines))
            )
        return self._make_response(request, window, pages)

    async def ping(self) -> str:
        """Raise the refusal of the last search while it lasts. Otherwise send a search without a query, which calls no engine.

        The instance answers with 400 if JSON is enabled, and with 403 if it is not. /healthz checks neither JSON nor the
        limiter, so it is only used if JSON was received recently.
        """
        if refusal := self._last_outcome.refusal:
            raise refusal
        if self._last_outcome.has_recent_json:
            reply = await self._upstream.get("/healthz", sent_kind=None)
            if reply.status == httpx2.codes.OK and not reply.is_html:
                return REACHABLE
        try:
            reply = await self._upstream.post_form(SEARCH, {"format": "json"}, sent_kind=None)
            self._check_limiter(reply)
            if reply.status != httpx2.codes.BAD_REQUEST or reply.is_html:
                self._upstream.json_object(reply)
        except exceptions.WebSearchBlockedError as error:
            self._last_outcome.note_failure(error)
            raise
        self._last_outcome.note_json()
        return REACHABLE

    async def engine_lists(self) -> tuple[EngineListCheck, ...]:
        """Compare the engine lists of the settings with /config. No engine is called."""
        try:
            reply = await self._upstream.get("/config", sent_kind=None)
            config = SearXNGConfig(self._upstream.json_object(reply))
        except (exceptions.WebSearchConfigError, exceptions.WebSearchError) as error:
            # The messages of these errors are about searches.
            raise exceptions.WebSearchError(NO_CONFIG) from error
        if not config.engines():
            raise exceptions.WebSearchError(NO_CONFIG)
        return tuple(config.check(kind, self._engines[kind]) for kind in CATEGORIES if self._engines.get(kind))

    async def _fetch_pages(self, request: dtos.WebSearchRequest, form: dict[str, str], deadline: float) -> _Pages:
        verbatim = isinstance(request, dtos.VerbatimWebSearchRequest)
        page_count = 1 if verbatim else min(-(-request.count // RESULTS_PER_PAGE), SEARXNG_PAGES)
        number = (request.page - 1) * page_count + 1
        send = partial(self._send, deadline=deadline, finite=verbatim)
        pages = await self._read_first_page(request, {**form, "pageno": str(number)}, send)
        for next_number in range(number + 1, number + page_count):
            if len(pages.answers[-1].rows) < RESULTS_PER_PAGE or pages.rows >= request.count:
                break
            try:
                answer = await send({**pages.form, "pageno": str(next_number)})
            except AppException as error:
                # The pages before this one are an answer.
                pages.degraded.append(Degraded.of(f"{self.name}/page {next_number}", error))
                break
            if not answer.urls() - pages.urls:
                # Engines without pages return the first page again.
                break
            pages.answers.append(answer)
        return pages

    async def _read_first_page(self, request: dtos.WebSearchRequest, form: dict[str, str], send: _Send) -> _Pages:
        answer = await send(form)
        failed = answer.list_failed()
        not_called: list[Degraded] = []
        if request.engines and isinstance(request, dtos.VerbatimWebSearchRequest):
            return _Pages(form, [answer], self._list_degraded(failed), instance_chose=False)
        if request.engines and answer.is_no_engine_called:
            raise make_no_engine_error(form)
        instance_chose = not answer.rows and (answer.all_blocked or answer.is_no_engine_called) and "engines" in form
        if instance_chose:
            if answer.is_no_engine_called:
                not_called.extend(self._list_not_called(form["engines"].split(","), form, [answer], every=False))
            form = {name: value for name, value in form.items() if name != "engines"}
            form["categories"] = choose_categories(request)
            try:
                answer = await send(form)
            except AppException as error:
                if not failed:
                    raise
                raise self._suspensions.make_blocked_error(failed) from error
            failed += answer.list_failed()
        if not answer.rows and answer.all_blocked:
            raise self._suspensions.make_blocked_error(failed)
        return _Pages(form, [answer], not_called + (self._list_degraded(failed) if failed else []), instance_chose)

    def _list_degraded(self, failed: Sequence[FailedEngine]) -> list[Degraded]:
        return self._suspensions.describe(self.name, failed)

    async def _send(self, form: dict[str, str], deadline: float, finite: bool) -> SearXNGAnswer:
        reply = await self._upstream.post_form(SEARCH, form, deadline, sent_kind="query")
        self._check_limiter(reply)
        if reply.status == httpx2.codes.BAD_REQUEST:
            raise refusals.form_error(reply.body) or self._upstream.make_status_error(reply.status)
        answer = self._upstream.json_object(reply, finite=finite)
        if "results" not in answer:  # another program, or an error with status 200
            raise self._upstream.rule_error(NO_RESULTS)
        return SearXNGAnswer(answer, reply.headers)

    def _check_limiter(self, reply: Reply) -> None:
        """Raise WebSearchBlockedError for a refusal of the limiter, with the duration of its window, or of a proxy."""
        if reply.status == httpx2.codes.TOO_MANY_REQUESTS:
            wait_s = retry_after_s(reply.headers)
            if wait_s is None and reply.body.strip() == refusals.LIMITER_BODY:
                wait_s = self._limiter.note_refusal()
            raise self._upstream.make_status_error(reply.status, wait_s)
        url = f"{self._upstream.base_url}{SEARCH}"
        if reply.status == httpx2.codes.FOUND and refusals.is_limiter_redirect(reply.headers.get("location", ""), url):
            raise exceptions.WebSearchBlockedError(refusals.BOT_DETECTION, retry_after_s=refusals.LONG_WINDOW_S)
        if self._limiter.refused_since is not None:
            self._limiter.note_answer()

    def _list_not_called(
        self, engines: Sequence[str], form: Mapping[str, str], answers: Sequence[SearXNGAnswer], *, every: bool
    ) -> Iterator[Degraded]:
        # All missing engines of the caller are reported. Those of the settings are reported only if the instance lacks all.
        if not every and any(row.get("engine") in engines for row in answers[0].rows if isinstance(row, dict)):
            return
        missing = list_engines_not_called(engines, answers)
        if every or len(missing) == len(engines):
            reason = NOT_CALLED.format(cause=explain_not_called(form, "it"))
            for engine in missing:
                yield Degraded(component=f"{self.name}/{engine}", reason=reason)

    def _make_response(
        self, request: dtos.WebSearchRequest, window: Freshness | None, pages: _Pages
    ) -> dtos.WebSearchResponse:
        first = pages.answers[0]
        items = chain.from_iterable(
            map(methodcaller("items", partial(self._search_page, request.query)), pages.answers)
        )
        return dtos.WebSearchResponse.model_validate(
            {
                "query": request.query,
                "total_matches": first.total(),
                "results": list(islice(_filter_items(items, request, window), request.count)),
                "provider": self.name,
                "degraded": tuple({degradation.component: degradation for degradation in pages.degraded}.values())
                if pages.degraded
                else (),
                **first.hints(),
                "raw": first.raw,
            }
        )

    def _search_page(self, query: str) -> str:
        """Return the address of the instance's page for a query, for an answer that has no address."""
        return f"{self._upstream.base_url}{SEARCH}?q={quote_plus(query, errors='replace')}"


def _filter_items(
    items: Iterable[Fields], request: dtos.WebSearchRequest, window: Freshness | None
) -> Iterator[Fields]:
    """Yield the items that match domains and dates of the request, without repeated addresses."""
    seen: set[str] = set()
    for item in items:
        url = item["url"]
        if url in seen or (window is not None and not window.admits(item.get("published_date"))):
            continue
        if request.domains and not admits_host(get_host(url), request.domains):
            continue
        seen.add(url)
        yield item


class _Send(Protocol):
    async def __call__(self, form: dict[str, str]) -> SearXNGAnswer: ...


@dataclass(slots=True)
class _Pages:
    """The answers of all pages, and their form.

    `instance_chose` is True if the instance chose the engines, because the named ones are blocked.
    """

    form: dict[str, str]
    answers: list[SearXNGAnswer]
    degraded: list[Degraded]
    instance_chose: bool

    @property
    def rows(self) -> int:
        return sum(len(answer.rows) for answer in self.answers)

    @property
    def urls(self) -> set[str]:
        return set().union(*(answer.urls() for answer in self.answers))
