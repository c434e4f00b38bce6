"""Quick and deep answers read their pages through the platform as the container wires it, over loopback."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.loopback_upstream import Exchange, head, serving

from modules.llm_platform import ResearchRequest, WebSearchResponse, WebSearchResultItem
from modules.llm_platform.application.research.events import Done, Read
from modules.llm_platform.container import build_platform
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from shared.config import Settings

FACT = "The Meridian pump moves 48 litres of water each minute at full speed."
PAGE = f"<html><head><title>Pump</title></head><body><main><p>{FACT}</p><p hidden>no</p></main></body></html>".encode()
QUESTION = "How many litres does the Meridian pump move each minute?"
ENOUGH_S = 60.0


class Found(IWebSearchProvider):
    """Finds these addresses, each with an excerpt that says nothing."""

    name = "found"

    def __init__(self, *urls: str) -> None:
        self._urls = urls

    async def search(self, request: WebSearchRequest) -> WebSearchResponse:
        excerpt = "A page about the Meridian pump …"
        results = (WebSearchResultItem(title="Pump", url=url, snippet=excerpt) for url in self._urls)
        return WebSearchResponse(query=request.query, results=tuple(results), provider="found")


async def site(exchange: Exchange) -> None:
    if exchange.path.startswith("/pump"):
        await exchange.send(head(200, "Content-Type: text/html", length=len(PAGE)) + PAGE)
    else:
        await exchange.send(head(404, "Content-Type: text/plain", length=2) + b"no")


def settings(url: str, **values: Any) -> Settings:
    given = {"READ_PAGES": None, "READ_S": ENOUGH_S, "RESEARCH_TIMEOUT_S": 10 * ENOUGH_S} | values
    return Settings(_env_file=None, READER_ALLOWED_HOSTS=url.removeprefix("http://"), **given)


async def test_an_answer_is_checked_against_the_page_and_not_the_excerpt() -> None:
    """The quote stands in the page, which is sent and stored, and has an address that shows it."""
    async with serving(site) as host:
        urls = (f"{host.url}/gone", f"{host.url}/pump")
        async with build_platform(settings(host.url), {IWebSearchProvider: Found(*urls)}) as platform:
            stream = platform.research.stream(ResearchRequest(query=QUESTION), request_id="r")
            events = [event async for event in stream]
            stored = await platform.research.source("r", 1)
    done = events[-1]
    assert isinstance(done, Done)
    answer = done.response
    [citation] = answer.citations
    assert (citation.verdict, citation.checked_against, citation.quote) == ("supported", "page", FACT)
    assert citation.quote_url is not None
    assert citation.quote_url.startswith(f"{host.url}/pump#:~:text=The%20Meridian%20pump%20moves,")
    assert answer.raw_results is not None
    assert answer.raw_results[0].content[citation.quote_start : citation.quote_end] == FACT
    assert (stored.text, stored.text_kind) == (answer.raw_results[0].content, "page")
    metadata = answer.metadata
    assert (metadata.pages_read, metadata.pages_failed, metadata.pages_late) == (1, 1, 0)
    assert {event.url: event.status for event in events if isinstance(event, Read)} == {urls[0]: "page_error", urls[1]: "read"}
    assert [each.kind for each in metadata.sent_to] == ["url"]


async def test_equal_pages_are_read_once_and_kept() -> None:
    """Researches at the same time share a read, a later one takes the page from the cache."""
    async with serving(site) as host:
        async with build_platform(settings(host.url), {IWebSearchProvider: Found(f"{host.url}/pump")}) as platform:
            questions = (ResearchRequest(query=f"{QUESTION} {number}") for number in range(3))
            answers = await asyncio.gather(*map(platform.research.research, questions))
            later = await platform.research.research(ResearchRequest(query=f"{QUESTION} Again.", depth="deep"))
        assert [each.metadata.pages_read for each in (*answers, later)] == [1, 1, 1, 1]
        assert [request.path for request in host.requests] == ["/pump"]


async def test_no_page_is_read_where_none_is_wanted() -> None:
    """`pages: 0` of a request, READ_PAGES=0 and offline mode; the excerpt then stays what is checked."""
    async with serving(site) as host:
        for values, request in (
            ({}, ResearchRequest(query=QUESTION, pages=0)),
            ({"READ_PAGES": 0}, ResearchRequest(query=QUESTION, pages=3)),
            ({"LLM_PLATFORM_OFFLINE": True}, ResearchRequest(query=QUESTION)),
        ):
            found = Found(f"{host.url}/pump")
            async with build_platform(settings(host.url, **values), {IWebSearchProvider: found}) as platform:
                answer = await platform.research.research(request)
            assert answer.metadata.pages_read == 0
            assert answer.raw_results is not None
            assert answer.raw_results[0].content.startswith("A page about")
        assert host.requests == []
