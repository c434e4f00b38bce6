"""Faults during a report: stores, defects, hostile results, and hanging readers."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from tests.support.cases import for_each
from tests.support.report_world import (
    QUESTION,
    REWORDED,
    STAGES,
    SUB_QUESTIONS,
    ReportModel,
    Web,
    World,
    answer_of,
    laws_of_events,
    some_pages,
)
from tests.support.virtual_time import in_virtual_time

from modules.llm_platform.application.research.events import Failed
from modules.llm_platform.application.research.report.run import ReportOptions
from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.dtos.report_dtos import LLMStage, PlanRequest
from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest, WebSearchResponse
from modules.llm_platform.domain.exceptions import LLMConnectionError, StoreError
from modules.llm_platform.infrastructure.stores.research_runs.disk import NoResearchStore

NEVER_S = 3600.0


class BrokenStore(NoResearchStore):
    """A store that breaks its promise: every method of a research run fails."""

    async def get(self, *args: object) -> None:  # type: ignore[override]
        raise StoreError

    async def put(self, *args: object) -> None:  # type: ignore[override]
        raise StoreError

    async def values(self, *args: object) -> tuple[()]:  # type: ignore[override]
        raise StoreError

    async def clean(self) -> int:
        raise StoreError


class HangingWeb(Web):
    """A web where searching (`searches`) or reading (`reads`) never ends."""

    def __init__(self, *, searches: bool = False, reads: bool = False) -> None:
        super().__init__(some_pages())
        self._hangs = (searches, reads)
        self.under_way = 0

    async def _for_ever(self) -> None:
        self.under_way += 1
        try:
            await asyncio.sleep(NEVER_S)
        finally:
            self.under_way -= 1

    async def search(self, request: WebSearchRequest) -> WebSearchResponse:
        if self._hangs[0]:
            await self._for_ever()
        return await super().search(request)

    async def read(self, url: str) -> Page:
        if self._hangs[1]:
            await self._for_ever()
        return await super().read(url)


class HangingModel(ReportModel):
    """A model that never answers in one stage."""

    def __init__(self, stage: LLMStage) -> None:
        super().__init__(delays={stage: NEVER_S}, text=REWORDED)


# --- stores, defects ------------------------------------------------------------------------------------------------------


async def test_failing_store_does_not_fail_the_report() -> None:
    """The report is written as without a store, and says that it was not kept."""
    world = World(Web(some_pages()), ReportModel(), BrokenStore())
    answer = answer_of(await world.events())
    assert answer.citations
    assert [entry.component for entry in answer.degraded].count("store") == 1
    assert (await world.service().plan(PlanRequest(query=QUESTION))).questions == SUB_QUESTIONS


class SlipError(RuntimeError):
    """An unexpected error."""


@for_each("stage", STAGES)
async def test_defect_of_a_model_is_raised_unchanged(stage: LLMStage) -> None:
    """A defect is not wrapped in an exception group, and concurrent work is cancelled."""
    world = World(Web(some_pages(12)), ReportModel(failing={stage: SlipError("slip")}, text=REWORDED))
    with pytest.raises(SlipError):
        await world.events()
    assert len(asyncio.all_tasks()) == 1


async def test_defect_of_a_reader_is_raised_unchanged() -> None:
    """The same for what reads pages, and for the summaries that were under way then."""

    class Slipping(Web):
        async def read(self, url: str) -> Page:
            if url == list(self.pages)[3]:
                raise SlipError("slip")
            return await super().read(url)

    with pytest.raises(SlipError):
        await World(Slipping(some_pages()), ReportModel(delays={"summarize": NEVER_S})).events()
    assert len(asyncio.all_tasks()) == 1


# --- time and stopping ----------------------------------------------------------------------------------------------------


@in_virtual_time
async def test_hanging_searches_raise_a_timeout() -> None:
    """Without any result, the report raises a 503 timeout in time, and cancels all searches."""
    web = HangingWeb(searches=True)
    events = await World(web, ReportModel()).events(max_seconds=1.5)
    assert asyncio.get_running_loop().time() <= 1.5
    last = events[-1]
    assert isinstance(last, Failed)
    assert (last.problem["status"], last.problem["code"]) == (503, "timeout")
    assert "max_seconds" in last.problem["detail"]
    assert web.under_way == 0


@in_virtual_time
async def test_a_report_over_pages_names_the_limit_that_ended_it() -> None:
    """The limit of the request if it is the lower one, and else the setting of the server."""
    urls = [next(iter(some_pages()))]
    for seconds, named in ((1.5, "max_seconds"), (None, "RESEARCH_TIMEOUT_S"), (3600.0, "RESEARCH_TIMEOUT_S")):
        world = World(HangingWeb(reads=True), ReportModel(), options=ReportOptions(timeout_s=60.0))
        last = (await world.events(urls=urls, max_seconds=seconds))[-1]
        assert isinstance(last, Failed)
        assert named in last.problem["detail"]


@in_virtual_time
async def test_one_hanging_search_is_cut_at_the_search_deadline() -> None:
    """The other results are ranked meanwhile. The late search is counted and named."""

    class OneHangs(HangingWeb):
        async def search(self, request: WebSearchRequest) -> WebSearchResponse:
            if "cost" in request.query:
                await self._for_ever()
            return await Web.search(self, request)

    web, model = OneHangs(), ReportModel()
    answer = answer_of(await World(web, model).events(max_seconds=2.0))
    assert [entry.component for entry in answer.degraded if entry.reason.startswith("timeout")] == ["search"]
    assert answer.metadata.searches == len(web.searched) + 1
    assert "rank" in model.asked
    assert web.under_way == 0


@in_virtual_time
async def test_a_hanging_search_of_a_further_round_is_named() -> None:
    """The first searches found sources. The failed search of the round is reported."""

    class LaterHang(HangingWeb):
        async def search(self, request: WebSearchRequest) -> WebSearchResponse:
            if self.read_urls:  # the pages of the first search are read
                await self._for_ever()
            return await Web.search(self, request)

    web = LaterHang()
    answer = answer_of(await World(web, ReportModel()).events(max_seconds=60.0))
    assert answer.metadata.rounds == 1
    late = [entry.reason for entry in answer.degraded if entry.component == "search"]
    assert [reason.split(" searches")[0] for reason in late] == [
        f"timeout: {answer.metadata.searches - len(web.searched)}"
    ]
    assert web.under_way == 0


@in_virtual_time
async def test_hanging_pages_leave_the_search_results_as_sources() -> None:
    """After the time limit for reading, the report is written from snippets, and no read continues."""
    web = HangingWeb(reads=True)
    events = await World(web, ReportModel()).events(max_seconds=2.0)
    assert asyncio.get_running_loop().time() <= 2.0
    assert answer_of(events).sources
    assert web.under_way == 0
    laws_of_events(events)


@in_virtual_time
@for_each("stage", STAGES)
async def test_model_hanging_in_one_stage_leaves_an_answer_in_time(stage: LLMStage) -> None:
    """The total time limit holds, whichever stage hangs. The text and `degraded` report it."""
    began = asyncio.get_running_loop().time()
    events = await World(Web(some_pages()), HangingModel(stage)).events(max_seconds=2.0)
    assert asyncio.get_running_loop().time() - began <= 2.0
    answer = answer_of(events)
    assert answer.citations
    assert any(stage in entry.component or "timeout" in entry.reason for entry in answer.degraded)
    laws_of_events(events)


async def _stopped_after(world: World, kind: str, count: int) -> None:
    stream = world.service().stream(ResearchRequest(query=QUESTION, depth="report"))
    seen = itertools.count(1)
    async for event in stream:
        if event.type == kind and next(seen) == count:
            break
    await stream.aclose()


@in_virtual_time
@for_each("kind", ["started", "planned", "searched", "ranked", "read", "summarized", "sources", "token"])
@for_each("count", [1, 2])
async def test_closing_the_stream_cancels_all_tasks(kind: str, count: int) -> None:
    """In whatever phase the reader goes: no task is left, and nothing more is asked."""
    world = World(Web(some_pages(12)), ReportModel(delay_s=0.002), options=ReportOptions(pages=7))
    before = asyncio.all_tasks()
    await _stopped_after(world, kind, count)
    assert asyncio.all_tasks() == before
    asked = (len(world.web.searched), len(world.web.read_urls), world.calls())
    await asyncio.sleep(0.02)
    assert (len(world.web.searched), len(world.web.read_urls), world.calls()) == asked


@in_virtual_time
@for_each("hangs", ["search", "read", *STAGES])
async def test_cancelling_a_hanging_phase_ends_it(hangs: str) -> None:
    """A reader who goes while a search, a page or a model hangs does not wait for it."""
    web = HangingWeb(searches=hangs == "search", reads=hangs == "read")
    model = HangingModel(hangs) if hangs in STAGES else ReportModel()  # type: ignore[arg-type]
    before = asyncio.all_tasks()
    running = asyncio.create_task(World(web, model).events())
    await asyncio.sleep(0.1)
    running.cancel()
    cancelled_at = asyncio.get_running_loop().time()
    await asyncio.wait([running])
    assert running.cancelled()
    assert asyncio.get_running_loop().time() == cancelled_at
    assert asyncio.all_tasks() == before
    assert web.under_way == 0


# --- events ---------------------------------------------------------------------------------------------------------------

FAULTS = [*STAGES, "search", "read", "store"]


@for_each("faults", list(itertools.combinations(FAULTS, 2)))
async def test_event_order_holds_under_all_faults(faults: tuple[str, str]) -> None:
    """planned before searched, sources before the first token, the text is the tokens, one end, whatever two parts fail."""
    pages = some_pages(8)
    failing = {stage: LLMConnectionError() for stage in STAGES if stage in faults}
    web = Web(pages, walled=list(pages) if "read" in faults else (), down="search" in faults)
    store = BrokenStore() if "store" in faults else NoResearchStore()
    events = await World(web, ReportModel(failing=failing, text=REWORDED), store).events()
    laws_of_events(events)
    assert (events[-1].type == "failed") is ("search" in faults)


@in_virtual_time
async def test_no_page_event_follows_the_sources_event() -> None:
    """A page that arrives after the time limit for reading is cancelled without an event."""
    late = next(iter(some_pages()))

    class Slow(Web):
        async def read(self, url: str) -> Page:
            await asyncio.sleep(1.5 if url == late else 0.0)
            return await super().read(url)

    web = Slow(some_pages())
    events = await World(web, ReportModel(delays={"write": 0.4})).events(max_seconds=2.0)
    kinds = [event.type for event in events]
    assert "read" not in kinds[kinds.index("sources") :]
    assert [event.status for event in events if event.type == "read" and event.url == late] == ["timeout"]
