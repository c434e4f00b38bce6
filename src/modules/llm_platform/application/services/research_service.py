"""The research service: a question in, a cited answer out (requirements RB1, RB2 and RB15; docs/reference/http.md)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing

from modules.llm_platform.application.research import events as research_events
from modules.llm_platform.application.research.context import EmitEvent, ResearchContext, request_language
from modules.llm_platform.application.research.follow_up import FollowUps, describing, owner_key, planned, within_limits
from modules.llm_platform.application.research.quick import QuickResearch
from modules.llm_platform.application.research.report.reporter import Reporter
from modules.llm_platform.application.research.stage_times import StageTimes
from modules.llm_platform.domain.dtos import research_dtos as dtos
from modules.llm_platform.domain.dtos.report_dtos import AcceptedPlan, PlanRequest, ResearchPlan
from modules.llm_platform.domain.egress_log import open_egress_log
from modules.llm_platform.domain.exceptions import SourceNotHeldError
from modules.llm_platform.domain.model_progress import receive_model_progress
from modules.llm_platform.domain.ports.cache import ICache
from modules.llm_platform.domain.ports.metrics import NO_METRICS, IMetrics
from modules.llm_platform.domain.ports.research_job_store import IResearchJobStore
from modules.llm_platform.domain.request_id import is_request_id, new_request_id
from modules.llm_platform.domain.task_group import cancel_and_wait
from shared.exceptions import AppException

log = logging.getLogger(__name__)

SOURCES_TTL_S = 3600.0

StoreSources = Callable[[tuple[dtos.Source, ...]], Awaitable[None]]


class ResearchService:
    """Researches a question: `stream` yields the events as they happen, `research` returns the answer of the same stream."""

    def __init__(
        self,
        quick: QuickResearch,
        reporter: Reporter,
        sources: ICache[dtos.HeldSources],
        metrics: IMetrics = NO_METRICS,
        jobs: IResearchJobStore | None = None,
        *,
        follow_ups: FollowUps,
    ) -> None:
        self._quick = quick
        self._reporter = reporter
        self._sources = sources
        self._metrics = metrics
        self._jobs = jobs
        self._follow_ups = follow_ups

    def check(self, request: dtos.ResearchRequest) -> None:
        """Raise the error of a request that cannot be answered with these settings."""
        self._reporter.check(request)

    async def research(
        self,
        request: dtos.ResearchRequest,
        *,
        request_id: str | None = None,
        owner: str = "",
        on_event: Callable[[research_events.ResearchEvent], None] | None = None,
    ) -> dtos.ResearchResponse:
        """The answer. Raises the AppException after which nothing was left to answer from.

        `on_event` is called with each event before the last. `owner`: who may request the stored sources; `source` finds
        them for the same owner only.
        """
        request_id = request_id or new_request_id()
        async with aclosing(self._events(request, request_id, owner, None, streamed=False)) as events:
            async for event in events:
                if isinstance(event, research_events.Done):
                    return event.response
                if on_event is not None:
                    on_event(event)
        raise AssertionError("a research run ends with Done or an error")

    async def stream(
        self,
        request: dtos.ResearchRequest,
        *,
        request_id: str | None = None,
        owner: str = "",
        store_sources: StoreSources | None = None,
    ) -> AsyncGenerator[research_events.ResearchEvent, None]:
        """Yield Started first, Done or Failed last. Closing the iterator stops the research and closes its connections.

        An error of the request itself is raised before the first event. `store_sources` also gets the texts of the sources.
        """
        request_id = request_id or new_request_id()
        started = False
        async with aclosing(self._events(request, request_id, owner, store_sources, streamed=True)) as events:
            try:
                async for event in events:
                    started = True
                    yield event
            except AppException as error:
                if not started:
                    raise
                instance = f"/research/{request_id}"
                yield research_events.Failed(
                    request_id=request_id, problem=error.problem(instance=instance, request_id=request_id)
                )

    async def plan(self, request: PlanRequest, *, owner: str = "") -> ResearchPlan:
        """The sub-questions of a report, for review; the edited ones go into `plan` of a request.

        Raises PreviousResearchNotFoundError.
        """
        asked = dtos.ResearchRequest(
            query=request.query,
            depth="report",
            language=request.language,
            previous_id=request.previous_id,
            history=request.history,
        )
        before = await self.turns_before(asked, owner=owner)
        if before is None:
            return await self._reporter.planner.plan(request)
        follow_up = await self._follow_ups.understand(asked, before, None)
        understood = {"query": follow_up.query, "language": follow_up.language}
        return planned(follow_up, await self._reporter.planner.plan(request.model_copy(update=understood)))

    async def accept_plan(self, request: PlanRequest, questions: Sequence[str]) -> None:
        """Store, for `STORE_TTL_DAYS`, the sub-questions that a person accepted."""
        await self._reporter.planner.accept(request, questions)

    async def accepted_plan(self, request: PlanRequest) -> AcceptedPlan | None:
        """The sub-questions accepted last for this question in this language; None if there are none."""
        return await self._reporter.planner.accepted(request)

    async def source(self, request_id: str, index: int, *, owner: str = "") -> dtos.HeldSource:
        """The stored text of one source of a finished research.

        Raises SourceNotHeldError if it is no longer stored, or belongs to another owner.
        """
        sources = await self._stored_sources(owner, request_id)
        source = sources.find(index) if sources else None
        if source is None:
            raise SourceNotHeldError
        return source

    async def held_sources(self, request_id: str, *, owner: str = "") -> dtos.HeldSources | None:
        """The stored texts of a research run of this process; None if they are no longer stored."""
        return await self._sources.get(owner_key(owner, request_id))

    async def turns_before(self, request: dtos.ResearchRequest, *, owner: str = "") -> dtos.StoredTurns | None:
        """The conversation that the request continues, None if it continues none. Raises PreviousResearchNotFoundError."""
        if request.previous_id is None and not request.history:
            return None
        return await self._follow_ups.turns_before(request, owner)

    async def _stored_sources(self, owner: str, request_id: str) -> dtos.HeldSources | None:
        if not is_request_id(request_id):
            return None
        sources = await self.held_sources(request_id, owner=owner)
        if sources is None and self._jobs is not None:
            sources = await self._jobs.sources(owner, request_id)
        return sources

    async def _events(
        self, request: dtos.ResearchRequest, request_id: str, owner: str, keep: StoreSources | None, *, streamed: bool
    ) -> AsyncGenerator[research_events.ResearchEvent, None]:
        async def store_sources(sources: tuple[dtos.Source, ...]) -> None:
            await self._sources.set(owner_key(owner, request_id), dtos.HeldSources(sources=sources), SOURCES_TTL_S)
            if keep is not None:
                await keep(sources)

        events: asyncio.Queue[research_events.ResearchEvent | None] = asyncio.Queue()
        before = await self.turns_before(request, owner=owner)
        run = self._run(request, request_id, owner, before, events.put_nowait, store_sources, streamed=streamed)
        task = asyncio.create_task(run)
        task.add_done_callback(lambda done: _end(done, events))
        try:
            while (event := await events.get()) is not None:
                if isinstance(event, research_events.Done):
                    turns = before.turns if before else ()
                    await self._follow_ups.store(owner, request, turns, event.response)
                yield event
            task.result()
        finally:
            await cancel_and_wait(task)

    async def _run(
        self,
        request: dtos.ResearchRequest,
        request_id: str,
        owner: str,
        before: dtos.StoredTurns | None,
        emit: EmitEvent,
        store_sources: StoreSources,
        *,
        streamed: bool,
    ) -> None:
        began = asyncio.get_running_loop().time()
        self._reporter.check(request)
        emit(research_events.Started(request_id=request_id))
        with (
            receive_model_progress(lambda progress: emit(research_events.ModelProgressed.of(request_id, progress))),
            StageTimes(request.depth, self._metrics, emit) as stage_times,
            open_egress_log() as egress_log,
        ):
            follow_up, detected, emit = None, request_language(request), stage_times.emit
            if before is not None:
                earlier = request.previous_id and await self._stored_sources(owner, request.previous_id)
                follow_up = await self._follow_ups.understand(request, before, earlier or None)
                request, detected = within_limits(request, follow_up), follow_up.language
                emit = describing(follow_up, emit, egress_log)
                if request.depth == "shallow":
                    emit(research_events.Planned(request_id=request_id, questions=(request.query,)))
            context = ResearchContext(
                request=request,
                request_id=request_id,
                detected=detected,
                emit=emit,
                store_sources=store_sources,
                streamed=streamed,
                began=began,
                egress_log=egress_log,
                follow_up=follow_up,
                owner=owner,
            )
            await (self._reporter.report(context) if request.depth == "report" else self._quick.answer(context))


def _end(task: asyncio.Task[None], events: asyncio.Queue[research_events.ResearchEvent | None]) -> None:
    if not task.cancelled():
        task.exception()  # retrieved, so that asyncio logs nothing if the reader has left
    events.put_nowait(None)
