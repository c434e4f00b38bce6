"""What a report makes of hostile results, and how much of anything it takes at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from tests.support.cases import for_each
from tests.support.report_world import ReportModel, Web, World, answer_of, some_pages

from modules.llm_platform.application.research.find.rounds import REPORT
from modules.llm_platform.application.research.report.run import ReportOptions
from modules.llm_platform.domain.dtos.llm_dtos import LLMRequest, LLMResponse
from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest, WebSearchResponse, WebSearchResultItem

BUSY_S = 30.0  # limit on a slow and busy machine; unbounded work takes minutes


class Results(Web):
    """Finds these results, whatever is asked and however many are wanted."""

    def __init__(self, items: Sequence[WebSearchResultItem], provider: str = "web") -> None:
        super().__init__({item.url: item.title for item in items})
        self._items = tuple(items)
        self._provider = provider

    async def search(self, request: WebSearchRequest) -> WebSearchResponse:
        self.searched.append(request.query)
        return WebSearchResponse(query=request.query, results=self._items, provider=self._provider)


# --- hostile results ------------------------------------------------------------------------------------------------------


def _item(url: str, title: str = "Heat pumps", snippet: str = "Heat pumps in cold winters.") -> WebSearchResultItem:
    return WebSearchResultItem(title=title, url=url, snippet=snippet, source="web")


async def test_results_of_one_address_are_one_result() -> None:
    """Whatever a provider sends, each address is ranked once."""
    model = ReportModel()
    answer = answer_of(await World(Results([_item("https://one.example/")] * 10_000), model).events())
    assert model.asked.count("rank") == 1
    assert len(answer.raw_results or ()) == 1


async def test_results_beyond_the_requested_count_are_not_ranked() -> None:
    """Of five thousand addresses from each search, only the requested number is ranked."""
    items = [_item(f"https://site{n}.example/") for n in range(5000)]
    model = ReportModel()
    events = await World(Results(items), model).events()
    assert model.asked.count("rank") == 1
    assert {event.count for event in events if event.type == "searched"} == {10}


async def test_huge_titles_are_cut_in_bounded_time() -> None:
    """Titles and snippets of a megabyte are cut on input, so that no event, prompt or answer contains them."""
    items = [_item(f"https://site{n}.example/", f"{n} " + "A" * 1_000_000, "B" * 1_000_000) for n in range(10)]
    began = time.monotonic()
    events = await World(Results(items), ReportModel()).events()
    assert time.monotonic() - began < BUSY_S
    assert max(len(event.model_dump_json()) for event in events) < 1_000_000
    assert max(len(source.title) for source in answer_of(events).sources) <= 300


@for_each("provider", ["web", "searxng", ""])
async def test_a_web_provider_cannot_name_a_document(provider: str) -> None:
    """`doc:` addresses are of documents alone: from elsewhere they are dropped, so that no stranger has a file read."""
    items = [_item("doc:secrets/passwords.md"), _item("https://good.example/")]
    web = Results(items, provider)
    answer = answer_of(await World(web, ReportModel()).events())
    assert web.read_urls == ["https://good.example/"]
    assert all(not raw.url.startswith("doc:") for raw in answer.raw_results or ())


async def test_documents_may_name_documents() -> None:
    """What the provider of documents found is read, whichever kind was asked for."""
    web = Results([_item("doc:guide.md")], "documents")
    assert answer_of(await World(web, ReportModel()).events()).sources
    assert web.read_urls == ["doc:guide.md"]


@for_each("url", ["http://[::1", "http://[bad]/", "http://a\u2100b.example/", "https://x:99999/", "http://"])
async def test_invalid_addresses_are_dropped(url: str) -> None:
    """A given address that cannot even be split is one more page that cannot be read."""
    web = Web(some_pages(), walled=[url])
    answer = answer_of(await World(web, ReportModel()).events(urls=[url], sources=["web"]))
    assert answer.sources
    assert any(entry.component.startswith("read/") for entry in answer.degraded)


# --- bounds ---------------------------------------------------------------------------------------------------------------


class Counting(Web):
    """Counts how many searches and reads are under way at once."""

    def __init__(self) -> None:
        super().__init__({})
        self.now = {"search": 0, "read": 0}
        self.most = {"search": 0, "read": 0}

    async def _busy(self, what: str) -> None:
        self.now[what] += 1
        self.most[what] = max(self.most[what], self.now[what])
        await asyncio.sleep(0.002)
        self.now[what] -= 1

    async def search(self, request: WebSearchRequest) -> WebSearchResponse:
        await self._busy("search")
        self.searched.append(request.query)
        items = tuple(_item(f"https://{hash((request.query, n)) & 0xFFFFFFFF:x}.example/", f"T{n}") for n in range(10))
        return WebSearchResponse(query=request.query, results=items, provider="web")

    async def read(self, url: str) -> Page:
        await self._busy("read")
        return await super().read(url)


async def test_concurrent_searches_are_bounded() -> None:
    """Ten questions, three queries in four languages each: all are searched and ranked, side by side within bounds."""

    class Many(ReportModel):
        async def generate(self, request: LLMRequest) -> LLMResponse:
            answer = await super().generate(request)
            if self.asked[-1] != "queries":
                return answer
            topic = request.messages[-1].content.rpartition("Topic: ")[2].splitlines()[0]
            lines = (f"ЗАПРОС: {topic} side {n}" for n in range(12))
            return answer.model_copy(update={"content": "\n".join(lines)})

    web, model = Counting(), Many()
    options = ReportOptions(pages=20, query_languages=("en", "de", "fr", "pt-BR"))
    plan = [f"What is heat pump part {n}?" for n in range(10)]
    began = time.process_time()
    answer = answer_of(await World(web, model, options=options).events(plan=plan))
    assert time.process_time() - began < BUSY_S
    assert answer.metadata.searches == len(web.searched)
    assert 40 <= len(web.searched) <= 40 + REPORT.rounds * REPORT.searches
    assert model.asked.count("rank") >= 40
    assert web.most["search"] <= 8
    assert web.most["read"] <= 8
    assert len(answer.raw_results or ()) == 10 * len(web.searched)
