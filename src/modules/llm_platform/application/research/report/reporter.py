"""Reports for the research service: replayed from the store when a finished one is stored, else made and stored."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass, replace

from modules.llm_platform.application.research.budget import Budget
from modules.llm_platform.application.research.context import ResearchContext
from modules.llm_platform.application.research.events import Done, ModelProgressed, ResearchEvent
from modules.llm_platform.application.research.report import replay
from modules.llm_platform.application.research.report.checkpoint_store import CheckpointStore
from modules.llm_platform.application.research.report.pipeline import make_report
from modules.llm_platform.application.research.report.planner import Planner
from modules.llm_platform.application.research.report.run import ReportRun, ReportTools
from modules.llm_platform.domain.dtos.research_dtos import ResearchRequest, ResearchResponse, Source
from modules.llm_platform.domain.exceptions import PriceUnknownError, StoreError
from modules.llm_platform.domain.model_progress import ModelProgress, receive_model_progress
from modules.llm_platform.domain.ports.key_lock import NO_KEY_LOCK
from modules.llm_platform.domain.store_key import topic_of
from modules.llm_platform.domain.task_group import cancel_and_wait


@dataclass(frozen=True, slots=True)
class MadeReport:
    """A report for all its followers. `is_stored`: the store has it under its key."""

    response: ResearchResponse
    is_stored: bool

    def final_event(self, context: ResearchContext) -> Done:
        """The last event of one follower, with its request id, its latency, and raw_results unless it omits them."""
        own = {"request_id": context.request_id, "latency_ms": _latency_ms(context)}
        metadata = self.response.metadata.model_copy(update=own)
        raw = None if context.request.omit_raw else self.response.raw_results
        answer = self.response.model_copy(update={"metadata": metadata, "raw_results": raw})
        return Done(request_id=context.request_id, response=answer)


MakeReport = Callable[
    [ResearchContext, Sequence[ResearchEvent]], Awaitable[MadeReport]
]  # gets the list of emitted events, which grows


class ReportSingleFlight:
    """The running reports of one process by key: equal requests share one report, which is paid for once."""

    def __init__(self) -> None:
        self._under_way: dict[Hashable, _ReportFlight] = {}

    async def follow(self, key: Hashable, context: ResearchContext, make: MakeReport) -> MadeReport:
        """Emit all events but the last of the report with this key to `context`; start the report when none is running.

        Raises the error of the report to all followers. The report is cancelled when its last follower leaves.
        """
        flight = self._under_way.get(key)
        if flight is None:
            flight = self._under_way[key] = _ReportFlight(context, make)
            flight.task.add_done_callback(lambda _: self._forget(key, flight))
        try:
            return await flight.follow(context)
        finally:
            if not flight.followers:
                self._forget(key, flight)  # nothing joins a report that is being stopped
                await cancel_and_wait(flight.task)

    async def aclose(self) -> None:
        """Cancel all running reports."""
        await cancel_and_wait(*(flight.task for flight in self._under_way.values()))

    def _forget(self, key: Hashable, flight: _ReportFlight) -> None:
        if self._under_way.get(key) is flight:
            del self._under_way[key]


class _ReportFlight:
    """One report in a task of its own. It uses the egress log of the first context."""

    def __init__(self, first: ResearchContext, make: MakeReport) -> None:
        self.followers: list[ResearchContext] = []
        self._events: list[ResearchEvent] = []
        self._sources: tuple[Source, ...] | None = None
        self.task = asyncio.create_task(self._make(replace(first, emit=self._emit, store_sources=self._store_sources), make))
        self.task.add_done_callback(_consume_error)

    async def follow(self, context: ResearchContext) -> MadeReport:
        for event in self._events:
            _emit(context, event)
        self.followers.append(context)
        try:
            if self._sources is not None:
                await context.store_sources(self._sources)
            await asyncio.wait([self.task])
        finally:
            self.followers = [each for each in self.followers if each is not context]
        return self.task.result()

    async def _make(self, context: ResearchContext, make: MakeReport) -> MadeReport:
        with receive_model_progress(self._emit_progress):
            return await make(context, self._events)

    def _emit_progress(self, progress: ModelProgress) -> None:
        """For those who wait now; it is no part of the report."""
        for context in self.followers:
            context.emit(ModelProgressed.of(context.request_id, progress))

    def _emit(self, event: ResearchEvent) -> None:
        self._events.append(event)
        for context in self.followers:
            _emit(context, event)

    async def _store_sources(self, sources: tuple[Source, ...]) -> None:
        self._sources = sources
        for context in self.followers:
            await context.store_sources(sources)


def _emit(context: ResearchContext, event: ResearchEvent) -> None:
    """Emit the event under the request id of `context`."""
    own = event.request_id == context.request_id
    context.emit(event if own else event.model_copy(update={"request_id": context.request_id}))


def _consume_error(task: asyncio.Task[MadeReport]) -> None:
    """Retrieve the exception, so that asyncio does not log it as never retrieved."""
    if not task.cancelled():
        task.exception()


log = logging.getLogger(__name__)


class Reporter:
    """Makes reports with one set of tools. The first report also starts the cleaning of the store."""

    def __init__(self, tools: ReportTools) -> None:
        self.planner = Planner(tools)
        self._tools = tools
        self._flights = ReportSingleFlight()
        self._cleaning: asyncio.Task[None] | None = None

    def check(self, request: ResearchRequest) -> None:
        """Raises PriceUnknownError when the request limits the cost and prices are unknown."""
        if request.max_cost_usd is not None and self._tools.llms and self._tools.price is None:
            raise PriceUnknownError

    async def report(self, context: ResearchContext) -> None:
        """Emit all events of the report but the first, Done last. Equal requests with equal limits share one report, in
        this process event by event; another process replays it from the store when it is done.

        Raises the AppException that left no source to write from.
        """
        if self._cleaning is None:
            self._cleaning = asyncio.create_task(self._clean_store())
        request = context.request
        checkpoints = self._tools.checkpoints(topic_of(request.query), context.language, fresh=request.fresh)
        key = replay.report_key(checkpoints, self._tools, request, context.earlier_sources)

        async def make(flight: ResearchContext, emitted: Sequence[ResearchEvent]) -> MadeReport:
            if stored := await self._replay_stored(flight, checkpoints, key):
                return stored
            lock = NO_KEY_LOCK if request.fresh else self._tools.lock  # no other caller reads a fresh report
            async with lock.hold(f"{key}:{limits}") as has_waited:
                made = await self._replay_stored(flight, checkpoints, key) if has_waited else None
                return made or await self._make(flight, emitted, checkpoints, key)

        limits = (request.max_llm_calls, request.max_cost_usd, request.max_seconds)
        report = await self._flights.follow((key, request.fresh, limits), context, make)
        if report.is_stored and context.owner:
            await replay.store_owner(checkpoints, context.owner, key)
        context.emit(report.final_event(context))

    async def aclose(self) -> None:
        """Cancel running reports and the cleaning of the store."""
        await self._flights.aclose()
        if self._cleaning:
            await cancel_and_wait(self._cleaning)

    async def _clean_store(self) -> None:
        try:
            removed = await self._tools.store.clean()
        except StoreError as error:  # a store that cannot be cleaned can still be read
            log.warning("store not cleaned", extra={"error": error.code})
        else:
            log.info("store cleaned", extra={"entries": removed})

    async def _replay_stored(
        self, context: ResearchContext, checkpoints: CheckpointStore, key: str
    ) -> MadeReport | None:
        stored = await replay.find_stored_report(
            checkpoints, key, context.request, context.language, offline=self._tools.options.offline
        )
        if stored is None:
            return None
        log.info("research from the store", extra={"depth": "report", "latency_ms": _latency_ms(context)})
        await context.store_sources(stored.sources)
        for event in stored.replayed_events(context.request_id):
            context.emit(event)
        return MadeReport(stored.replayed_response, is_stored=True)

    async def _make(
        self, context: ResearchContext, emitted: Sequence[ResearchEvent], checkpoints: CheckpointStore, key: str
    ) -> MadeReport:
        # Made with raw_results even when the request omits them: the stored report also serves requests that do not.
        unabridged = replace(context, request=context.request.model_copy(update={"omit_raw": False}))
        report = await make_report(
            ReportRun(
                context=unabridged,
                tools=await self._tools.with_context(),
                budget=self._budget(context),
                checkpoints=checkpoints,
            )
        )
        ledgers = {"sent_to": context.egress_log.sent(), "cached_sent_to": context.egress_log.cached()}
        metadata = report.response.metadata.model_copy(update=ledgers)
        response = report.response.model_copy(update={"metadata": metadata})
        if report.is_storable:
            events = (*emitted, Done(request_id=context.request_id, response=response))
            await replay.store_report(
                checkpoints, key, context.request, context.language, events=events, sources=report.sources
            )
        elif report.is_complete:
            await replay.mark_finished(checkpoints, key)
        log.info(
            "research done",
            extra={"depth": "report", "sources": len(report.sources), "latency_ms": metadata.latency_ms},
        )
        return MadeReport(response, is_stored=report.is_storable)

    def _budget(self, context: ResearchContext) -> Budget:
        request = context.request
        seconds = min(self._tools.options.timeout_s, request.max_seconds or self._tools.options.timeout_s)
        return Budget(
            max_llm_calls=request.max_llm_calls,
            max_cost_usd=request.max_cost_usd,
            deadline=context.began + seconds,
            price=self._tools.price,
        )


def _latency_ms(context: ResearchContext) -> int:
    return round((asyncio.get_running_loop().time() - context.began) * 1000)
