"""Short answers and reports date their sources by the same law."""

import pytest
from tests.support.cases import for_each
from tests.support.report_world import QUESTION, Web, World, answer_of

from modules.llm_platform.application.research.events import ResearchEvent
from modules.llm_platform.application.research.find.read_pages import ReadOptions
from modules.llm_platform.application.research.pipelines import ResearchPipelines
from modules.llm_platform.application.research.quick import QuickResearch
from modules.llm_platform.application.research.quick_tools import QuickTools, ResearchOptions
from modules.llm_platform.application.research.write.extractive_synthesizer import ExtractiveSynthesizer
from modules.llm_platform.application.services.page_service import PageService
from modules.llm_platform.application.services.research_service import ResearchService
from modules.llm_platform.application.services.web_search_service import WebSearchService
from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest, WebSearchResponse
from modules.llm_platform.infrastructure.cache.memory import MemoryCache

URL = "https://example.org/pumps"


class DatedWeb(Web):
    """One page. The engine gives it one date, and the page states another."""

    def __init__(self, of_page: str | None, of_result: str | None) -> None:
        super().__init__({URL: "Heat pumps"})
        self._of_page, self._of_result = of_page, of_result

    async def search(self, request: WebSearchRequest) -> WebSearchResponse:
        answer = await super().search(request)
        dated = tuple(item.model_copy(update={"published_date": self._of_result}) for item in answer.results)
        return answer.model_copy(update={"results": dated})

    async def read(self, url: str) -> Page:
        return (await super().read(url)).model_copy(update={"published": self._of_page})


@pytest.mark.parametrize("depth", ["shallow", "deep", "report"])
@for_each(
    ("of_page", "of_result", "date"),
    [
        ("2025-05-05", "2026-01-02", "2025-05-05"),
        (None, "2026-01-02", "2026-01-02"),
        ("2025-05-05", None, "2025-05-05"),
    ],
)
async def test_a_source_has_the_date_of_its_page(
    depth: str, of_page: str | None, of_result: str | None, date: str
) -> None:
    """The date of the search result is for a page that states none. The styles of citations take it from `raw_results`."""
    web, extractive = DatedWeb(of_page, of_result), ExtractiveSynthesizer()
    world = World(web)
    tools = QuickTools(
        WebSearchService(web),
        extractive,
        extractive,
        pages=PageService(web),
        options=ResearchOptions(reading=ReadOptions(seconds=5.0)),
    )
    service = ResearchService(
        ResearchPipelines(QuickResearch(tools), world.reporter(), world.follow_ups), MemoryCache(10)
    )
    request = ResearchRequest.model_validate({"query": QUESTION, "depth": depth})
    events: list[ResearchEvent] = [event async for event in service.stream(request)]
    answer = answer_of(events)
    assert answer.metadata.pages_read == 1
    assert answer.raw_results is not None
    assert [raw.published for raw in answer.raw_results] == [date]
    assert {quote.published for row in answer.evidence for quote in row.quotes} <= {date}
