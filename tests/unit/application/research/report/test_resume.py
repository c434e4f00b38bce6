"""An interrupted report resumes where it stopped, and a finished report is replayed from the store."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.fakes.metrics import MemoryMetrics
from tests.support.cases import for_each
from tests.support.report_world import (
    QUESTION,
    REWORDED,
    ReportModel,
    Web,
    World,
    answer_of,
    some_pages,
    stage_of,
    store,
)

from modules.llm_platform.application.research.report.checkpoint_store import CheckpointStore
from modules.llm_platform.application.research.report.report_key import make_report_key, make_request_key
from modules.llm_platform.application.research.report.run import ReportOptions
from modules.llm_platform.application.research.report.stored_report import StoredReport
from modules.llm_platform.domain.dtos.report_dtos import ResearchPlan
from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest, WebSearchResponse
from modules.llm_platform.domain.exceptions import StoreError
from modules.llm_platform.domain.ports.key_lock import IKeyLock
from modules.llm_platform.domain.research.store_key import make_topic
from modules.llm_platform.domain.telemetry.metrics import STORE_REQUESTS
from modules.llm_platform.testing import MemoryResearchStore

TTL_DAYS = 30.0
NEVER_S = 3600.0
PATIENCE_S = 60.0  # limit on a busy machine


class Stopped(ReportModel):
    """A model during whose n-th call the process ends."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self._at = at
        self.stop = asyncio.Event()

    async def generate(self, request):  # type: ignore[no-untyped-def]
        if len(self.asked) == self._at:
            self.stop.set()
            await asyncio.Event().wait()
        return await super().generate(request)


async def stopped_at(call: int, folder: Path) -> tuple[Counter[str], Web]:
    """Run a research whose process ends in this call, and return what was paid for until then."""
    model, web = Stopped(call), Web(some_pages(12))
    await until_stopped(World(web, model, store(folder)), model)
    return Counter(model.asked), web


async def until_stopped(world: World, model: Stopped) -> None:
    """Run the research until its process ends in a call, or the report."""
    running = asyncio.create_task(world.events())
    stop = asyncio.create_task(model.stop.wait())
    await asyncio.wait([running, stop], return_when=asyncio.FIRST_COMPLETED)
    for task in (running, stop):
        task.cancel()
    await asyncio.wait([running, stop])


@pytest.mark.parametrize("call", range(14))
async def test_finished_stages_are_not_paid_for_twice(call: int, tmp_path: Path) -> None:
    """Stopped in any call and run again: both runs together make no more calls, searches and reads than one whole run."""
    whole = World(Web(some_pages(12)), ReportModel(), store(tmp_path / "whole"))
    expected = answer_of(await whole.events())
    first, web = await stopped_at(call, tmp_path)
    again = World(Web(some_pages(12)), ReportModel(), store(tmp_path))
    answer = answer_of(await again.events())
    assert first + again.calls() == whole.calls()
    assert expected.metadata.rounds > 0
    assert len(web.searched) + len(again.web.searched) <= len(whole.web.searched) + 3  # searches under way at the stop
    assert not set(web.searched) & set(again.web.searched) or call < 4
    assert answer.citations


async def test_a_stop_during_the_judgement_costs_no_second_text(tmp_path: Path) -> None:
    """The text is stored before its citations are judged: the next run asks the judge, and nothing else."""
    model = ReportModel(text=REWORDED, delays={"judge": NEVER_S})
    running = asyncio.create_task(World(Web(some_pages(12)), model, store(tmp_path)).events())
    async with asyncio.timeout(PATIENCE_S):
        while "judge" not in model.asked:
            await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.wait([running])
    again = World(Web(some_pages(12)), ReportModel(text=REWORDED), store(tmp_path))
    assert answer_of(await again.events()).synthesis.startswith(REWORDED)
    assert again.calls() == Counter(judge=1)


class DatedWeb(Web):
    """Its search results have this date."""

    def __init__(self, date: str) -> None:
        super().__init__(some_pages())
        self._date = date

    async def search(self, request: WebSearchRequest) -> WebSearchResponse:
        answer = await super().search(request)
        dated = tuple(item.model_copy(update={"published_date": self._date}) for item in answer.results)
        return answer.model_copy(update={"results": dated})


async def test_a_text_is_written_again_when_the_dates_of_its_sources_change(tmp_path: Path) -> None:
    """The writer reads the dates, so a text from other dates is not reused; a text from the same dates is."""
    await World(DatedWeb("2024-05-01"), ReportModel(), store(tmp_path)).events()
    for engine, date, texts in (("b", "2024-05-01", 0), ("c", "2025-06-02", 1)):
        world = World(DatedWeb(date), ReportModel(), store(tmp_path), labels={"search": engine, "read": "web"})
        assert answer_of(await world.events()).synthesis.startswith("Heat pumps move heat")
        assert world.calls()["write"] == texts


async def test_a_report_is_found_only_with_the_dates_of_earlier_sources() -> None:
    """The writer reads the dates of the sources that a follow-up question reuses."""
    tools, request = World(Web(some_pages())).make_tools(), ResearchRequest(query=QUESTION, depth="report")
    checkpoints = tools.open_checkpoints(make_topic(QUESTION), "en", fresh=False)
    dates = (None, "2024-05-01", "2025-06-02", "2025-06-02")
    sources = [Source(index=1, title="A", url="https://a.example/", text="Heat.", published=date) for date in dates]
    assert len({make_report_key(checkpoints, tools, request, [source]) for source in sources}) == 3


class SharedLock(IKeyLock):
    """The lock of two processes."""

    def __init__(self) -> None:
        self._held: dict[str, asyncio.Event] = {}

    @asynccontextmanager
    async def hold(self, key: str) -> AsyncIterator[bool]:
        if key in self._held:
            await self._held[key].wait()
            yield True
            return
        self._held[key] = asyncio.Event()
        try:
            yield False
        finally:
            self._held.pop(key).set()


async def test_two_processes_make_one_report(tmp_path: Path) -> None:
    """A second process waits, and replays the report with the same events and text without a call.

    A fresh request makes its own report.
    """
    whole = World(Web(some_pages(12)), ReportModel(), store(tmp_path / "whole"))
    await whole.events()
    lock = SharedLock()
    worlds = [World(Web(some_pages(12)), ReportModel(), store(tmp_path), lock=lock) for _ in "ab"]
    one, other = await asyncio.gather(*(world.events() for world in worlds))
    assert sorted(sum(world.calls().values()) for world in worlds) == [0, sum(whole.calls().values())]
    assert [event.type for event in one] == [event.type for event in other]
    assert answer_of(one).synthesis == answer_of(other).synthesis
    await asyncio.gather(*(world.events(fresh=True) for world in worlds))
    assert sum(sum(world.calls().values()) for world in worlds) == 3 * sum(whole.calls().values())


class Mumbling(Stopped):
    """Its answers to these stages cannot be used."""

    unusable = ("plan", "queries", "rank", "summarize", "judge")

    async def generate(self, request):  # type: ignore[no-untyped-def]
        answer = await super().generate(request)
        return answer.model_copy(update={"content": " "}) if stage_of(request) in self.unusable else answer


@pytest.mark.parametrize("call", [3, 8, 11, 100])
async def test_an_answer_that_cannot_be_used_is_not_paid_for_twice(call: int, tmp_path: Path) -> None:
    """If an answer was unusable, the next attempt uses the fallback of the first one without another call, and says so."""
    whole = World(Web(some_pages(12)), Mumbling(1000), store(tmp_path / "whole"))
    expected = answer_of(await whole.events())
    model, web = Mumbling(call), Web(some_pages(12))
    await until_stopped(World(web, model, store(tmp_path)), model)
    again = World(Web(some_pages(12)), Mumbling(1000), store(tmp_path))
    answer = answer_of(await again.events())
    assert Counter(model.asked) + again.calls() == whole.calls()
    stages = {degradation.component.partition("/")[0] for degradation in expected.degraded}
    assert {"plan", "queries", "rank", "summarize"} <= stages
    assert {degradation.component.partition("/")[0] for degradation in answer.degraded} == stages


async def test_finished_report_is_replayed_event_for_event(tmp_path: Path) -> None:
    """The events have the same order under another id, without a call, search or page. The answer has its date."""
    world = World(Web(some_pages()), ReportModel(), store(tmp_path))
    first = await world.events()
    later = World(Web({}, down=True), ReportModel(), store(tmp_path))
    again = await later.events()
    unnamed = [event.model_dump(exclude={"request_id", "response"}) for event in first]
    assert [event.model_dump(exclude={"request_id", "response"}) for event in again] == unnamed
    assert answer_of(again).synthesis == answer_of(first).synthesis
    assert answer_of(again).citations == answer_of(first).citations
    metadata = answer_of(again).metadata
    assert metadata.cache_hit
    assert metadata.stored_at is not None
    assert (metadata.llm_calls, metadata.searches, metadata.cost_usd, metadata.sent_to) == (0, 0, 0.0, ())
    assert later.calls() == Counter()
    assert {event.request_id for event in again} != {event.request_id for event in first}


async def test_fresh_request_reads_nothing_from_the_store(tmp_path: Path) -> None:
    """A fresh request ignores stored entries, and its results are stored for the next request."""
    world = World(Web(some_pages()), ReportModel(), store(tmp_path))
    await world.events()
    paid = world.calls()
    await world.events(fresh=True)
    assert world.calls() == paid + paid
    await world.events()
    assert world.calls() == paid + paid


async def test_another_model_or_engine_makes_another_report(tmp_path: Path) -> None:
    """What one model wrote does not serve where another is set; offline, where none can be asked, it does."""
    await World(Web(some_pages()), ReportModel(), store(tmp_path)).events()
    other = World(Web(some_pages()), ReportModel(), store(tmp_path), labels={"search": "elsewhere", "read": "web"})
    await other.events()
    assert other.web.searched
    offline = World(
        Web({}, down=True), None, store(tmp_path), ReportOptions(offline=True), labels={"search": "offline"}
    )
    assert answer_of(await offline.events()).metadata.cache_hit
    assert offline.web.searched == []


@pytest.mark.parametrize(
    "change",
    [{"instructions": "Short."}, {"context": "I live in Oslo."}, {"plan": ["Is it loud?"]}, {"language": "de"}],
)
async def test_another_request_is_another_report(change: dict[str, object], tmp_path: Path) -> None:
    """Whatever of the request has a part in the answer is part of its key."""
    world = World(Web(some_pages()), ReportModel(), store(tmp_path))
    await world.events()
    await world.events(**change)
    assert world.calls()["write"] == 2


async def test_report_by_the_fallback_writer_is_not_stored(tmp_path: Path) -> None:
    """Where the model failed at the text, the next run asks it again, and only it."""
    from modules.llm_platform.domain.exceptions import LLMConnectionError

    broken = World(Web(some_pages()), ReportModel(failing={"write": LLMConnectionError()}), store(tmp_path))
    assert not answer_of(await broken.events()).metadata.cache_hit
    mended = World(Web(some_pages()), ReportModel(), store(tmp_path))
    answer = answer_of(await mended.events())
    assert not answer.metadata.cache_hit
    assert mended.calls() == Counter(write=1)


async def test_sources_of_a_replayed_report_are_available(tmp_path: Path) -> None:
    """The page of a quote is available after a replay, as after the original run."""
    await World(Web(some_pages()), ReportModel(), store(tmp_path)).events()
    service = World(Web({}, down=True), ReportModel(), store(tmp_path)).service()
    answer = await service.research(ResearchRequest(query=QUESTION, depth="report"), request_id="r2")
    for citation in answer.citations:
        held = await service.get_source("r2", citation.source_index)
        assert held.text[citation.quote_start : citation.quote_end] == citation.quote


@for_each("days", [(1, 2, 3), (3, 2, 1), (2, 3, 1)])
async def test_offline_the_newest_report_of_the_question_is_told(days: tuple[int, ...]) -> None:
    """Several models answered it: the latest answer serves, in whichever order they were stored."""
    made, kept = MemoryResearchStore(), MemoryResearchStore()
    await World(Web(some_pages()), ReportModel(), made).events()
    [report] = await made.values(make_topic(QUESTION), "answers", StoredReport)
    for day in days:
        dated = report.model_copy(update={"finished_at": datetime(2026, 1, day, tzinfo=UTC)})
        await kept.put(make_topic(QUESTION), "answers", f"key{day}", dated)
    offline = World(Web({}, down=True), None, kept, ReportOptions(offline=True), labels={})
    assert answer_of(await offline.events()).metadata.stored_at == datetime(2026, 1, 3, tzinfo=UTC)


async def test_offline_report_is_found_with_any_plan(tmp_path: Path) -> None:
    """Asked without a plan, a report with a person's plan serves; asked with another plan, it does not."""
    await World(Web(some_pages()), ReportModel(), store(tmp_path)).events(plan=["Is it loud?"])
    offline = World(Web({}, down=True), None, store(tmp_path), ReportOptions(offline=True), labels={})
    assert answer_of(await offline.events()).metadata.plan == ("Is it loud?",)
    assert (await offline.events(plan=["Is it cheap?"]))[-1].type == "failed"


async def test_report_is_found_from_every_endpoint(tmp_path: Path) -> None:
    """A report is the same report streamed or not, and with the web as explicit or default source.

    Explicit sources in addition to given addresses make it another report.
    """

    class AtADoor(ResearchRequest):
        stream: bool = False

    asked = {"query": "Do heat pumps work?", "depth": "report"}
    doors = [
        ResearchRequest(**asked),
        ResearchRequest(**asked, sources=("web",)),
        AtADoor(**asked),
        AtADoor(**asked, stream=True, omit_raw=True),
    ]
    assert len({make_request_key(request, "en") for request in doors}) == 1
    pages = {**asked, "urls": ("https://a.example/",)}
    assert make_request_key(ResearchRequest(**pages), "en") != make_request_key(
        ResearchRequest(**pages, sources=("web",)), "en"
    )


async def test_limits_do_not_make_another_report(tmp_path: Path) -> None:
    """A report that left nothing out serves whatever the limit; one that did is not kept."""
    small = World(Web(some_pages()), ReportModel(), store(tmp_path))
    assert not answer_of(await small.events(max_llm_calls=1)).metadata.cache_hit
    whole = World(Web(some_pages()), ReportModel(), store(tmp_path))
    assert not answer_of(await whole.events()).metadata.cache_hit
    assert answer_of(await whole.events(max_llm_calls=1)).metadata.cache_hit


async def test_calls_of_the_store_are_counted() -> None:
    """A value that is there, one that is not, a write, and the error after which the store is not called."""
    broken, metrics = MemoryResearchStore(), MemoryMetrics()
    checkpoints = CheckpointStore(broken, make_topic(QUESTION), "en", fresh=False, metrics=metrics)
    plan = ResearchPlan(query=QUESTION, language="en", questions=("a",), planner="fake")
    assert await checkpoints.get("search_queries", "k", ResearchPlan) is None
    await checkpoints.put("search_queries", "k", plan)
    assert await checkpoints.get("search_queries", "k", ResearchPlan) == plan
    assert {labels: value for (_, *labels_), value in metrics.values.items() if (labels := tuple(labels_))} == {
        ("read", "miss"): 1,
        ("write", "ok"): 1,
        ("read", "ok"): 1,
    }

    class Away(MemoryResearchStore):
        async def put(self, *_: object) -> None:
            raise StoreError

    checkpoints = CheckpointStore(Away(), make_topic(QUESTION), "en", fresh=False, metrics=metrics)
    for _ in range(2):
        await checkpoints.put("search_queries", "k", plan)
    assert metrics.values[STORE_REQUESTS.name, "write", StoreError.code] == 1
