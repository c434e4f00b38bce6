"""Searches on the wired platform: order of providers, features, caching, and secrets."""

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
SEARCHES = 100  # results are a tenth of a second apart


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
    """Build a platform. `{url}` in a setting is replaced by the address of the upstream."""
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
    """Sources web, news and academic make one POST with each engine once."""
    async with platform(found("a")) as (wired, upstream):
        await wired.web_search.search(search_request(sources=("web", "news", "academic")))
    (request,) = upstream.requests
    assert request.form["engines"] == "google,bing,duckduckgo,google news,bing news,google scholar,arxiv"


async def test_web_and_documents_are_asked_side_by_side_and_fused(folder: Path) -> None:
    """Web and document results are fused by rank, and both providers are named. A document shows no path of the server."""
    async with platform(found("a", "b"), SEARXNG_URL="{url}", DOCUMENTS_DIR=str(folder)) as (wired, _):
        answer = await wired.web_search.search(search_request(sources=("web", "documents")))
    assert [item.url for item in answer.results] == ["https://docs.test/a", "doc:loop.md", "https://docs.test/b"]
    assert set(answer.provider.split("+")) == {"searxng", "documents"}
    assert str(folder) not in answer.model_dump_json()


async def test_documents_alone_ask_nobody_else(folder: Path) -> None:
    """The folder answers, and no web provider is called."""
    async with platform(found("a"), SEARXNG_URL="{url}", DOCUMENTS_DIR=str(folder)) as (wired, upstream):
        answer = await wired.web_search.search(search_request(sources=("documents",)))
    assert [item.url for item in answer.results] == ["doc:loop.md"]
    assert upstream.requests == []


@pytest.mark.parametrize("sources", [("web",), ("documents",), ("web", "documents")])
async def test_documents_as_the_only_provider_are_searched_once(folder: Path, sources: tuple[str, ...]) -> None:
    """If documents are the only provider, they also serve web sources, are searched once, and `degraded` says so."""
    async with build_platform(Settings(DOCUMENTS_DIR=folder)) as wired:
        answer = await wired.web_search.search(search_request(sources=sources))
    assert (answer.provider, [item.url for item in answer.results]) == ("documents", ["doc:loop.md"])
    assert [entry.component for entry in answer.degraded] == (["web"] if "web" in sources else [])


async def test_news_on_bocha_are_degraded() -> None:
    """A provider without a source kind searches without it and reports that in `degraded`."""
    async with platform(bocha("a"), BOCHA_API_KEY="a-key-of-bocha", BOCHA_BASE_URL="{url}") as (wired, _):
        answer = await wired.web_search.search(search_request(sources=("news",)))
    assert answer.results
    assert [entry.component for entry in answer.degraded] == ["bocha"]
    assert "news" in answer.degraded[0].reason


@for_each(("order", "first"), [("auto", "searxng"), ("bocha,searxng", "bocha"), ("searxng,bocha", "searxng")])
async def test_the_order_of_providers(order: str, first: str) -> None:
    """Providers are used in the order of SEARCH_PROVIDERS, and by default in the built-in order."""

    async def both(exchange: Exchange) -> None:
        await (bocha("a") if exchange.path == "/v1/web-search" else found("a"))(exchange)

    settings = {"SEARXNG_URL": "{url}", "BOCHA_API_KEY": "a-key-of-bocha", "BOCHA_BASE_URL": "{url}"}
    async with platform(both, **settings, SEARCH_PROVIDERS=order) as (wired, upstream):
        assert (await wired.web_search.search(search_request())).provider == first
    assert len(upstream.requests) == 1


async def test_instances_of_a_list_are_tried_in_order() -> None:
    """The second instance answers, and the answer reports why the first failed."""
    async with platform(found("a"), SEARXNG_URL=f"{DEAD},{{url}}") as (wired, _):
        answer = await wired.web_search.search(search_request())
    assert answer.results
    assert [entry.component for entry in answer.degraded] == ["searxng"]


async def test_nothing_found_is_not_failed_over() -> None:
    """An empty result is an answer, so the next provider is not called."""
    settings = {"SEARXNG_URL": "{url}", "BOCHA_API_KEY": "a-key-of-bocha", "BOCHA_BASE_URL": DEAD}
    async with platform(found(), **settings) as (wired, _):
        answer = await wired.web_search.search(search_request())
    assert (answer.results, answer.provider, answer.degraded) == ((), "searxng", ())


async def test_a_caller_error_is_not_failed_over() -> None:
    """An unknown freshness is refused before any provider is called."""
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
    """A lost connection is retried once. Timeouts, blocks and answers are final."""
    timeout_s = 0.3 if fault is silence else 30.0  # on a busy machine an answer takes longer than 0.3 s
    async with platform(fault, SEARXNG_URL="{url}", SEARXNG_TIMEOUT_S=timeout_s) as (wired, upstream):
        with pytest.raises(error) as caught:
            await wired.web_search.search(search_request())
    assert type(caught.value) is error
    assert len(upstream.requests) == asked


async def test_answers_are_cached_and_failures_are_not() -> None:
    """Answers are cached and failures are not. A cached answer is marked as cached."""
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
async def test_every_field_that_changes_the_answer_is_part_of_the_cache_key(change: dict[str, Any]) -> None:
    """Requests that differ in any relevant field have separate cache entries."""
    async with platform(found("a")) as (wired, upstream):
        await wired.web_search.search(search_request())
        assert not (await wired.web_search.search(search_request(**change))).cached
    assert len(upstream.requests) == 2


async def test_no_time_to_live_is_no_cache() -> None:
    """With CACHE_TTL_S=0 every search calls the provider."""
    async with platform(found("a"), SEARXNG_URL="{url}", CACHE_TTL_S="0") as (wired, upstream):
        assert [(await wired.web_search.search(search_request())).cached for _ in range(2)] == [False, False]
    assert len(upstream.requests) == 2


async def test_offline_no_search_engine_is_called(folder: Path) -> None:
    """Offline, even a search engine on loopback is not called. Documents are searched."""
    settings = {"SEARXNG_URL": "{url}", "DOCUMENTS_DIR": str(folder), "LLM_PLATFORM_OFFLINE": "true"}
    async with platform(found("a"), **settings) as (wired, upstream):
        assert (await wired.web_search.search(search_request())).provider == "documents"
    assert upstream.connections == 0


async def test_offline_without_documents_says_what_to_set() -> None:
    """Offline without documents the error says what to set."""
    async with platform(found("a"), SEARXNG_URL="{url}", LLM_PLATFORM_OFFLINE="true") as (wired, upstream):
        with pytest.raises(WebSearchConfigError, match="DOCUMENTS_DIR"):
            await wired.web_search.search(search_request())
    assert upstream.connections == 0


async def test_search_multi_gives_an_answer_or_an_error_for_each() -> None:
    """Results keep the order of the requests. A failed search does not affect the others."""

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
    """Cancelling takes effect at once for the caller and for a silent server."""
    async with platform(silence) as (wired, upstream):
        search = asyncio.create_task(wired.web_search.search(search_request()))
        while not upstream.busy:
            await asyncio.sleep(0.005)
        search.cancel()
        await asyncio.wait([search], timeout=CANCEL_TIMEOUT_S)
        assert search.cancelled()
        assert await becomes_true(lambda: not upstream.busy, CLOSE_TIMEOUT_S)


@for_each("url", ["javascript:alert(1)", "file:///etc/passwd", "https://a.test/b c", "ftp://a.test/", "doc:a b", "x"])
async def test_an_unsafe_address_is_dropped(url: str) -> None:
    """Results with an address that readers must not open are removed, because a custom provider may not check them."""
    bad = WebSearchResultItem(title="bad", url=url, snippet="words")
    good = (result_item(1), WebSearchResultItem(title="document", url="doc:notes/a%20b.md", snippet="words"))
    async with build_platform(Settings(), overrides={IWebSearchProvider: FakeWebSearch([bad, *good])}) as wired:
        assert (await wired.web_search.search(search_request())).results == good


async def test_a_provider_without_a_name_serves() -> None:
    """A custom provider needs only `search`. Its defects are raised as WebSearchError."""

    class Least(IWebSearchProvider):
        async def search(self, request: WebSearchRequest) -> WebSearchResponse:
            if request.page > 1:
                raise LookupError("a defect")
            return WebSearchResponse(query=request.query, results=(result_item(1),))

    async with build_platform(Settings(), overrides={IWebSearchProvider: Least()}) as wired:
        assert (await wired.web_search.search(search_request())).results == (result_item(1),)
        with pytest.raises(WebSearchError):
            await wired.web_search.search(search_request(page=2))


async def test_no_secret_is_shown(caplog: pytest.LogCaptureFixture) -> None:
    """Keys and passwords echoed by an upstream do not appear in answers, errors, logs or reprs."""
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
    """Added, changed and removed files are found by the next search, or soon after if checking the folder takes long."""
    async with build_platform(Settings(DOCUMENTS_DIR=folder)) as wired:

        async def shows(query: str, first: str | None) -> bool:
            """Return whether this document is the first result, or None without a result."""
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
    """A platform works in several event loops, as in a program that calls `asyncio.run` for each search."""

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
    """A search on a closed platform raises an error at once."""
    wired = build_platform(Settings(SEARXNG_URL=DEAD))
    async with wired:
        pass
    with pytest.raises(RuntimeError, match="closed and cannot be opened again"):
        async with wired:
            pass
