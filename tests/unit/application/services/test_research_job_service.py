"""Background runs in process: what happens to them when workers stop, vanish, or the store fails."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.metrics import MemoryMetrics
from tests.fakes.research_job_store import MANY, MemoryResearchJobStore, claimed, new_job
from tests.fakes.research_job_store import QUESTION as ASKED
from tests.fakes.tracing import MemoryTracer
from tests.support.clock import Clock
from tests.support.report_world import QUESTION, ReportModel, Web, World, laws_of_events, some_pages
from tests.support.report_world import store as report_store
from tests.support.turns import run_ready_tasks

from modules.llm_platform.application.research.follow_up import FollowUps, make_owner_key
from modules.llm_platform.application.services import research_job_service, research_job_worker
from modules.llm_platform.application.services.research_job_service import ResearchJobService
from modules.llm_platform.application.services.research_job_worker import JobOptions
from modules.llm_platform.application.services.webhook_service import WebhookService
from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest, ShortMessage, StoredTurns
from modules.llm_platform.domain.dtos.research_job_dtos import (
    MAX_LISTED,
    MAX_UNCLEAN_ENDS,
    ClaimedJob,
    JobEvent,
    ResearchJobDetail,
    ResearchProgress,
)
from modules.llm_platform.domain.dtos.source_dtos import Source, StoredSources
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest, WebSearchResponse
from modules.llm_platform.domain.exceptions import (
    BackgroundError,
    PreviousResearchNotFoundError,
    PriceUnknownError,
    ResearchEndedError,
    ResearchNotFoundError,
    ResearchQueueFullError,
    StoreError,
)
from modules.llm_platform.domain.ports import tracing
from modules.llm_platform.domain.telemetry.spans import REQUEST_SPAN
from modules.llm_platform.infrastructure.cache.memory import MemoryCache
from modules.llm_platform.infrastructure.stores.database.operations import Operation, Result
from modules.llm_platform.infrastructure.stores.research_jobs.sql import UNREADABLE
from modules.llm_platform.testing import MemoryResearchStore
from modules.llm_platform.testing.waiting import START_TIMEOUT_S

FAST = JobOptions(max_running=2, lease_s=60.0, poll_s=0.02, flush_s=0.0)
REPORT = ResearchRequest(query=QUESTION, depth="report")
SHALLOW = ResearchRequest(query=QUESTION)


@asynccontextmanager
async def running(
    world: World,
    store: MemoryResearchJobStore,
    options: JobOptions = FAST,
    metrics: MemoryMetrics | None = None,
    tracer: tracing.ITracer = tracing.NO_TRACER,
) -> AsyncIterator[ResearchJobService]:
    """A process: its service works until the block ends, then stops as on SIGTERM."""
    webhooks = WebhookService(store, lambda: None, ())  # type: ignore[arg-type]
    service = ResearchJobService(world.service(), store, webhooks, options, metrics or MemoryMetrics(), tracer=tracer)
    service.start()
    try:
        yield service
    finally:
        await service.aclose()


@pytest.fixture
async def store() -> AsyncIterator[MemoryResearchJobStore]:
    store = MemoryResearchJobStore(clock=Clock())
    yield store
    await store.aclose()


async def ended(service: ResearchJobService, name: str) -> tuple[list[JobEvent], ResearchJobDetail]:
    return [event async for event in service.events(name)], await service.get(name)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.005)


async def test_a_report_in_the_background(store: MemoryResearchJobStore) -> None:
    """The stored events obey the laws of a stream, progress counts them, and the sources are stored."""
    from pydantic import TypeAdapter

    from modules.llm_platform.application.research.events import ResearchEvent

    metrics = MemoryMetrics()
    async with running(World(Web(some_pages()), ReportModel()), store, metrics=metrics) as service:
        job = await service.submit(REPORT, owner="me")
        events = [event async for event in service.events(job.id, owner="me")]
        found = await service.get(job.id, owner="me")
        kind: TypeAdapter[Any] = TypeAdapter(ResearchEvent)
        laws_of_events([kind.validate_json(event.data) for event in events])
        assert [event.number for event in events] == list(range(1, len(events) + 1))
        assert (found.status, found.request) == ("done", REPORT)
        assert found.response is not None
        kinds = [event.type for event in events]
        assert (found.progress.step, found.progress.read) == ("done", kinds.count("read"))
        assert found.progress.searched == kinds.count("searched") > 0
        planned = [json.loads(event.data)["questions"] for event in events if event.type == "planned"][-1]
        searched = {json.loads(event.data)["question"] for event in events if event.type == "searched"}
        assert searched - {None} == set(planned)  # events of further rounds are for open questions
        assert found.progress.planned > 0
        held = await store.sources("me", job.id)
        assert held is not None
        assert held.find(found.response.citations[0].source_index) is not None
        # The run is counted after its result is stored, which is what readers of its events wait for.
        await until(lambda: metrics.values.get(("llm_platform_research_jobs_total", "done")) == 1)


async def test_a_research_is_in_the_trace_of_its_request(store: MemoryResearchJobStore) -> None:
    """Its span is a child of, and has a link to, the request that submitted it, whichever process runs it; what else the
    process does is in no trace, although a request has started it.
    """
    front, back = MemoryTracer(), MemoryTracer()
    refuses_all = JobOptions(max_running=0)
    both: list[ResearchJobDetail] = []
    async with running(World(Web({})), store, refuses_all, tracer=front) as service:
        for name in "ab":
            request = front.start(REQUEST_SPAN, name, {})
            with tracing.running(request):
                both.append(await service.submit(SHALLOW))
            request.end()
    job = both[1]
    async with running(World(Web(some_pages())), store, tracer=back) as service:
        for job_detail in both:
            await ended(service, job_detail.id)
    jobs = {span.attributes["llm_platform.request_id"]: span for span in back.ended if span.name == "process research"}
    submitted, run = {span.name: span for span in front.ended}["b"], jobs[job.id]
    assert (run.trace_id, run.parent, run.links) == (submitted.trace_id, submitted.span_id, (submitted.span_id,))
    assert (run.attributes["llm_platform.attempt"], run.attributes["llm_platform.result"]) == (1, "ok")
    # The two runs are concurrent, and either may end first.
    assert {span.parent for span in back.ended if span.name == "research shallow"} == {
        span.span_id for span in jobs.values()
    }
    assert len(jobs) == len({span.trace_id for span in back.ended}) == 2


async def test_a_failed_research_is_a_failed_span(store: MemoryResearchJobStore) -> None:
    """The result of the span is the code of the error, or cancelled for a process that stops."""
    tracer, slow = MemoryTracer(), ReportModel(delays={"write": 60.0})
    async with running(World(Web({}, down=True)), store, tracer=tracer) as service:
        _, found = await ended(service, (await service.submit(SHALLOW)).id)
        assert found.problem is not None
    async with running(World(Web(some_pages()), slow), store, tracer=tracer) as service:
        await service.submit(REPORT)
        await until(lambda: "write" in slow.asked)
    results = [span.attributes["llm_platform.result"] for span in tracer.ended if span.name == "process research"]
    assert results == [found.problem["code"], "cancelled"]


async def test_a_run_with_too_many_events_fails_and_says_so(
    store: MemoryResearchJobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A text may ask for more verdicts than a store should keep for a month. What was stored before stays readable."""
    monkeypatch.setattr(research_job_worker, "MAX_STORED_CHARS", 1000)
    async with running(World(Web(some_pages())), store) as service:
        events, found = await ended(service, (await service.submit(SHALLOW)).id)
    assert found.status == "failed"
    assert found.problem is not None
    assert (found.problem["code"], "without `background`" in found.problem["detail"]) == ("background", True)
    assert [event.number for event in events] == list(range(1, len(events) + 1))
    assert sum(len(event.data) for event in events[:-1]) <= 1000


async def test_stopped_and_started_again(store: MemoryResearchJobStore) -> None:
    """A stopping process requeues its runs. The next process continues, with its steps starting again after `reset`."""
    research_store = MemoryResearchStore()
    slow = ReportModel(delays={"write": 60.0})
    async with running(World(Web(some_pages()), slow, research_store), store) as service:
        job = await service.submit(REPORT)
        await until(lambda: "write" in slow.asked)
        await asyncio.sleep(0.05)
        before = (await service.get(job.id)).progress
    assert before.summarized > 0
    waiting = await store.get("", job.id)
    assert waiting is not None
    assert (waiting.status, waiting.attempts) == ("queued", 0)
    model = ReportModel()
    async with running(World(Web(some_pages()), model, research_store), store) as service:
        events, found = await ended(service, job.id)
        assert (found.status, found.attempts) == ("done", 1)
    assert set(model.asked) <= {"write", "judge"}  # the finished items were not made again
    kinds = [event.type for event in events]
    assert (kinds.count("started"), kinds.count("reset")) == (1, 1)
    assert [event.number for event in events] == list(range(1, len(events) + 1))


class GatedStore(MemoryResearchJobStore):
    """Its `finish` waits for `gate`, before or after the end is stored."""

    is_stored_first = False

    def __init__(self) -> None:
        super().__init__(clock=Clock())
        self.reached, self.gate = asyncio.Event(), asyncio.Event()

    async def finish(self, *arguments: Any) -> None:
        if self.is_stored_first:
            await super().finish(*arguments)
        self.reached.set()
        await self.gate.wait()
        if not self.is_stored_first:
            await super().finish(*arguments)


@pytest.mark.parametrize("is_stored_first", [True, False])
async def test_stopped_at_the_end(is_stored_first: bool) -> None:
    """A run that finishes while the process stops is done and is not executed again."""
    store, metrics = GatedStore(), MemoryMetrics()
    store.is_stored_first = is_stored_first
    async with asyncio.timeout(60), running(World(Web(some_pages())), store, metrics=metrics) as service:
        job = await service.submit(SHALLOW)
        await store.reached.wait()
        stopping = asyncio.create_task(service.aclose())
        await asyncio.sleep(0.01)  # the running research is cancelled
        store.gate.set()
        await stopping
        found = await service.get(job.id)
    assert (found.status, found.attempts) == ("done", 1)
    results = {result for name, result in metrics.values if name == "llm_platform_research_jobs_total"}
    assert results == {"done"}
    await store.aclose()


class SilentWeb(Web):
    """Answers no search."""

    async def search(self, request: WebSearchRequest) -> WebSearchResponse:
        await asyncio.Event().wait()
        raise AssertionError("nobody sets it")


async def vanish(store: MemoryResearchJobStore) -> None:
    """Let a worker claim a run, and renew its lease no more."""
    clock: Clock = store._clock  # type: ignore[assignment]
    assert await store.claim("vanishes", 60.0) is not None
    clock.now += 61.0


async def test_a_vanished_worker(store: MemoryResearchJobStore) -> None:
    """A research run whose worker vanished twice is failed by the next one, which starts nothing; its webhook is due."""
    await store.add(new_job("a", webhook="https://hooks.example.org/done"), MANY)
    for _ in range(MAX_UNCLEAN_ENDS):
        await vanish(store)
    web = Web(some_pages())
    async with running(World(web), store) as service:
        events, found = await ended(service, "a")
    assert (found.status, found.attempts) == ("failed", MAX_UNCLEAN_ENDS)
    assert found.problem is not None
    assert (found.problem["code"], found.problem["retryable"]) == ("research_interrupted", False)
    assert "twice" in found.problem["detail"]
    assert [event.type for event in events] == ["failed"]
    assert web.searched == []
    assert found.webhook is not None


async def test_the_last_attempt_is_made(store: MemoryResearchJobStore) -> None:
    """After one vanished worker less than too many the research runs, and its answer counts."""
    await store.add(new_job("a"), MANY)
    for _ in range(MAX_UNCLEAN_ENDS - 1):
        await vanish(store)
    async with running(World(Web(some_pages())), store) as service:
        _, found = await ended(service, "a")
    assert (found.status, found.attempts) == ("done", MAX_UNCLEAN_ENDS)


@pytest.mark.parametrize("fresh", [False, True])
async def test_a_report_that_makes_progress_is_no_suspect(store: MemoryResearchJobStore, fresh: bool) -> None:
    """If a report has stored new progress since its worker vanished, its crash count is reset.

    Runs that read no stored items start again, so theirs is not reset.
    """
    request = REPORT.model_copy(update={"fresh": fresh})
    model = ReportModel(delays={"write": 60.0})
    await store.add(dataclasses.replace(new_job("a"), request=request), MANY)
    await vanish(store)
    cleared: list[ClaimedJob] = []
    clear = store.clear_unclean_ends

    async def clear_and_note(job: ClaimedJob) -> None:
        await clear(job)
        cleared.append(job)

    store.clear_unclean_ends = clear_and_note  # type: ignore[method-assign]
    async with running(World(Web(some_pages()), model, MemoryResearchStore()), store):
        await until(lambda: "write" in model.asked and (fresh or bool(cleared)))
    job = await store.claim("next", 60.0)
    assert job is not None
    assert job.unclean_ends == (1 if fresh else 0)


async def test_suspects_run_one_at_a_time(store: MemoryResearchJobStore) -> None:
    """Of two suspected runs one waits for the other, so that a run that crashes the next server is identified.

    A run that was not in a crashed server does not wait.
    """
    for name in "ab":
        await store.add(new_job(name), MANY)
    for _ in "ab":
        assert await store.claim("vanishes", 60.0) is not None
    clock: Clock = store._clock  # type: ignore[assignment]
    clock.now += 61.0
    await store.add(new_job("c"), MANY)
    options = JobOptions(max_running=2, lease_s=60.0, poll_s=0.02, flush_s=0.0)
    async with running(World(SilentWeb({})), store, options) as service:
        await until(lambda: service._worker is not None and service._worker.is_running(("", "c")))
        assert service._worker is not None
        assert [service._worker.is_running(("", name)) for name in "abc"] == [True, False, True]
        await service.cancel("a")
        await until(lambda: service._worker is not None and service._worker.is_running(("", "b")))


async def test_expired_researches_are_removed(store: MemoryResearchJobStore) -> None:
    """A process removes at its start what has expired."""
    clock: Clock = store._clock  # type: ignore[assignment]
    async with running(World(Web(some_pages())), store) as service:
        job = await service.submit(SHALLOW)
        assert (await ended(service, job.id))[1].status == "done"
    clock.now += 31 * 86_400
    async with running(World(Web(some_pages())), store) as service:
        async with asyncio.timeout(60):
            while (await service.list()).researches:
                await asyncio.sleep(0.01)


async def test_a_lost_lease_stops_the_work(store: MemoryResearchJobStore) -> None:
    """A research run that another process cancelled stops here too, at the next renewal."""
    model = ReportModel(delays={"plan": 60.0})
    metrics = MemoryMetrics()
    options = JobOptions(max_running=2, lease_s=0.1, poll_s=0.02, flush_s=0.0)
    async with running(World(Web(some_pages()), model), store, options, metrics) as service:
        job = await service.submit(REPORT)
        await until(lambda: bool(model.asked))
        assert await store.cancel("", job.id, JobEvent(0, "failed", '{"problem": {}}'))
        await until(lambda: metrics.values.get(("llm_platform_research_jobs_total", "lost")) == 1)


@pytest.mark.parametrize("jump_s", [3600.0, -3600.0])
async def test_a_run_continues_when_the_clock_is_set(store: MemoryResearchJobStore, jump_s: float) -> None:
    """A worker does not claim its own run again after a clock jump. It renews the lease and continues."""
    clock: Clock = store._clock  # type: ignore[assignment]
    model, metrics = ReportModel(delays={"plan": 60.0}), MemoryMetrics()
    options = JobOptions(max_running=2, lease_s=1.0, poll_s=0.02, flush_s=0.0)
    async with running(World(Web(some_pages()), model), store, options, metrics) as service:
        job = await service.submit(REPORT)
        await until(lambda: bool(model.asked))
        clock.now += jump_s
        other = await service.submit(SHALLOW)  # is claimed after the jump
        assert (await ended(service, other.id))[1].status == "done"
        found = await service.get(job.id)
        assert (found.status, found.attempts) == ("running", 1)
        assert not metrics.values.get(("llm_platform_research_jobs_total", "lost"))


async def test_the_text_of_a_stopped_run_has_lexical_verdicts(store: MemoryResearchJobStore) -> None:
    """The lexical verdicts precede the end of the run, and cover the tokens since the last reset.

    A second cancel adds none.
    """
    idle = JobOptions(max_running=0)
    tokens = ["Nobody asks [1].", "Owls sleep by day [1]. ", "They weigh 9 kilos [1]. They hu"]
    written = [JobEvent(number, "token", json.dumps({"text": text})) for number, text in enumerate(tokens, 2)]
    written.insert(1, JobEvent(9, "reset", "{}"))
    numbered = [JobEvent(number, event.type, event.data) for number, event in enumerate(written, 1)]
    owls = Source(index=1, title="Owls", url="https://owls.example/", text="Owls sleep by day. They weigh 4 kilos.")
    async with running(World(Web({})), store, idle) as service:
        job = await service.submit(SHALLOW)
        leased = await claimed(store)
        await store.put_sources(leased, StoredSources(sources=(owls,)))
        await store.append(leased, numbered, ResearchProgress())
        for _ in range(2):
            assert (await service.cancel(job.id)).status == "cancelled"
        events, _ = await ended(service, job.id)
    *_, verified, failed = events
    assert [event.type for event in events].count("verified") == 1
    assert (verified.type, failed.type) == ("verified", "failed")
    citations = json.loads(verified.data)["citations"]
    text = "".join(tokens[1:])
    assert [(text[one["start"] : one["end"]], one["verdict"]) for one in citations] == [
        ("Owls sleep by day", "supported"),
        ("They weigh 9 kilos", "unsupported"),
    ]


async def test_a_cancelled_research_ends_its_stream_at_once(
    store: MemoryResearchJobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A follower is notified instead of polling the store."""
    for name in ("LOCAL_POLL_S", "REMOTE_POLL_S"):
        monkeypatch.setattr(research_job_service, name, 3600.0)
    idle = JobOptions(max_running=0)
    async with running(World(Web(some_pages())), store, idle) as service:
        job = await service.submit(SHALLOW)
        following = asyncio.create_task(ended(service, job.id))
        await until(lambda: bool(service._changes))
        await service.cancel(job.id)
        events, found = await asyncio.wait_for(following, START_TIMEOUT_S)
    assert ([event.type for event in events], found.status) == (["failed"], "cancelled")


class SlowWeb(Web):
    """Reads the pages named in `quick`; the others, and the searches from number `searches` on, never end."""

    def __init__(self, quick: int, searches: int = 100) -> None:
        super().__init__(some_pages())
        self._quick, self._searches = quick, searches

    async def search(self, request: WebSearchRequest) -> WebSearchResponse:
        answer = await super().search(request)
        if len(self.searched) > self._searches:
            await asyncio.Event().wait()
        return answer

    async def read(self, url: str) -> Page:
        page = await super().read(url)
        if len(self.read_urls) > self._quick:
            await asyncio.Event().wait()
        return page


@pytest.mark.parametrize("is_remote", [False, True])
async def test_an_early_finish_uses_the_pages_read_so_far(store: MemoryResearchJobStore, is_remote: bool) -> None:
    """If the caller finishes the report early, on any server, it is written from the pages read so far.

    The reason is reported, and the report is not replayed for later requests.
    """
    web = SlowWeb(quick=2)
    options = JobOptions(max_running=2, lease_s=0.1, poll_s=0.02, flush_s=0.0) if is_remote else FAST
    async with running(World(web, ReportModel()), store, options) as service:
        job = await service.submit(REPORT)
        async for event in service.events(job.id):
            if event.type == "summarized" and (await service.get(job.id)).progress.summarized == 2:
                break
        if is_remote:
            assert await store.ask_finish("", job.id)
        else:
            asked = await service.finish_early(job.id)
            assert asked.status == "running"
        _, found = await ended(service, job.id)
        assert (found.status, found.response and found.response.metadata.stopped) == ("done", "asked")
        assert found.response is not None
        assert {source.url for source in found.response.sources} == set(web.read_urls[:2])
        assert found.response.metadata.stored_at is None
        assert not any("timeout" in entry.reason for entry in found.response.degraded)
        with pytest.raises(ResearchEndedError):
            await service.finish_early(job.id)
        again = await service.submit(REPORT)
        await until(lambda: len(web.read_urls) > 8)
        await service.cancel(again.id)


async def test_an_early_finish_waits_for_a_result(store: MemoryResearchJobStore) -> None:
    """Without any result the run continues until it has one, and then writes."""
    web = SlowWeb(quick=0, searches=1)
    model = ReportModel(delays={"plan": 0.2})
    async with running(World(web, model), store) as service:
        job = await service.submit(REPORT)
        await until(lambda: bool(model.asked))
        await service.finish_early(job.id)
        events, found = await ended(service, job.id)
        assert found.response is not None
        assert (found.response.metadata.stopped, found.response.metadata.pages_read) == ("asked", 0)
        assert [event.type for event in events].count("searched") == 1
        assert found.response.sources


async def test_a_deep_answer_is_written_early(store: MemoryResearchJobStore) -> None:
    """The searches that are not answered are left out, and no further round begins."""
    web = SlowWeb(quick=0, searches=1)
    async with running(World(web), store) as service:
        job = await service.submit(ResearchRequest(query=QUESTION, depth="deep"))
        await until(lambda: len(web.searched) > 1)
        await service.finish_early(job.id)
        _, found = await ended(service, job.id)
        assert found.response is not None
        assert (found.response.metadata.stopped, found.response.metadata.rounds) == ("asked", 0)
        assert found.response.degraded == ()


async def test_a_finish_survives_a_killed_worker(
    store: MemoryResearchJobStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next attempt uses the stored pages, and writes without waiting for the other pages."""
    monkeypatch.setattr(research_job_worker, "EARLY_FINISH_DELAY_S", 0.5)
    first = SlowWeb(quick=2)
    async with running(World(first, ReportModel(), report_store(tmp_path)), store) as service:
        job = await service.submit(REPORT)
        async for event in service.events(job.id):
            if event.type == "summarized" and (await service.get(job.id)).progress.summarized == 2:
                break
    assert await store.ask_finish("", job.id)
    second = SlowWeb(quick=0)
    async with running(World(second, ReportModel(), report_store(tmp_path)), store) as service:
        _, found = await ended(service, job.id)
        assert found.response is not None
        assert found.response.metadata.stopped == "asked"
        assert {source.url for source in found.response.sources} == set(first.read_urls[:2])
        assert second.searched == []


async def test_equal_reports_end_early_when_both_callers_ask(store: MemoryResearchJobStore) -> None:
    """A report that two callers wait for is not cut for one by the other."""
    web = SlowWeb(quick=2)
    async with running(World(web, ReportModel()), store) as service:
        one, other = await service.submit(REPORT, owner="one"), await service.submit(REPORT, owner="other")
        await until(lambda: len(web.read_urls) > 2)
        async for event in service.events(other.id, owner="other"):
            if event.type == "summarized":
                break
        await service.finish_early(one.id, owner="one")
        with pytest.raises(ResearchNotFoundError):
            await service.finish_early(other.id, owner="one")
        await asyncio.sleep(0.1)
        assert (await service.get(one.id, owner="one")).status == "running"
        await service.finish_early(other.id, owner="other")
        for job, owner in ((one, "one"), (other, "other")):
            async for _ in service.events(job.id, owner=owner):
                pass
            found = await service.get(job.id, owner=owner)
            assert found.response is not None
            assert found.response.metadata.stopped == "asked"


@pytest.mark.parametrize(("limit", "listed"), [(-1, 1), (0, 1), (2, 2), (MAX_LISTED, MAX_LISTED), (10_000, MAX_LISTED)])
async def test_a_page_is_bounded(store: MemoryResearchJobStore, limit: int, listed: int) -> None:
    """A page has 1 to 100 runs, and the next page begins after them."""
    for number in range(MAX_LISTED + 2):
        await store.add(new_job(f"r{number:03}"), MANY)
    async with running(World(Web(some_pages())), store, JobOptions(max_running=0)) as service:
        page = await service.list(limit=limit)
        following = await service.list(limit=1, before=page.next)
    newest = [f"r{number:03}" for number in reversed(range(MAX_LISTED + 2))]
    assert [research.id for research in page.researches] == newest[:listed]
    assert [research.id for research in following.researches] == [newest[listed]]


async def test_bounded(store: MemoryResearchJobStore) -> None:
    """No more than `max_running` run at once, and the others follow."""
    model = ReportModel(delays={"plan": 60.0})
    async with running(World(Web(some_pages()), model), store) as service:
        jobs = [await service.submit(REPORT.model_copy(update={"query": f"What is {n}?"})) for n in range(4)]
        await until(lambda: len(model.asked) == 2)
        await asyncio.sleep(0.1)
        assert len(model.asked) == 2
        assert await store.counts() == {"queued": 2, "running": 2}
        await service.cancel(jobs[0].id)
        await until(lambda: len(model.asked) == 3)


async def test_reports_and_quick_runs_have_slots_of_their_own(
    store: MemoryResearchJobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`max_running` reports and four times as many other runs are at work at once; the rest is queued."""
    web = Web(some_pages())

    async def never(request: Any) -> Any:
        await asyncio.Event().wait()

    monkeypatch.setattr(web, "search", never)
    async with running(World(web, ReportModel()), store) as service:
        for depth, count in (("shallow", 7), ("deep", 4), ("report", 3)):
            for number in range(count):
                await service.submit(ResearchRequest(query=f"What is {number}?", depth=depth))
        until_claimed = {"queued": 3 + 1, "running": 8 + 2}
        async with asyncio.timeout(START_TIMEOUT_S):
            while await store.counts() != until_claimed:
                await asyncio.sleep(0.005)
        await asyncio.sleep(3 * FAST.poll_s)
        assert await store.counts() == until_claimed


class FailingStore(MemoryResearchJobStore):
    """Fails while `is_down`."""

    is_down = False
    failed = 0

    async def _transact(self, make: Callable[[], Operation[Result]]) -> Result:
        if self.is_down:
            self.failed += 1
            raise StoreError("down")
        return await super()._transact(make)


class DefectiveStore(MemoryResearchJobStore):
    """Raises unexpected errors when runs and webhooks are claimed."""

    has_defect = False
    failed = 0

    async def _transact(self, make: Callable[[], Operation[Result]]) -> Result:
        if self.has_defect:
            self.failed += 1
            raise ValueError("a defect")
        return await super()._transact(make)


async def test_the_store_fails_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run continues while the store is unavailable, and stores its progress later."""
    monkeypatch.setattr("modules.llm_platform.application.services.research_job_worker.STORE_RETRY_S", 0.01)
    store = FailingStore(clock=Clock())
    gate = asyncio.Event()
    web = Web(some_pages())
    search: Callable[..., Awaitable[Any]] = web.search

    async def gated(request: Any) -> Any:
        await gate.wait()
        return await search(request)

    monkeypatch.setattr(web, "search", gated)
    async with running(World(web), store) as service:
        job = await service.submit(SHALLOW)
        await until(lambda: service._worker is not None and service._worker.is_running(("", job.id)))
        store.is_down = True
        gate.set()
        await until(lambda: store.failed > 5)
        store.is_down = False
        events, found = await ended(service, job.id)
    assert found.status == "done"
    assert [event.number for event in events] == list(range(1, len(events) + 1))
    await store.aclose()


async def test_a_run_that_cannot_be_read_fails_alone(store: MemoryResearchJobStore) -> None:
    """A newer version may have stored the run. Later runs are executed, and the owner can list it."""
    unreadable_requests = ('{"query": "What is new?", "depth": "endless"}', "{", "[]", '{"query": 3}')
    changes = [(f"UPDATE research_job SET request = '{request}'", UNREADABLE) for request in unreadable_requests]
    changes += [(f"UPDATE research_job SET client_request = '{sent}'", ASKED) for sent in ("{", "[]")]
    for change, question in changes:
        await store.add(new_job("1" * 32), MANY)
        assert store._connection is not None
        await store._run_in_thread(partial(store._connection.execute, change))
        async with running(World(Web(some_pages())), store) as service, asyncio.timeout(START_TIMEOUT_S):
            _, unreadable = await ended(service, "1" * 32)
            assert (unreadable.status, unreadable.query) == ("failed", question)
            assert "cannot be read" in (unreadable.problem or {})["detail"]
            following = await service.submit(SHALLOW)
            _, found = await ended(service, following.id)
            assert found.status == "done"
            assert {job.id for job in (await service.list()).researches} >= {"1" * 32, following.id}
            await service.delete("1" * 32)


async def test_a_defect_in_the_store_does_not_end_the_work(caplog: pytest.LogCaptureFixture) -> None:
    """The defect is logged, and the runs continue afterwards."""
    store = DefectiveStore(clock=Clock())
    await store.add(new_job("1" * 32), MANY)
    store.has_defect = True
    async with running(World(Web(some_pages())), store) as service, asyncio.timeout(START_TIMEOUT_S):
        await until(lambda: store.failed > 2)
        store.has_defect = False
        job = await service.submit(SHALLOW)
        _, found = await ended(service, job.id)
    assert found.status == "done"
    assert {str(record.exc_info[1]) for record in caplog.records if record.exc_info} == {"a defect"}
    await store.aclose()


async def test_followers_that_leave_or_find_nothing_take_no_memory(store: MemoryResearchJobStore) -> None:
    """In a server that executes no runs, nothing reports the end of a run, so leaving followers must free their memory."""
    async with running(World(Web({})), store, JobOptions(max_running=0)) as service:
        job = await service.submit(SHALLOW)
        following = asyncio.create_task(anext(service.events(job.id)))
        await until(lambda: len(service._changes) == 1)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        with pytest.raises(ResearchNotFoundError):
            await anext(service.events("2" * 32))
        del following
        gc.collect()
        assert not service._changes


class SlowStore(MemoryResearchJobStore):
    """Claims a run, but returns only when `gate` is open."""

    def __init__(self) -> None:
        super().__init__(clock=Clock())
        self.has_claimed, self.gate = asyncio.Event(), asyncio.Event()

    async def claim(self, *arguments: Any, **options: Any) -> ClaimedJob | None:
        job = await super().claim(*arguments, **options)
        if job is not None:
            self.has_claimed.set()
            await self.gate.wait()
        return job


async def test_a_run_that_is_claimed_while_the_server_stops_is_put_back() -> None:
    """The next server starts it at once, and does not take this one for killed."""
    store = SlowStore()
    await store.add(new_job("1" * 32), MANY)
    async with running(World(Web(some_pages())), store) as service, asyncio.timeout(START_TIMEOUT_S):
        await store.has_claimed.wait()
        stopping = asyncio.create_task(service.aclose())
        await run_ready_tasks()
        store.gate.set()
        await stopping
    again = await MemoryResearchJobStore.claim(store, "other", 60.0)
    assert again is not None
    assert (again.attempts, again.unclean_ends) == (1, 0)
    await store.aclose()


async def test_refused(store: MemoryResearchJobStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a store, with a price that is not known, or with a full queue, nothing is queued; an unknown id is an error."""
    off = ResearchJobService(World(Web({})).service(), None, None)
    off.start()
    with pytest.raises(BackgroundError, match="STORE_TTL_DAYS"):
        await off.submit(SHALLOW)
    assert (await off.list()).researches == ()
    await off.aclose()
    idle = JobOptions(max_running=0)
    async with running(World(Web(some_pages()), ReportModel()), store, idle) as service:
        with pytest.raises(BackgroundError, match="too short"):
            await service.submit(ShortMessage(query="hi"))
        with pytest.raises(PriceUnknownError):
            await service.submit(REPORT.model_copy(update={"max_cost_usd": 1.0}))
        monkeypatch.setattr("modules.llm_platform.application.services.research_job_service.MAX_QUEUED", 1)
        await service.submit(SHALLOW, owner="me")
        with pytest.raises(ResearchQueueFullError):
            await service.submit(SHALLOW, owner="me")
        unknown: Mapping[str, Awaitable[object]] = {
            "get": service.get("b"),
            "cancel": service.cancel("b"),
            "finish_early": service.finish_early("b"),
        }
        for work in unknown.values():
            with pytest.raises(ResearchNotFoundError):
                await work
        with pytest.raises(ResearchNotFoundError):
            await anext(service.events("b"))


async def test_a_deleted_run_leaves_nothing_in_the_caches(store: MemoryResearchJobStore) -> None:
    """Also where it was deleted while it put its turns there: that write ends before they are removed."""

    class SlowCache(MemoryCache[StoredTurns]):
        """A write that is on its way arrives, although its caller has left."""

        def __init__(self) -> None:
            super().__init__(10)
            self.is_writing = asyncio.Event()

        async def set(self, key: str, value: StoredTurns, ttl_s: float) -> None:
            self.is_writing.set()
            try:
                if ttl_s:
                    await asyncio.sleep(0.1)
            finally:
                await super().set(key, value, ttl_s)

    turns = SlowCache()
    world = World(Web(some_pages()), ReportModel())
    world.follow_ups = FollowUps(turns)
    async with running(world, store) as service:
        job = await service.submit(SHALLOW, owner="me")
        await turns.is_writing.wait()
        await service.delete(job.id, owner="me")
        await asyncio.sleep(0.3)
        assert await turns.get(make_owner_key("me", job.id)) is None


async def test_what_another_server_deleted_is_gone_here(store: MemoryResearchJobStore) -> None:
    """The server that executed the run must not store its turns or sources after another server has deleted it."""
    turns: MemoryCache[StoredTurns] = MemoryCache(10)
    world = World(Web(some_pages()), ReportModel())
    world.follow_ups = FollowUps(turns, store)
    metrics, runs_nothing = MemoryMetrics(), JobOptions(max_running=0)
    async with (
        running(world, store, metrics=metrics) as here,
        running(World(Web(some_pages()), ReportModel()), store, runs_nothing) as there,
    ):
        job = await here.submit(SHALLOW, owner="me")
        # The store may show the end of a run before its server has cleared its caches.
        await until(lambda: metrics.values.get(("llm_platform_research_jobs_total", "done")) == 1)
        assert await here._research.load_stored_answer(job.id, owner="me")
        await there.delete(job.id, owner="me")
        for service in (here, there):
            assert await service._research.get_stored_sources(job.id, owner="me") is None
        with pytest.raises(PreviousResearchNotFoundError):
            await here._research.load_stored_answer(job.id, owner="me")


async def test_a_run_that_another_server_deletes_stops_here(
    store: MemoryResearchJobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker loses the lease, and followers are notified at once."""
    monkeypatch.setattr(research_job_service, "LOCAL_POLL_S", 10_000.0)
    model = ReportModel(delays={"plan": 60.0})
    metrics = MemoryMetrics()
    options = JobOptions(max_running=2, lease_s=0.1, poll_s=0.02, flush_s=0.0)
    async with running(World(Web(some_pages()), model), store, options, metrics) as here:
        job = await here.submit(REPORT)
        following = asyncio.create_task(ended(here, job.id))
        await until(lambda: bool(model.asked))
        assert await store.delete("", job.id)
        async with asyncio.timeout(START_TIMEOUT_S):
            with pytest.raises(ResearchNotFoundError):
                await following
        await until(lambda: metrics.values.get(("llm_platform_research_jobs_total", "lost")) == 1)
