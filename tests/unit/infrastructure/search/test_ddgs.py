"""infrastructure/search/ddgs.py, ddgs_call.py and ddgs_query.py, with a scripted library."""

from __future__ import annotations

import asyncio
import builtins
import threading
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from ddgs.exceptions import DDGSException, RatelimitException, TimeoutException
from tests.support.cases import for_each

from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest, WebSearchResponse
from modules.llm_platform.domain.exceptions import (
    WebSearchBlockedError,
    WebSearchConfigError,
    WebSearchConnectionError,
    WebSearchError,
    WebSearchTimeoutError,
)
from modules.llm_platform.domain.privacy.redaction import Redactor
from modules.llm_platform.infrastructure.search import ddgs as ddgs_web_search
from modules.llm_platform.infrastructure.search.ddgs import MAX_THREADS, DdgsWebSearchAdapter, choose_region
from shared.exceptions import AppException

PAGE = {"title": "Page", "href": "https://example.org/a", "body": "Words."}


class Script:
    """A DDGS with scripted answers that records its calls."""

    def __init__(self, text: Any = (), news: Any = (), statuses: dict[str, int] | None = None) -> None:
        self._outcomes = {"text": text, "news": news}
        self.calls: list[tuple[str, str, dict[str, Any]]] = []
        if statuses is not None:
            self.statuses = statuses

    def text(self, query: str, **options: Any) -> Any:
        return self._answer("text", query, options)

    def news(self, query: str, **options: Any) -> Any:
        return self._answer("news", query, options)

    def _answer(self, kind: str, query: str, options: dict[str, Any]) -> Any:
        self.calls.append((kind, query, options))
        outcome = self._outcomes[kind]
        if isinstance(outcome, BaseException):
            raise outcome
        return list(outcome) if isinstance(outcome, tuple) else outcome


Search = Callable[..., Any]


@pytest.fixture
async def search() -> AsyncIterator[Search]:
    adapters: list[DdgsWebSearchAdapter] = []

    async def search(
        script: Any, *, query: str = "python", redactor: Redactor | None = None, **fields: Any
    ) -> WebSearchResponse:
        adapters.append(DdgsWebSearchAdapter(engine=lambda: script, redactor=redactor))
        return await adapters[-1].search(WebSearchRequest(query=query, **fields))

    yield search
    for adapter in adapters:
        await adapter.aclose()


async def test_a_text_result_has_title_address_and_snippet(search: Search) -> None:
    """White space is normalised."""
    answer = await search(Script(text=({**PAGE, "body": " Two\n words "},)))
    (item,) = answer.results
    assert (item.title, item.url, item.snippet, item.source) == ("Page", "https://example.org/a", "Two words", "ddgs")
    assert (item.published_date, item.site_name) == (None, None)


async def test_a_news_result_has_date_and_site(search: Search) -> None:
    """An invalid date is left out."""
    rows = (
        {"title": "A", "url": "https://n.org/a", "body": "x", "date": "2026-03-01T10:00:00+00:00", "source": "N"},
        {"title": "B", "url": "https://n.org/b", "body": "x", "date": "yesterday", "source": None},
    )
    script = Script(news=rows)
    answer = await search(script, sources=("news",))
    assert [(item.published_date, item.site_name) for item in answer.results] == [
        ("2026-03-01T10:00:00+00:00", "N"),
        (None, None),
    ]
    assert [kind for kind, *_ in script.calls] == ["news"]


async def test_web_and_news_are_searched_concurrently(search: Search) -> None:
    """Interleaved by rank, each page once, up to `count`."""
    web = tuple({"title": f"W{n}", "href": f"https://w.org/{n}"} for n in range(3))
    news = ({"title": "N0", "url": "https://n.org/0"}, {"title": "W0", "url": "https://w.org/0"})
    answer = await search(Script(text=web, news=news), sources=("web", "news"), count=3)
    assert [item.url for item in answer.results] == ["https://w.org/0", "https://n.org/0", "https://w.org/1"]


async def test_a_failure_of_one_kind_is_listed(search: Search) -> None:
    """When both fail it is an error."""
    answer = await search(Script(text=(PAGE,), news=RatelimitException("x")), sources=("web", "news"))
    assert len(answer.results) == 1
    assert "web_search_blocked" in answer.degraded[0].reason
    with pytest.raises(WebSearchTimeoutError):
        await search(Script(text=TimeoutException("x"), news=RatelimitException("x")), sources=("web", "news"))


@pytest.mark.parametrize(
    "row",
    [
        None,
        "x",
        [],
        {},
        {"title": "T"},
        {"href": "https://a.org"},
        {"title": "", "href": "https://a.org"},
        {"title": "T", "href": None},
        {"title": "T", "href": 7},
        {"title": "T", "href": "javascript:alert(1)"},
        {"title": "T", "href": "https://a.org/x y"},
        {"title": "T", "href": "/relative"},
        {"title": 7, "href": "https://a.org"},
        {"title": "T", "href": "data:text/html,x"},
        {"title": "T", "href": "http://127.0.0.1\\@a.org"},
    ],
)
async def test_invalid_rows_are_dropped(search: Search, row: Any) -> None:
    """The others stay."""
    answer = await search(Script(text=(row, PAGE, {**PAGE, "href": "https://b.org", "body": None})))
    assert [item.url for item in answer.results] == ["https://example.org/a", "https://b.org"]


@pytest.mark.parametrize(
    ("raised", "statuses", "expected"),
    [
        (RatelimitException("x"), None, WebSearchBlockedError),
        (TimeoutException("x"), None, WebSearchTimeoutError),
        (DDGSException("request timed out"), None, WebSearchTimeoutError),
        (DDGSException("ConnectError: x"), None, WebSearchConnectionError),
        (DDGSException("KeyError: x"), None, WebSearchError),
        (DDGSException("No results found."), {"brave": 429, "wikipedia": 200}, WebSearchBlockedError),
        (DDGSException("No results found."), {"brave": 0, "mojeek": 500}, WebSearchConnectionError),
        (DDGSException("No results found."), {"mojeek": 500}, WebSearchError),
        (DDGSException("No results found."), {"wikipedia": 200}, WebSearchError),
        (TimeoutException("x"), {"brave": 0}, WebSearchTimeoutError),
        (ValueError("x"), None, WebSearchError),
        (KeyError("x"), None, WebSearchError),
        (OSError("x"), None, WebSearchConnectionError),
        (WebSearchConfigError("x"), None, WebSearchConfigError),
    ],
)
async def test_failures_are_errors_of_the_port(
    search: Search, raised: Exception, statuses: dict[str, int] | None, expected: type[AppException]
) -> None:
    """Without text of the library."""
    with pytest.raises(AppException) as found:
        await search(Script(text=raised, statuses=statuses))
    assert type(found.value) is expected
    assert (found.value.retry_after_s is not None) == (expected is WebSearchBlockedError)


@pytest.mark.parametrize(
    ("raised", "statuses", "degraded"),
    [
        (DDGSException("No results found."), None, []),
        (DDGSException("No results found."), {"brave": 200}, []),
        (DDGSException("ConnectError: x"), {"brave": 200, "mojeek": 0, "yahoo": 403}, ["ddgs/mojeek", "ddgs/yahoo"]),
    ],
)
async def test_nothing_found_is_an_answer(
    search: Search, raised: Exception, statuses: dict[str, int] | None, degraded: list[str]
) -> None:
    """If an engine of the web answered; failed ones are listed."""
    answer = await search(Script(text=raised, statuses=statuses))
    assert answer.results == ()
    assert [entry.component for entry in answer.degraded] == degraded


async def test_a_result_other_than_a_list_is_an_error(search: Search) -> None:
    """Of an unsupported version of the library."""
    with pytest.raises(WebSearchError):
        await search(Script(text={"results": []}))


async def test_failed_engines_are_listed_with_results(search: Search) -> None:
    """One engine may answer while others refuse."""
    answer = await search(Script(text=(PAGE,), statuses={"brave": 429, "yahoo": 200}))
    assert [(entry.component, entry.reason) for entry in answer.degraded] == [
        ("ddgs/brave", "it answered with HTTP 429")
    ]


async def test_the_request_is_sent_in_the_library_s_terms(search: Search) -> None:
    """Count, page, language, age, sites and engines."""
    script = Script(text=(PAGE,))
    answer = await search(
        script,
        count=7,
        page=3,
        language="de-AT",
        freshness="oneWeek",
        domains=("example.org", "-spam.com"),
        engines=("Brave", "google news"),
    )
    ((_, query, options),) = script.calls
    assert query == "python site:example.org -site:spam.com"
    assert options == {
        "region": "at-de",
        "safesearch": "moderate",
        "timelimit": "w",
        "max_results": 7,
        "page": 3,
        "backend": "brave",
    }
    assert [entry.reason for entry in answer.degraded] == ["it has no engine named google news"]


async def test_unknown_engines_are_listed(search: Search) -> None:
    """Without a known one the library chooses."""
    script = Script(text=(PAGE,))
    assert len((await search(script, engines=("google",))).results) == 1
    assert script.calls[0][2]["backend"] == "auto"


@for_each(
    ("query", "language", "region"),
    [
        ("python", None, "us-en"),
        ("python", "en", "us-en"),
        ("python", "en-GB", "uk-en"),
        ("python", "pt-BR", "br-pt"),
        ("python", "zh-Hant", "tw-zh"),
        ("Was ist Python?", None, "de-de"),
        ("Pythonとは何ですか", None, "jp-ja"),
        ("Що таке Python?", None, "ua-uk"),
    ],
)
def test_the_region_follows_the_language(query: str, language: str | None, region: str) -> None:
    """The region is that of the requested language, else of the query's language."""
    assert choose_region(WebSearchRequest(query=query, language=language)) == region


@pytest.mark.parametrize(
    ("time_range", "days", "limit"), [("month", None, "m"), (None, 3, "w"), (None, 100, "y"), (None, 4000, None)]
)
async def test_the_time_limit_covers_the_window(
    search: Search, time_range: str | None, days: int | None, limit: str | None
) -> None:
    """Results outside of a range of dates are dropped, undated ones stay."""
    today = datetime.now(UTC).date()
    freshness = f"{today - timedelta(days=days)}..{today}" if days else None
    rows = (
        {"title": "Old", "url": "https://n.org/old", "date": f"{today - timedelta(days=5000)}T00:00:00"},
        {"title": "New", "url": "https://n.org/new", "date": f"{today}T00:00:00"},
        {"title": "Undated", "url": "https://n.org/undated"},
    )
    script = Script(news=rows)
    answer = await search(script, sources=("news",), time_range=time_range, freshness=freshness)
    assert script.calls[0][2]["timelimit"] == limit
    assert [item.title for item in answer.results] == (["New", "Undated"] if days else ["Old", "New", "Undated"])


async def test_results_of_other_sites_are_dropped(search: Search) -> None:
    """An engine may treat `site:` as a hint."""
    rows = tuple(
        {"title": "T", "href": f"https://{host}/"} for host in ("a.org", "www.a.org", "nota.org", "b.a.org", "c.org")
    )
    answer = await search(Script(text=rows), domains=("a.org", "c.org", "-b.a.org"))
    assert [item.url for item in answer.results] == ["https://a.org/", "https://www.a.org/", "https://c.org/"]


async def test_unsupported_kinds_are_listed(search: Search) -> None:
    """Papers and documents: the web is searched."""
    answer = await search(Script(text=(PAGE,)), sources=("academic", "documents"))
    assert [entry.reason for entry in answer.degraded] == [
        "it has no academic search: the web was searched",
        "it has no documents search: the web was searched",
    ]


async def test_secrets_are_redacted(search: Search) -> None:
    """In everything that an engine returns."""
    row = {"title": "T sk-12345678", "href": "https://a.org/?k=sk-12345678", "body": "sk-12345678"}
    answer = await search(Script(text=(row,)), redactor=Redactor(["sk-12345678"]))
    assert "sk-12345678" not in answer.model_dump_json()


class Stuck:
    """A library whose engine never answers; `stop` ends it only when `obedient`."""

    def __init__(self, obedient: bool) -> None:
        self._obedient = obedient
        self.stops = 0
        self.released = threading.Event()

    def text(self, query: str, **_: Any) -> list[Any]:
        self.released.wait(60)
        return [PAGE]

    def stop(self) -> None:
        self.stops += 1
        if self._obedient:
            self.released.set()


async def test_a_hanging_library_is_a_timeout() -> None:
    """The thread is told to stop."""
    stuck = Stuck(obedient=False)
    adapter = DdgsWebSearchAdapter(timeout=0.2, engine=lambda: stuck)
    with pytest.raises(WebSearchTimeoutError, match=r"0\.2 s"):
        await adapter.search(WebSearchRequest(query="python"))
    assert stuck.stops
    stuck.released.set()
    await adapter.aclose()


async def test_results_before_the_deadline_are_returned() -> None:
    """The library is stopped shortly before it."""
    adapter = DdgsWebSearchAdapter(timeout=60, engine=lambda: Stuck(obedient=True))
    adapter._engine_timeout = 59  # the rest is for the library's last results
    assert len((await adapter.search(WebSearchRequest(query="python"))).results) == 1
    await adapter.aclose()


async def test_searches_beyond_the_threads_wait_until_their_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then they never start."""
    made: list[Stuck] = []

    def engine() -> Stuck:
        made.append(Stuck(obedient=False))
        return made[-1]

    adapter = DdgsWebSearchAdapter(timeout=0.3, engine=engine)
    searches = [adapter.search(WebSearchRequest(query="python")) for _ in range(MAX_THREADS + 3)]
    outcomes = await asyncio.gather(*searches, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {WebSearchTimeoutError}
    assert 0 < len(made) <= MAX_THREADS  # on a busy machine a thread may begin when the time is over
    for stuck in made:
        stuck.released.set()
    await adapter.aclose()


async def test_a_search_cancelled_before_its_start_is_stopped() -> None:
    """Also while the library is loading."""
    stuck = Stuck(obedient=True)
    making = threading.Event()

    def engine() -> Stuck:
        making.wait(60)
        return stuck

    adapter = DdgsWebSearchAdapter(engine=engine)
    task = asyncio.create_task(adapter.search(WebSearchRequest(query="python")))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    making.set()
    assert await asyncio.to_thread(stuck.released.wait, 60)
    await adapter.aclose()


async def test_a_missing_package_names_the_install_command(search: Search, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the call, not at the start."""
    real = builtins.__import__

    def without(name: str, *args: Any, **options: Any) -> Any:
        if name.split(".")[0] == "ddgs":
            raise ImportError(name)
        return real(name, *args, **options)

    adapter = DdgsWebSearchAdapter()
    monkeypatch.setattr(builtins, "__import__", without)
    for attempt in (
        adapter.search(WebSearchRequest(query="python")),
        search(Script(text=DDGSException("x"))),
        search(Script(text=(PAGE,)), engines=("brave",)),
    ):
        with pytest.raises(WebSearchConfigError) as found:
            await attempt
        assert 'pip install "llm-platform[web]"' in found.value.message
    await adapter.aclose()


async def test_ping_checks_that_the_library_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """No engine is called."""
    assert (await DdgsWebSearchAdapter().ping()).startswith("ddgs ")

    def version(name: str) -> str:
        raise ddgs_web_search.PackageNotFoundError(name)

    monkeypatch.setattr(ddgs_web_search, "version", version)
    with pytest.raises(WebSearchConfigError, match="llm-platform"):
        await DdgsWebSearchAdapter().ping()
