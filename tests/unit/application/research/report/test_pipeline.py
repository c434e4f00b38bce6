"""The laws of the pipeline from a question to a report."""

from __future__ import annotations

import asyncio

from tests.support.cases import for_each
from tests.support.report_world import QUESTION, SUB_QUESTIONS, ReportModel, Web, World, answer_of, some_pages

from modules.llm_platform.application.research.events import ResearchEvent
from modules.llm_platform.application.research.find.rounds import REPORT
from modules.llm_platform.application.research.report.run import ReportOptions
from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest
from modules.llm_platform.domain.exceptions import LLMConnectionError

FURTHER_PAGES = REPORT.rounds * REPORT.pages  # read in further rounds at most


def only(events: list[ResearchEvent], kind: str) -> list[ResearchEvent]:
    return [event for event in events if event.type == kind]


async def test_report_emits_its_stages_in_order() -> None:
    """started first; the plan before a search, a search before its ranks, pages read before sources, tokens after them."""
    events = await World(Web(some_pages()), ReportModel()).events()
    kinds = [event.type for event in events]
    assert kinds[0] == "started"
    assert kinds[-1] == "done"
    for earlier, later in [("planned", "searched"), ("searched", "ranked"), ("read", "sources"), ("sources", "token")]:
        assert kinds.index(earlier) < kinds.index(later)
    assert kinds.index("token") > max(position for position, kind in enumerate(kinds) if kind == "read")
    assert only(events, "planned")[-1].questions == SUB_QUESTIONS  # type: ignore[union-attr]
    tokens = "".join(event.text for event in events if event.type == "token")
    assert answer_of(events).synthesis == tokens


async def test_every_address_is_ranked_once_and_the_best_five_are_read() -> None:
    """Three searches find the same eight pages: each is ranked in one batch, and the five with the best marks are opened.
    Further rounds open more.
    """
    pages = some_pages(8)
    best = sorted(pages)[:5]
    web, model = Web(pages), ReportModel(lambda title: 9 if any(pages[url] == title for url in best) else 3)
    answer = answer_of(await World(web, model).events(rounds=0))
    assert model.asked.count("rank") == 1
    assert sorted(web.read_urls) == best
    assert answer.metadata.llm_calls == len(model.asked)
    assert answer.metadata.plan == SUB_QUESTIONS


async def test_unreadable_page_is_replaced_by_the_next_best() -> None:
    """If two of the best five pages cannot be read, the next best replace them before a further round.

    The answer names the unreadable pages.
    """
    pages = some_pages(8)
    walled = list(pages)[:2]
    web = Web(pages, walled=walled)
    events = await World(web, ReportModel()).events(rounds=0)
    read = [event for event in events if event.type == "read"]
    assert [event.url for event in read if event.status == "page_blocked"] == walled
    assert sum(event.status == "read" for event in read) == 5
    assert sum(entry.component.startswith("read/") for entry in answer_of(events).degraded) == 2
    metadata = answer_of(events).metadata
    assert (metadata.pages_read, metadata.pages_failed, metadata.pages_late) == (5, 2, 0)


async def test_equal_texts_are_one_source() -> None:
    """A page that holds what another one holds is no further witness."""
    pages = some_pages(6)
    first, second = list(pages)[:2]
    web = Web(pages, texts={first: "The same words.", second: "The same words."})
    sources = only(await World(web, ReportModel()).events(), "sources")[0].sources  # type: ignore[union-attr]
    assert len(sources) == 5
    assert not {first, second} <= {source.url for source in sources}


async def test_without_readable_pages_search_results_are_sources() -> None:
    """If no page can be read, the report is written from snippets, and says so."""
    pages = some_pages(4)
    answer = answer_of(await World(Web(pages, walled=list(pages)), ReportModel()).events())
    assert answer.sources
    assert any("no page could be read" in entry.reason for entry in answer.degraded)


async def test_nothing_found_is_an_answer_and_failing_searches_are_an_error() -> None:
    """No result: a plain sentence and no source. Providers that failed: the error, not silence."""
    nothing = answer_of(await World(Web({}), ReportModel()).events())
    assert nothing.sources == ()
    assert nothing.synthesis
    failed = (await World(Web(some_pages(), down=True), ReportModel()).events())[-1]
    assert failed.type == "failed"
    assert failed.problem["code"] == "web_search_connection"


@for_each("stage", ["plan", "queries", "rank", "summarize", "write"])
async def test_stage_with_failing_model_has_a_fallback(stage: str) -> None:
    """Whichever stage loses its model, the report has citations, and `degraded` names the stage or the model."""
    model = ReportModel(failing={stage: LLMConnectionError()})  # type: ignore[dict-item]
    answer = answer_of(await World(Web(some_pages()), model).events())
    assert answer.sources
    assert answer.citations
    assert any(stage in entry.component or "llm" in entry.component for entry in answer.degraded)
    assert answer.metadata.llm_calls < len(model.asked) or stage == "write"


async def test_without_a_model_the_whole_pipeline_quotes() -> None:
    """No key: plan, queries, ranks, summaries and text without a call; every citation is verbatim."""
    events = await World(Web(some_pages())).events()
    answer = answer_of(events)
    assert answer.metadata.llm_calls == 0
    assert answer.metadata.synthesizer == "extractive"
    assert {citation.verdict for citation in answer.citations} == {"supported"}
    assert only(events, "summarized")


async def test_only_given_addresses_are_read_without_sources() -> None:
    """`urls` without `sources`: no search is made; with `sources`, both."""
    web = Web(some_pages())
    mine = ["https://mine.example/one", "https://mine.example/two"]
    answer = answer_of(await World(web, ReportModel()).events(urls=mine))
    assert web.searched == []
    assert web.read_urls == mine
    assert answer.metadata.searches == 0
    both = Web(some_pages())
    await World(both, ReportModel()).events(urls=mine, sources=["web"])
    assert both.searched
    assert set(mine) < set(both.read_urls)
    assert 5 <= len(both.read_urls) <= 5 + FURTHER_PAGES


async def test_plan_of_the_request_replaces_the_models() -> None:
    """`plan` is searched as given, each question once; the model is not asked for another."""
    model = ReportModel()
    plan = ["What is a compressor?", "What is a compressor?", "Is it loud?"]
    events = await World(Web(some_pages()), model).events(plan=plan)
    assert "plan" not in model.asked
    assert only(events, "planned")[-1].questions == ("What is a compressor?", "Is it loud?")  # type: ignore[union-attr]


async def test_instructions_reach_the_writer() -> None:
    """The reader's instructions are only in the prompt of the text."""
    model = ReportModel()
    await World(Web(some_pages()), model).events(instructions="For a plumber.")
    told = [request for request in model.requests if "For a plumber." in request.messages[-1].content]
    assert len(told) == 1


async def test_more_pages_than_five_are_ranked_by_their_summaries() -> None:
    """Seven pages: their summaries are ranked in one more call before a further round, and the text is written from five."""
    model = ReportModel()
    events = await World(Web(some_pages(12)), model, options=ReportOptions(pages=7)).events(rounds=0)
    assert sum(event.type == "read" for event in events) == 7
    assert len(only(events, "sources")[0].sources) == 5  # type: ignore[union-attr]
    assert model.asked[-1] == "write"
    assert model.asked[-2] == "rank"


async def test_text_of_a_source_is_available() -> None:
    """The stored page of each source is available, and every quote is found at its offsets."""
    world = World(Web(some_pages()))
    service = world.service()
    answer = await service.research(ResearchRequest(query=QUESTION, depth="report"), request_id="r1")
    assert answer.citations
    for citation in answer.citations:
        held = await service.get_source("r1", citation.source_index)
        assert held.text[citation.quote_start : citation.quote_end] == citation.quote


async def test_page_belongs_to_the_sub_question_that_ranked_it_best() -> None:
    """A page found by several searches belongs to the sub-question that ranked it first, not to the fastest search."""
    pages = some_pages(12)
    urls = list(pages)

    def finds(query: str) -> list[str]:
        return [*urls[:9], urls[11]] if "work" in query else [urls[11]] if "cost" in query else urls[9:11]

    class Slow(Web):
        async def search(self, request):  # type: ignore[no-untyped-def]
            if "cost" in request.query:
                await asyncio.sleep(0.05)
            return await super().search(request)

    web = Slow(pages, finds)
    model = ReportModel(lambda title: 2 if title == pages[urls[11]] else 8)
    await World(web, model).events()
    assert urls[11] in web.read_urls


async def test_all_given_addresses_are_sources() -> None:
    """All seven given addresses become sources."""
    mine = [f"https://mine.example/{number}" for number in range(7)]
    events = await World(Web(some_pages()), ReportModel()).events(urls=mine)
    assert len(only(events, "sources")[0].sources) == 7  # type: ignore[union-attr]
