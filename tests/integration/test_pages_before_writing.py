"""Shallow and deep answers read their pages before writing, on the wired platform over loopback."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import pytest
from tests.support.loopback_upstream import Exchange, head, serving

from modules.llm_platform import LLMPlatform, ResearchRequest, ResearchResponse, WebSearchResponse, WebSearchResultItem
from modules.llm_platform.application.research.events import Done, Read, ResearchEvent, SourcesNumbered
from modules.llm_platform.container import build_platform
from modules.llm_platform.domain.dtos.llm_dtos import LLMRequest, LLMStreamPart, LLMToken
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest
from modules.llm_platform.domain.ports.llm import ILLMProvider
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from modules.llm_platform.testing.llm import FakeLLM
from shared.config import Settings

FACT = "The Meridian pump moves 48 litres of water each minute at full speed."
PAGE = f"<html><head><title>Pump</title></head><body><main><p>{FACT}</p><p hidden>no</p></main></body></html>".encode()
QUESTION = "How many litres does the Meridian pump move each minute?"
ENOUGH_S = 60.0


class Found(IWebSearchProvider):
    """Returns these addresses, each with an excerpt without information."""

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
    """The quote is found in the page. The page is sent and stored, and its address highlights the quote."""
    async with serving(site) as host:
        urls = (f"{host.url}/gone", f"{host.url}/pump")
        async with build_platform(settings(host.url), {IWebSearchProvider: Found(*urls)}) as platform:
            stream = platform.research.stream(ResearchRequest(query=QUESTION), request_id="r")
            events = [event async for event in stream]
            stored = await platform.research.get_source("r", 1)
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
    statuses = {event.url: event.status for event in events if isinstance(event, Read)}
    assert statuses == {urls[0]: "page_not_found", urls[1]: "read"}
    assert [sent.kind for sent in metadata.sent_to] == ["url"]


async def test_equal_pages_are_read_once_and_kept() -> None:
    """Concurrent research runs share a read, and a later run uses the cached page."""
    async with serving(site) as host:
        async with build_platform(settings(host.url), {IWebSearchProvider: Found(f"{host.url}/pump")}) as platform:
            questions = (ResearchRequest(query=f"{QUESTION} {number}") for number in range(3))
            answers = await asyncio.gather(*map(platform.research.research, questions))
            later = await platform.research.research(
                ResearchRequest(query=f"{QUESTION} Again.", depth="deep", rounds=0)
            )
        assert [answer.metadata.pages_read for answer in (*answers, later)] == [1, 1, 1, 1]
        assert [request.path for request in host.requests] == ["/pump"]


async def test_no_page_is_read_if_reading_is_off() -> None:
    """With `pages: 0` in a request, READ_PAGES=0 or offline mode no page is read, and citations are checked against the
    excerpt.
    """
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


PUMPS = 10
SLOW, REFUSED, HUNG = range(1, 3), (4,), (7,)  # pumps: two are late, one returns 403, one never answers
READABLE = PUMPS - len((*REFUSED, *HUNG))
QUOTES = {
    pump: f"Pump number {pump} moves {40 + pump} litres of water each minute at full speed." for pump in range(PUMPS)
}


class PumpSite:
    """Serves a page for each pump. Slow pages answer after the model has started to write."""

    def __init__(self) -> None:
        self.is_writing = asyncio.Event()

    async def answer(self, exchange: Exchange) -> None:
        pump = int(exchange.path.rpartition("/")[2])
        if pump in SLOW:
            await self.is_writing.wait()
        if pump in HUNG:
            await asyncio.Event().wait()
        body = f"<html><body><main><h1>Pump {pump}</h1><p>{QUOTES[pump]}</p></main></body></html>".encode()
        status = 403 if pump in REFUSED else 200
        await exchange.send(head(status, "Content-Type: text/html", length=len(body)) + body)


class PumpWriter(FakeLLM):
    """Writes and cites one sentence for each source, half of the text before the slow pages are read and half after."""

    def __init__(self, site: PumpSite) -> None:
        super().__init__()
        self._site = site
        self.numbers: dict[int, int] = {}  # source number of each pump
        self.can_end = asyncio.Event()

    async def stream(self, request: LLMRequest) -> AsyncIterator[LLMStreamPart]:
        if request.json_schema:  # there is no source yet when the plan is made
            async for part in super().stream(request):
                yield part
            return
        while not self.numbers:
            await asyncio.sleep(0)
        self._answers = (" ".join(f"{QUOTES[pump][:-1]} [{number}]." for pump, number in self.numbers.items()),)
        written = ""
        async for part in super().stream(request):
            yield part
            if isinstance(part, LLMToken):
                written += part.text
            if len(written) > len(self._answers[0]) / 2 and not self._site.is_writing.is_set():
                self._site.is_writing.set()
                with suppress(TimeoutError):  # the asserts say which page was not read
                    await asyncio.wait_for(self.can_end.wait(), ENOUGH_S / 2)


@pytest.mark.parametrize("streamed", [False, True])
async def test_nine_of_ten_citations_of_a_deep_answer_are_checked_against_pages_that_can_be_read(
    streamed: bool,
) -> None:
    """Nine of ten citations are checked against their pages.

    Late pages count, also if the sentence was checked during writing. For an unreadable page the excerpt is used. Each
    requested address has one event.
    """
    site = PumpSite()
    writer = PumpWriter(site)
    reads: Counter[str] = Counter()
    late = set(SLOW)

    def watch(event: ResearchEvent) -> None:
        if isinstance(event, SourcesNumbered):
            writer.numbers = {int(source.url.rpartition("/")[2]): source.index for source in event.sources}
        if isinstance(event, Read):
            reads[event.status] += 1
            late.discard(int(event.url.rpartition("/")[2]))
        if not late:
            writer.can_end.set()

    async with serving(site.answer) as host:
        values = {"READ_S": 2.0, "LLM_API_KEY": "k", "LLM_MODEL": "m", "CITATION_JUDGE": "off"}
        ports = {IWebSearchProvider: Found(*(f"{host.url}/{pump}" for pump in range(PUMPS))), ILLMProvider: writer}
        async with build_platform(settings(host.url, **values), ports) as platform:
            request = ResearchRequest(query=QUESTION, depth="deep")
            answer = await answer_of(platform, request, watch, streamed=streamed)
            stored = {number: await platform.research.get_source("r", number) for number in writer.numbers.values()}
    unreadable = {writer.numbers[pump] for pump in (*REFUSED, *HUNG)}
    readable = [citation for citation in answer.citations if citation.source_index not in unreadable]
    assert sum(citation.checked_against == "page" for citation in readable) >= 0.9 * len(readable) >= 0.9 * READABLE
    assert {citation.verdict for citation in readable} == {"supported"}
    for citation in answer.citations:
        text = stored[citation.source_index]
        assert (text.text[citation.quote_start : citation.quote_end], text.text_kind) == (
            citation.quote,
            citation.checked_against,
        )
    unread = [citation for citation in answer.citations if citation.source_index in unreadable]
    assert {(citation.verdict, citation.checked_against) for citation in unread} == {("unchecked", "snippet")}
    assert reads == {"read": READABLE, "page_blocked": len(REFUSED), "timeout": len(HUNG)}
    metadata = answer.metadata
    assert (metadata.pages_read, metadata.pages_failed, metadata.pages_late) == (READABLE, len(REFUSED), len(HUNG))
    assert metadata.pages_cited == READABLE


async def answer_of(
    platform: LLMPlatform, request: ResearchRequest, watch: Callable[[ResearchEvent], None], *, streamed: bool
) -> ResearchResponse:
    """Return the answer to a research run with the id `r`."""
    if not streamed:
        return await platform.research.research(request, request_id="r", on_event=watch)
    events = []
    async for event in platform.research.stream(request, request_id="r"):
        watch(event)
        events.append(event)
    assert isinstance(events[-1], Done)
    return events[-1].response
