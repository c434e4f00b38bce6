"""A report describes itself correctly: counts, costs, cuts, omissions, and stored parts."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.support.cases import for_each
from tests.support.report_world import (
    QUESTION,
    Asked,
    ReportModel,
    Web,
    World,
    answer_of,
    laws_of_events,
    some_pages,
    stage_of,
    store,
)
from tests.support.virtual_time import in_virtual_time

from modules.llm_platform.application.research.events import Failed
from modules.llm_platform.application.research.find.rounds import REPORT
from modules.llm_platform.application.research.report import pipeline, planner
from modules.llm_platform.application.research.report.run import LEFT_OUT, ReportOptions
from modules.llm_platform.application.research.report.sources import MAX_SOURCE_CHARS
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.llm_dtos import NOTHING_SPENT, LLMRequest, LLMStreamPart, LLMToken, Spending
from modules.llm_platform.domain.dtos.report_dtos import PlanRequest
from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest, WebSearchResponse
from modules.llm_platform.domain.exceptions import LLMConnectionError
from modules.llm_platform.domain.text.messages import get_messages
from modules.llm_platform.domain.text.tokens import count_tokens
from modules.llm_platform.infrastructure.stores.research_runs.disk import NoResearchStore

NEVER_S = 3600.0
PATIENCE_S = 60.0  # limit on a busy machine
STORE_MS, WRITE_MS = 30, 50


# --- what was left out ----------------------------------------------------------------------------------------------------


@for_each("language", ["en", "de", "zh"])
async def test_what_the_limits_left_out_is_no_part_of_the_text(language: str) -> None:
    """Two calls: `degraded` names the stages that went without, with their calls. The text is about the question alone."""
    events = await World(Web(some_pages()), ReportModel()).events(max_llm_calls=2, language=language)
    laws_of_events(events)
    answer = answer_of(events)
    assert Degraded(component="summarize", reason=LEFT_OUT.format(calls="5 calls")) in answer.degraded
    assert "× " not in answer.synthesis


async def test_failed_ranking_counts_its_results() -> None:
    """Without marks, keywords rank the eight results. `degraded`, not the text, has the number and the reason."""
    answer = answer_of(await World(Web(some_pages(8)), ReportModel(failing={"rank": LLMConnectionError()})).events())
    assert "without the language model" not in answer.synthesis
    assert any(entry.reason.startswith("stand_in: 8 of 8 results") for entry in answer.degraded)


async def test_without_model_no_defaulted_scores_are_reported() -> None:
    """Keywords are then how results are ranked: no note, in text or `degraded`."""
    answer = answer_of(await World(Web(some_pages())).events())
    assert "without the language model: " not in answer.synthesis
    assert answer.degraded == ()


async def test_complete_report_adds_no_message() -> None:
    """What the model wrote is the text, unless a further round left a question open."""
    model = ReportModel()
    assert answer_of(await World(Web(some_pages()), model).events(rounds=0)).synthesis == model.text


async def test_timed_out_stage_is_reported_and_report_is_not_stored(tmp_path: Path) -> None:
    """After a late ranking the text says so, and the next run makes the report again."""
    late = World(Web(some_pages()), ReportModel(delays={"rank": NEVER_S}), store(tmp_path))
    answer = answer_of(await late.events(max_seconds=1.0))
    assert get_messages("en").late in answer.synthesis
    again = World(Web(some_pages()), ReportModel(), store(tmp_path))
    assert answer_of(await again.events()).metadata.stored_at is None
    assert again.calls()["rank"] == 1


async def test_hanging_summary_does_not_delay_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """The text needs no summary, so the answer is returned, and says that the summaries are missing."""
    monkeypatch.setattr(pipeline, "SUMMARY_WAIT_S", 0.05)
    model = ReportModel(delays={"summarize": NEVER_S})
    answer = answer_of(await asyncio.wait_for(World(Web(some_pages()), model).events(), PATIENCE_S))
    assert answer.synthesis.startswith(model.text)
    assert any(entry.reason.startswith("unfinished: 5 summaries") for entry in answer.degraded)
    assert answer.metadata.llm_calls == len(model.asked)  # the calls were started, so they may cost something


# --- cuts -----------------------------------------------------------------------------------------------------------------


async def test_cut_page_is_reported() -> None:
    """For a page twice as long as the limit, about half of its tokens count as truncated, and `degraded` names the
    page.
    """
    pages = some_pages(1)
    text = "Heat pumps move heat in winter. " * (2 * MAX_SOURCE_CHARS // 32)
    answer = answer_of(await World(Web(pages, texts=dict.fromkeys(pages, text))).events())
    assert any(entry.reason.startswith("page_cut") for entry in answer.degraded)
    assert answer.metadata.truncated_tokens == pytest.approx(count_tokens(text) / 2, rel=0.05)


async def test_partial_summaries_are_reported() -> None:
    """With a small context, the part of the pages that summaries did not see counts as truncated."""
    pages = some_pages(5)
    texts = {url: f"{title}. " + f"Heat pumps of {title} move heat. " * 900 for url, title in pages.items()}
    options = ReportOptions(context_tokens=4000, max_tokens=500)
    answer = answer_of(await World(Web(pages, texts=texts), ReportModel(), options=options).events())
    assert any(entry.reason.startswith("page_cut: 5 summaries") for entry in answer.degraded)
    assert answer.metadata.truncated_tokens > 0


# --- what is asked --------------------------------------------------------------------------------------------------------


async def test_filters_reach_every_search() -> None:
    """time_range, domains and kinds go to the providers as they were given; documents are asked apart."""
    web = Asked()
    wishes = {"time_range": "month", "freshness": "2026-03-01..2026-03-31"}
    wishes |= {"domains": ["python.org", "-x.com"], "sources": ["web", "documents", "news"]}
    await World(web, ReportModel()).events(**wishes)
    assert {request.time_range for request in web.requests} == {"month"}
    assert {request.freshness for request in web.requests} == {"2026-03-01..2026-03-31"}
    assert {request.domains for request in web.requests} == {("python.org", "-x.com")}
    assert {request.sources for request in web.requests} == {("web", "news"), ("documents",)}


async def test_requested_region_is_searched() -> None:
    """With language pt-BR, Portuguese queries are searched as pt-BR and English ones as English."""
    queries = "ЗАПРОС: como funcionam as bombas de calor no inverno\nЗАПРОС: how do the heat pumps work in the winter"

    class Portuguese(ReportModel):
        def _answer(self, stage: str, request: LLMRequest) -> str:  # type: ignore[override]
            return queries if stage == "queries" else super()._answer(stage, request)  # type: ignore[arg-type]

    web = Asked()
    await World(web, Portuguese()).events("Como funcionam as bombas de calor no inverno?", language="pt-BR")
    assert {request.language for request in web.requests} == {"pt-BR", "en"}


async def test_query_of_unknown_language_is_searched_in_all() -> None:
    """If the words fit two languages, the engine gets no language."""

    class Names(ReportModel):
        def _answer(self, stage: str, request: LLMRequest) -> str:  # type: ignore[override]
            return "ЗАПРОС: Mixture Tokens" if stage == "queries" else super()._answer(stage, request)  # type: ignore[arg-type]

    web = Asked()
    await World(web, Names()).events("Что такое Mixture Tokens?")
    assert {request.language for request in web.requests if request.query == "Mixture Tokens"} == {None}


@pytest.mark.parametrize("pages", [1, 20])
async def test_any_number_of_pages_makes_a_report(pages: int) -> None:
    """With REPORT_PAGES 1 and 20, this many pages are read, at most as many again in a further round, and at most five
    are used for the text.
    """
    finds = lambda query: list(some_pages(30))[(10 if "cost" in query else 20 if "cold" in query else 0) :]  # noqa: E731
    web = Web(some_pages(30), finds)
    answer = answer_of(await World(web, ReportModel(), options=ReportOptions(pages=pages)).events())
    assert pages <= len(web.read_urls) <= pages + REPORT.rounds * min(pages, REPORT.pages)
    assert len(answer.sources) <= 5
    assert answer.citations


# --- failures that are answers, and that are not --------------------------------------------------------------------------


@pytest.mark.parametrize("more", [{}, {"sources": ["web"]}])
async def test_failure_of_all_given_pages_is_an_error(more: dict[str, object]) -> None:
    """If no given page can be read and there is no other source, the reader's error is raised instead of "nothing
    found".
    """
    mine = ["https://mine.example/one", "https://mine.example/two"]
    events = await World(Web({}, walled=mine, down=True), ReportModel()).events(urls=mine, **more)
    last = events[-1]
    assert isinstance(last, Failed)
    assert last.problem["code"] == "page_blocked"
    assert last.problem["status"] == 503
    laws_of_events(events)


async def test_failed_writer_is_reset_and_replayed_with_its_reset(tmp_path: Path) -> None:
    """Tokens, a reset, the last resort: `synthesis` is what came after the reset."""

    class Dying(ReportModel):
        async def stream(self, request: LLMRequest):  # type: ignore[no-untyped-def,override]
            parts = [part async for part in super().stream(request)]
            for part in parts:
                yield part
                if stage_of(request) == "write" and isinstance(part, LLMToken):
                    raise LLMConnectionError

    model = Dying(text="Heat pumps move heat [1]. They are old.\n\nThey work in the cold [2].\n")
    events = await World(Web(some_pages()), model, store(tmp_path)).events()
    assert "reset" in [event.type for event in events]
    laws_of_events(events)


async def test_replay_has_its_resets(tmp_path: Path) -> None:
    """A reset in the middle of a text is replayed at its place, and the text consists of the later tokens."""
    from modules.llm_platform.domain.dtos.llm_dtos import LLMReset

    class Restarting(ReportModel):
        async def stream(self, request: LLMRequest):  # type: ignore[no-untyped-def,override]
            parts: list[LLMStreamPart] = [part async for part in super().stream(request)]
            if stage_of(request) == "write":
                yield LLMToken(text="Something else [1]. And more of it.\n\nAnd more.\n")
                yield LLMReset(error=LLMConnectionError())
            for part in parts:
                yield part

    first = await World(Web(some_pages()), Restarting(), store(tmp_path)).events()
    again = await World(Web({}, down=True), ReportModel(), store(tmp_path)).events()
    assert "reset" in [event.type for event in first]
    assert [event.type for event in again] == [event.type for event in first]
    laws_of_events(first)
    laws_of_events(again)


# --- the plan for a person ------------------------------------------------------------------------------------------------


async def test_shown_plan_is_searched(tmp_path: Path) -> None:
    """Asked once: shown again and searched from the store. `other_than` asks anew."""
    world = World(Web(some_pages()), ReportModel(), store(tmp_path))
    service = world.service()
    first = await service.plan(PlanRequest(query=QUESTION))
    assert first.spent == Spending(calls=1, prompt_tokens=100, completion_tokens=10, cost_usd=0.001)
    assert await service.plan(PlanRequest(query=QUESTION)) == first.model_copy(update={"spent": NOTHING_SPENT})
    await world.events()
    assert world.calls()["plan"] == 1
    other = await service.plan(PlanRequest(query=QUESTION, other_than=first.questions))
    assert not set(other.questions) & set(first.questions)


async def test_plan_has_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the model hangs, rules decompose the question, and the plan says so."""
    monkeypatch.setattr(planner, "PLAN_TIMEOUT_S", 0.05)
    service = World(Web(some_pages()), ReportModel(delays={"plan": NEVER_S})).service()
    plan = await asyncio.wait_for(service.plan(PlanRequest(query=QUESTION)), PATIENCE_S)
    assert plan.questions
    assert plan.planner == "decomposition"
    assert plan.spent == Spending(calls=1, cost_usd=None, is_cost_cut_off=True)  # the number will never be known
    assert plan.degraded[0].reason.startswith("timeout")


# --- money ----------------------------------------------------------------------------------------------------------------


async def test_metadata_counts_calls_tokens_dollars_and_searches() -> None:
    """Each model call counts once with its reported tokens, and each provider request once, including failures."""
    model, web = ReportModel(), Web(some_pages())
    metadata = answer_of(await World(web, model).events()).metadata
    calls = len(model.asked)
    assert (metadata.llm_calls, metadata.tokens_used) == (calls, 110 * calls)
    assert metadata.cost_usd == pytest.approx(0.001 * calls)
    assert metadata.searches == len(web.searched)

    class HalfDown(Web):
        async def search(self, request: WebSearchRequest) -> WebSearchResponse:
            self.down = "cost" in request.query
            return await super().search(request)

    half = HalfDown(some_pages())
    answer = answer_of(await World(half, ReportModel()).events())
    assert answer.metadata.searches == len(half.searched)
    assert any(entry.component == "search" for entry in answer.degraded)


@in_virtual_time
async def test_latency_counts_from_the_request() -> None:
    """The latency includes the store lookup. It is at least the time of the parts, and at most the total time."""

    class Slow(NoResearchStore):
        async def get(self, *asked: Any) -> None:
            await asyncio.sleep(STORE_MS / 1000)

    service = World(Web(some_pages()), ReportModel(delays={"write": WRITE_MS / 1000}), Slow()).service()
    answer = await service.research(ResearchRequest(query=QUESTION, depth="report"))
    took_ms = round(asyncio.get_running_loop().time() * 1000)
    assert STORE_MS + WRITE_MS <= answer.metadata.latency_ms <= took_ms
