"""Searches through the wired platform: providers in order, what each may do, what is kept, and what is never said."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.cases import for_each
from tests.support.loopback_upstream import (
    Exchange,
    Handler,
    Loopback,
    hang_up,
    in_turn,
    json_reply,
    recorded,
    reply,
    serving,
    silence,
)

from modules.llm_platform import (
    AppException,
    IWebSearchProvider,
    LLMPlatform,
    WebSearchBlockedError,
    WebSearchConfigError,
    WebSearchConnectionError,
    WebSearchError,
    WebSearchRequest,
    WebSearchRequestError,
    WebSearchResponse,
    WebSearchResultItem,
    WebSearchTimeoutError,
)
from modules.llm_platform.container import build_platform
from modules.llm_platform.domain.exceptions import WebSearchUnavailableError
from modules.llm_platform.testing import FakeWebSearch, result_item
from modules.llm_platform.testing.waiting import CANCEL_TIMEOUT_S, CLOSE_TIMEOUT_S, becomes_true
from shared.config import Settings

QUERY = "What does the event loop run?"
DEAD = "http://127.0.0.1:1"
SEARCHES = 100  # a tenth of a second apart


def found(*titles: str, **more: Any) -> Handler:
    rows = [
        {"title": t, "url": f"https://docs.test/{t}", "content": f"What {t} says.", "engine": "google"} for t in titles
    ]
    return json_reply({"results": rows, "unresponsive_engines": [], **more})


def bocha(*titles: str) -> Handler:
    pages = [{"name": t, "url": f"https://bocha.test/{t}", "snippet": f"What {t} says."} for t in titles]
    return json_reply({"code": 200, "data": {"webPages": {"value": pages}}})


@asynccontextmanager
async def platform(handler: Handler, **settings: Any) -> AsyncIterator[tuple[LLMPlatform, Loopback]]:
    """`{url}` in a setting is the upstream's address."""
    async with serving(handler) as upstream:
        said = {
            name: value.format(url=upstream.url) if isinstance(value, str) else value
            for name, value in settings.items()
        }
        async with build_platform(Settings(**(said or {"SEARXNG_URL": upstream.url}))) as wired:
            yield wired, upstream


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "loop.md").write_text("# Event loop\n\nThe event loop runs asynchronous tasks and callbacks.\n")
    return tmp_path


def search_request(**wishes: Any) -> WebSearchRequest:
    return WebSearchRequest.model_validate({"query": QUERY, **wishes})


async def test_several_sources_are_one_request_with_the_union_of_engines() -> None:
    """web, news and academic together: one POST, each engine once."""
    async with platform(found("a")) as (wired, upstream):
        await wired.web_search.search(search_request(sources=("web", "news", "academic")))
    (request,) = upstream.requests
    assert request.form["engines"] == "google,bing,duckduckgo,google news,bing news,google scholar,arxiv"


async def test_web_and_documents_are_asked_side_by_side_and_fused(folder: Path) -> None:
    """Best of each first; both are named; a document bears no path of the server."""
    async with platform(found("a", "b"), SEARXNG_URL="{url}", DOCUMENTS_DIR=str(folder)) as (wired, _):
        answer = await wired.web_search.search(search_request(sources=("web", "documents")))
    assert [item.url for item in answer.results] == ["https://docs.test/a", "doc:loop.md", "https://docs.test/b"]
    assert set(answer.provider.split("+")) == {"searxng", "documents"}
    assert str(folder) not in answer.model_dump_json()


async def test_documents_alone_ask_nobody_else(folder: Path) -> None:
    """The folder answers; the web hears nothing of it."""
    async with platform(found("a"), SEARXNG_URL="{url}", DOCUMENTS_DIR=str(folder)) as (wired, upstream):
        answer = await wired.web_search.search(search_request(sources=("documents",)))
    assert [item.url for item in answer.results] == ["doc:loop.md"]
    assert upstream.requests == []


@pytest.mark.parametrize("sources", [("web",), ("documents",), ("web", "documents")])
async def test_where_documents_are_all_there_is_they_are_asked_once(folder: Path, sources: tuple[str, ...]) -> None:
    """They serve the web's kind too; nothing is fused with itself."""
    async with build_platform(Settings(DOCUMENTS_DIR=folder)) as wired:
        answer = await wired.web_search.search(search_request(sources=sources))
    assert (answer.provider, [item.url for item in answer.results]) == ("documents", ["doc:loop.md"])
    assert answer.degraded == ()


async def test_news_on_bocha_are_degraded() -> None:
    """A provider that lacks a kind searches without it and says so."""
    async with platform(bocha("a"), BOCHA_API_KEY="a-key-of-bocha", BOCHA_BASE_URL="{url}") as (wired, _):
        answer = await wired.web_search.search(search_request(sources=("news",)))
    assert answer.results
    assert [entry.component for entry in answer.degraded] == ["bocha"]
    assert "news" in answer.degraded[0].reason


@for_each(("order", "first"), [("auto", "searxng"), ("bocha,searxng", "bocha"), ("searxng,bocha", "searxng")])
async def test_the_order_of_providers(order: str, first: str) -> None:
    """As named; left to us, in our own order."""

    async def both(exchange: Exchange) -> None:
        await (bocha("a") if exchange.path == "/v1/web-search" else found("a"))(exchange)

    settings = {"SEARXNG_URL": "{url}", "BOCHA_API_KEY": "a-key-of-bocha", "BOCHA_BASE_URL": "{url}"}
    async with platform(both, **settings, SEARCH_PROVIDERS=order) as (wired, upstream):
        assert (await wired.web_search.search(search_request())).provider == first
    assert len(upstream.requests) == 1


async def test_instances_of_a_list_are_tried_in_order() -> None:
    """The second instance answers, and the answer says why the first did not."""
    async with platform(found("a"), SEARXNG_URL=f"{DEAD},{{url}}") as (wired, _):
        answer = await wired.web_search.search(search_request())
    assert answer.results
    assert [entry.component for entry in answer.degraded] == ["searxng"]


async def test_nothing_found_is_not_failed_over() -> None:
    """An empty answer is an answer: the next provider is not asked."""
    settings = {"SEARXNG_URL": "{url}", "BOCHA_API_KEY": "a-key-of-bocha", "BOCHA_BASE_URL": DEAD}
    async with platform(found(), **settings) as (wired, _):
        answer = await wired.web_search.search(search_request())
    assert (answer.results, answer.provider, answer.degraded) == ((), "searxng", ())


async def test_the_callers_mistake_is_not_failed_over() -> None:
    """A freshness that nobody knows is refused before anybody is asked."""
    settings = {"SEARXNG_URL": "{url}", "BOCHA_API_KEY": "a-key-of-bocha", "BOCHA_BASE_URL": "{url}"}
    async with platform(found("a"), **settings) as (wired, upstream):
        with pytest.raises(WebSearchRequestError):
            await wired.web_search.search(search_request(freshness="sometimes"))
    assert upstream.requests == []


@for_each(
    ("fault", "asked", "error"),
    [
        (hang_up, 2, WebSearchConnectionError),
        (silence, 1, WebSearchTimeoutError),
        (recorded("searxng/17_limiter_429"), 1, WebSearchBlockedError),
        (recorded("searxng/21_bad_gateway_502"), 1, WebSearchUnavailableError),
        (recorded("searxng/16_json_not_enabled_403"), 1, WebSearchConfigError),
    ],
)
async def test_only_a_lost_connection_is_tried_again(fault: Handler, asked: int, error: type[AppException]) -> None:
    """Once; a timeout, a block and an answer are final."""
    timeout_s = 0.3 if fault is silence else 30.0  # a busy machine takes longer than 0.3 s for an answer
    async with platform(fault, SEARXNG_URL="{url}", SEARXNG_TIMEOUT_S=timeout_s) as (wired, upstream):
        with pytest.raises(error) as caught:
            await wired.web_search.search(search_request())
    assert type(caught.value) is error
    assert len(upstream.requests) == asked


async def test_failures_are_not_kept_and_answers_are() -> None:
    """The search after a failure asks again; the one after an answer does not, and says so."""
    async with platform(in_turn(reply(500, b""), found("a"))) as (wired, upstream):
        with pytest.raises(WebSearchError):
            await wired.web_search.search(search_request())
        assert [(await wired.web_search.search(search_request())).cached for _ in range(3)] == [False, True, True]
    assert len(upstream.requests) == 2


@for_each(
    "change",
    [
        {"query": "Another question"},
        {"count": 3},
        {"page": 2},
        {"language": "de"},
        {"engines": ("arxiv",)},
        {"sources": ("news",)},
        {"time_range": "day"},
        {"freshness": "oneDay"},
        {"domains": ("python.org",)},
    ],
)
async def test_every_field_that_changes_the_answer_is_asked_anew(change: dict[str, Any]) -> None:
    """The cache never gives one search for another."""
    async with platform(found("a")) as (wired, upstream):
        await wired.web_search.search(search_request())
        assert not (await wired.web_search.search(search_request(**change))).cached
    assert len(upstream.requests) == 2


async def test_no_time_to_live_is_no_cache() -> None:
    """CACHE_TTL_S=0 asks each time."""
    async with platform(found("a"), SEARXNG_URL="{url}", CACHE_TTL_S="0") as (wired, upstream):
        assert [(await wired.web_search.search(search_request())).cached for _ in range(2)] == [False, False]
    assert len(upstream.requests) == 2


async def test_offline_reaches_nobody(folder: Path) -> None:
    """Even a search engine on loopback is none of offline's business; documents are."""
    settings = {"SEARXNG_URL": "{url}", "DOCUMENTS_DIR": str(folder), "LLM_PLATFORM_OFFLINE": "true"}
    async with platform(found("a"), **settings) as (wired, upstream):
        assert (await wired.web_search.search(search_request())).provider == "documents"
    assert upstream.connections == 0


async def test_offline_without_documents_says_what_to_set() -> None:
    """Not an empty answer, and not a search of the web."""
    async with platform(found("a"), SEARXNG_URL="{url}", LLM_PLATFORM_OFFLINE="true") as (wired, upstream):
        with pytest.raises(WebSearchConfigError, match="DOCUMENTS_DIR"):
            await wired.web_search.search(search_request())
    assert upstream.connections == 0


async def test_search_multi_gives_an_answer_or_an_error_for_each() -> None:
    """In their order; one that fails does not touch the others."""

    async def by_words(exchange: Exchange) -> None:
        await (reply(500, b"") if "broken" in exchange.form["q"] else found("a"))(exchange)

    async with platform(by_words) as (wired, _):
        first, second, third = await wired.web_search.search_multi(
            [search_request(), search_request(query="broken"), search_request(query="whole")]
        )
    assert isinstance(first, WebSearchResponse)
    assert isinstance(second, WebSearchError)
    assert isinstance(third, WebSearchResponse)
    assert (first.query, third.query) == (QUERY, "whole")


async def test_a_cancelled_search_is_gone_at_once() -> None:
    """For the caller and for the server, which would have stayed silent for ever."""
    async with platform(silence) as (wired, upstream):
        search = asyncio.create_task(wired.web_search.search(search_request()))
        while not upstream.busy:
            await asyncio.sleep(0.005)
        search.cancel()
        await asyncio.wait([search], timeout=CANCEL_TIMEOUT_S)
        assert search.cancelled()
        assert await becomes_true(lambda: not upstream.busy, CLOSE_TIMEOUT_S)


@for_each("url", ["javascript:alert(1)", "file:///etc/passwd", "https://a.test/b c", "ftp://a.test/", "doc:a b", "x"])
async def test_an_address_that_nobody_may_open_is_dropped(url: str) -> None:
    """A provider of one's own may not know which addresses a reader must never be sent to."""
    bad = WebSearchResultItem(title="bad", url=url, snippet="words")
    good = (result_item(1), WebSearchResultItem(title="document", url="doc:notes/a%20b.md", snippet="words"))
    async with build_platform(Settings(), overrides={IWebSearchProvider: FakeWebSearch([bad, *good])}) as wired:
        assert (await wired.web_search.search(search_request())).results == good


async def test_a_provider_without_a_name_serves() -> None:
    """The least that a provider of one's own needs is `search`; its defects are errors of this context."""

    class Least(IWebSearchProvider):
        async def search(self, request: WebSearchRequest) -> WebSearchResponse:
            if request.page > 1:
                raise LookupError("a defect")
            return WebSearchResponse(query=request.query, results=(result_item(1),))

    async with build_platform(Settings(), overrides={IWebSearchProvider: Least()}) as wired:
        assert (await wired.web_search.search(search_request())).results == (result_item(1),)
        with pytest.raises(WebSearchError):
            await wired.web_search.search(search_request(page=2))


async def test_no_secret_is_said(caplog: pytest.LogCaptureFixture) -> None:
    """Keys and passwords that an upstream sends back stand in no answer, error, log line or repr."""
    secrets = ("key-of-bocha-123", "p4ss word/of searxng", "inner-secret-9")
    echo = json.dumps(
        {"results": [{"title": " ".join(secrets), "url": "https://a.test/", "content": " ".join(secrets)}]}
    )
    caplog.set_level("DEBUG")
    settings = {
        "SEARXNG_PASSWORD": secrets[1],
        "SEARXNG_USERNAME": "me",
        "BOCHA_API_KEY": secrets[0],
        "BOCHA_BASE_URL": "{url}",
    }
    for status in (200, 401, 500):
        async with serving(reply(status, echo.encode(), "Content-Type: application/json")) as upstream:
            said = {name: value.format(url=upstream.url) for name, value in settings.items()}
            wired_with = Settings(SEARXNG_URL=(upstream.url.replace("//", f"//me:{secrets[2]}@"),), **said)
            async with build_platform(wired_with) as wired:
                try:
                    told = (await wired.web_search.search(search_request())).model_dump_json()
                except AppException as error:
                    told = f"{error!r} {error.message} {error.__cause__!r} {error.__context__!r}"
                told += repr(wired) + repr(wired_with) + repr(vars(wired.web_search))
        for secret in secrets:
            assert secret not in told
            assert secret not in caplog.text


async def test_a_changed_document_is_found_soon(folder: Path) -> None:
    """Added, changed and removed files show: in the very next search, or where a look takes long, in one soon after."""
    async with build_platform(Settings(DOCUMENTS_DIR=folder)) as wired:

        async def shows(query: str, first: str | None) -> bool:
            """Return whether that document comes first, or nothing where there is none."""
            for _ in range(SEARCHES):
                results = (await wired.web_search.search(search_request(query=query))).results
                if (results[0].url if results else None) == first:
                    return True
                await asyncio.sleep(0.1)
            return False

        assert await shows("giraffe", None)
        (folder / "zoo.md").write_text("# Zoo\n\nA giraffe eats leaves.\n")
        assert await shows("giraffe", "doc:zoo.md")
        (folder / "zoo.md").write_text("# Zoo\n\nA zebra eats grass instead.\n")
        assert await shows("zebra", "doc:zoo.md")
        assert await shows("giraffe", None)
        (folder / "zoo.md").unlink()
        assert await shows("zebra", None)


def test_a_platform_serves_one_event_loop_after_another() -> None:
    """A program without a loop of its own calls `asyncio.run` for each search."""

    wired: LLMPlatform | None = None
    port = 0

    async def search_and_serve() -> int:
        nonlocal wired, port
        async with serving(found("one"), port) as upstream:
            port = int(upstream.url.rpartition(":")[2])
            wired = wired or build_platform(Settings(SEARXNG_URL=upstream.url, CACHE_TTL_S=0))
            return len((await wired.web_search.search(WebSearchRequest(query=QUERY))).results)

    assert [asyncio.run(search_and_serve()) for _ in range(3)] == [1, 1, 1]
    assert wired is not None
    asyncio.run(wired.aclose())


async def test_a_closed_platform_is_not_opened_again() -> None:
    """The error says so at once, and not as a failure of each later call."""
    wired = build_platform(Settings(SEARXNG_URL=DEAD))
    async with wired:
        pass
    with pytest.raises(RuntimeError, match="closed and cannot be opened again"):
        async with wired:
            pass
