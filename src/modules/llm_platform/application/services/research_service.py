"""The research service: a question in, a cited answer out (docs/reference/http.md)."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import NamedTuple

from modules.llm_platform.application.research import events as research_events
from modules.llm_platform.application.research.context import EmitEvent, ResearchContext, StoreSources, request_language
from modules.llm_platform.application.research.failed_event import ending_with_failed
from modules.llm_platform.application.research.files import OpenFiles
from modules.llm_platform.application.research.final_event import FinalEvent, with_output
from modules.llm_platform.application.research.follow_up import (
    NO_TURNS,
    describing,
    is_part_of_context,
    owner_key,
    planned,
    within_limits,
)
from modules.llm_platform.application.research.parts import ResearchParts, ResearchVariants
from modules.llm_platform.application.research.short_message import answer_short_message
from modules.llm_platform.application.research.stage_times import StageTimes
from modules.llm_platform.domain.callers.request_id import is_request_id, new_request_id
from modules.llm_platform.domain.concurrency.early_finish import EarlyFinish
from modules.llm_platform.domain.concurrency.emitted_events import emitted_events
from modules.llm_platform.domain.dtos import research_dtos as dtos
from modules.llm_platform.domain.dtos.evidence_dtos import EvidenceLine
from modules.llm_platform.domain.dtos.report_dtos import AcceptedPlan, PlanRequest, ResearchPlan
from modules.llm_platform.domain.dtos.web_search_dtos import DOCUMENTS
from modules.llm_platform.domain.evidence.lines import evidence_lines
from modules.llm_platform.domain.exceptions import (
    LLMRequestError,
    OutputSchemaError,
    SourceNotHeldError,
    UploadedFileError,
)
from modules.llm_platform.domain.llm.model_progress import receive_model_progress
from modules.llm_platform.domain.ports.cache import ICache
from modules.llm_platform.domain.ports.metrics import NO_METRICS, IMetrics
from modules.llm_platform.domain.ports.research_job_store import IResearchJobStore
from modules.llm_platform.domain.privacy.egress_log import open_egress_log

log = logging.getLogger(__name__)

SOURCES_TTL_S = 3600.0


class ResearchService:
    """Researches a question: `stream` yields the events as they happen, `research` returns the answer of the same stream."""

    def __init__(
        self,
        parts: ResearchParts,
        sources: ICache[dtos.StoredSources],
        metrics: IMetrics = NO_METRICS,
        jobs: IResearchJobStore | None = None,
        variants: ResearchVariants | None = None,
        open_files: OpenFiles | None = None,
    ) -> None:
        """Create the service with the `parts` of requests that choose nothing, and the `variants` of the others."""
        self._parts = parts
        self._sources = sources
        self._metrics = metrics
        self._jobs = jobs
        self._follow_ups = parts.follow_ups  # stores the turns of all runs
        self._variants = variants or ResearchVariants((), lambda model, is_unstored: parts)
        self._open_files = open_files

    def check(self, request: dtos.ResearchRequest) -> None:
        """Raise the error of a request that cannot be answered with these settings."""
        parts = self._parts_of(request)
        if request.output_schema is not None and parts.output is None:
            raise OutputSchemaError
        parts.reporter.check(request)

    def _parts_of(self, request: dtos.ResearchRequest) -> ResearchParts:
        """Return the parts for the model that the request names, else for all. Raises LLMRequestError for another model."""
        if request.model is None and not request.files:
            return self._parts
        if request.model is not None and request.model not in self._variants.models:
            raise LLMRequestError(_not_configured(self._variants.models), field="model")
        return self._variants.make(request.model, bool(request.files))

    @asynccontextmanager
    async def _opened(self, request: dtos.ResearchRequest) -> AsyncIterator[tuple[ResearchParts, dtos.ResearchRequest]]:
        """The parts for the request, and the request with its files as sources. Raises UploadedFileError."""
        parts = self._parts_of(request)
        if not request.files:
            yield parts, request
            return
        if self._open_files is None:
            raise UploadedFileError
        has_sources = "sources" in request.model_fields_set
        changes: dict[str, object] = {"files": ()} if has_sources else {"files": (), "sources": (DOCUMENTS,)}
        async with (
            self._open_files(request.files) as files,
            parts.with_files(files, beside_sources=has_sources) as own_parts,
        ):
            yield own_parts, request.model_copy(update=changes)

    async def research(
        self,
        request: dtos.ResearchRequest,
        *,
        request_id: str | None = None,
        owner: str = "",
        on_event: Callable[[research_events.ResearchEvent], None] | None = None,
        is_stored: bool = False,
    ) -> dtos.ResearchResponse:
        """Return the answer. Raises the AppException after which nothing was left to answer from.

        `on_event` is called with each event before the last. `owner`: who may request the stored sources; `source` finds
        them for the same owner only. `is_stored`: the caller stores the answer; else the sources of a run over files of the
        request are not held.
        """
        request_id = request_id or new_request_id()
        hold = _Holding(None, holds=is_stored or not request.files)
        async with aclosing(self._events(request, request_id, owner, hold, streamed=False)) as events:
            async for event in events:
                if isinstance(event, research_events.Done):
                    return event.response
                if on_event is not None:
                    on_event(event)
        raise AssertionError("a research run ends with Done or an error")

    def stream(
        self,
        request: dtos.ResearchRequest,
        *,
        request_id: str | None = None,
        owner: str = "",
        store_sources: StoreSources | None = None,
        is_stored: bool = False,
        early_finish: EarlyFinish | None = None,
    ) -> AsyncGenerator[research_events.ResearchEvent, None]:
        """Return the events: Started first, Done or Failed last. Closing the iterator stops the research.

        An error of the request itself is raised before the first event. `store_sources` also gets the texts of the sources.
        `is_stored`: as of `research`. `early_finish.ask()` ends the search: the answer is written from what it has found.
        """
        request_id = request_id or new_request_id()
        hold = _Holding(store_sources, holds=is_stored or not request.files)
        events = self._events(request, request_id, owner, hold, streamed=True, early_finish=early_finish)
        return ending_with_failed(events, request_id, instance=f"/research/{request_id}")

    async def plan(self, request: PlanRequest, *, owner: str = "") -> ResearchPlan:
        """Return the sub-questions of a report, for review; the edited ones go into `plan` of a request.

        Raises PreviousResearchNotFoundError, LLMRequestError for a model that is not configured.
        """
        asked = dtos.ResearchRequest(
            query=request.query,
            depth="report",
            language=request.language,
            context=request.context,
            model=request.model,
            previous_id=request.previous_id,
            history=request.history,
        )
        parts = self._parts_of(asked)
        before = await self.turns_before(asked, owner=owner)
        if before is None and not is_part_of_context(asked):
            return await parts.reporter.planner.plan(request)
        follow_up = await parts.follow_ups.understand(asked, before or NO_TURNS, None)
        understood = {"query": follow_up.query, "language": follow_up.language}
        return planned(follow_up, await parts.reporter.planner.plan(request.model_copy(update=understood)))

    async def accept_plan(self, request: PlanRequest, questions: Sequence[str]) -> None:
        """Store, for `STORE_TTL_DAYS`, the sub-questions that a person accepted."""
        await self._parts.reporter.planner.accept(request, questions)

    async def accepted_plan(self, request: PlanRequest) -> AcceptedPlan | None:
        """Return the sub-questions accepted last for this question in this language; None if there are none."""
        return await self._parts.reporter.planner.accepted(request)

    async def source(self, request_id: str, index: int, *, owner: str = "") -> dtos.HeldSource:
        """Return the stored text of one source of a finished research.

        Raises SourceNotHeldError if it is no longer stored, or belongs to another owner.
        """
        sources = await self._stored_sources(owner, request_id)
        source = sources.find(index) if sources else None
        if source is None:
            raise SourceNotHeldError
        return source

    async def evidence(self, request_id: str, *, owner: str = "") -> tuple[EvidenceLine, ...]:
        """Return the ledger of a finished research as one line for each quote; a shallow one has none.

        Raises SourceNotHeldError if it is no longer stored, has not ended, or belongs to another owner.
        """
        held = await self._stored_sources(owner, request_id)
        if held is None:
            raise SourceNotHeldError
        rows = held.evidence
        if not rows and self._jobs is not None and (research := await self._jobs.get(owner, request_id)):
            if research.response is None:
                raise SourceNotHeldError
            rows = research.response.evidence
        return evidence_lines(rows, held.sources)

    async def stored_sources(self, request_id: str, *, owner: str = "") -> dtos.StoredSources | None:
        """Return the stored texts of a research run of this process; None if they are no longer stored."""
        return await self._sources.get(owner_key(owner, request_id))

    async def forget(self, request_id: str, *, owner: str = "") -> None:
        """Remove what the caches hold of a research run: it was deleted, or it is in the store of background runs, where
        another server may delete it.
        """
        await self._sources.set(owner_key(owner, request_id), dtos.StoredSources(sources=()), 0.0)
        await self._follow_ups.forget(owner, request_id)

    async def turns_before(self, request: dtos.ResearchRequest, *, owner: str = "") -> dtos.StoredTurns | None:
        """The conversation that the request continues, None if it continues none. Raises PreviousResearchNotFoundError."""
        if request.previous_id is None and not request.history:
            return None
        return await self._follow_ups.turns_before(request, owner)

    async def stored_answer(self, request_id: str, *, owner: str = "") -> str:
        """Return what is kept of an answer for questions that follow it. Raises PreviousResearchNotFoundError."""
        return await self._follow_ups.stored_answer(owner, request_id)

    async def _stored_sources(self, owner: str, request_id: str) -> dtos.StoredSources | None:
        if not is_request_id(request_id):
            return None
        sources = await self.stored_sources(request_id, owner=owner)
        if sources is None and self._jobs is not None:
            sources = await self._jobs.sources(owner, request_id)
        return sources

    async def _events(
        self,
        request: dtos.ResearchRequest,
        request_id: str,
        owner: str,
        hold: "_Holding",
        *,
        streamed: bool,
        early_finish: EarlyFinish | None = None,
    ) -> AsyncGenerator[research_events.ResearchEvent, None]:
        held: tuple[dtos.Source, ...] = ()

        async def store_sources(sources: tuple[dtos.Source, ...]) -> None:
            nonlocal held
            held = sources
            if hold.holds:
                await self._sources.set(
                    owner_key(owner, request_id), dtos.StoredSources(sources=sources), SOURCES_TTL_S
                )
            if hold.store is not None:
                await hold.store(sources)

        before = await self.turns_before(request, owner=owner)

        async def run(emit: EmitEvent) -> None:
            finish = early_finish or EarlyFinish()
            await self._run(request, request_id, owner, before, emit, store_sources, finish, streamed=streamed)

        async with aclosing(emitted_events(run)) as events:
            async for event in events:
                if isinstance(event, research_events.Done):
                    if hold.holds and event.response.evidence:
                        stored = dtos.StoredSources(sources=held, evidence=event.response.evidence)
                        await self._sources.set(owner_key(owner, request_id), stored, SOURCES_TTL_S)
                    if request.files:
                        event = _naming_files(event, request)
                    else:
                        turns = before.turns if before else ()
                        await self._follow_ups.store(owner, request, turns, event.response)
                yield event

    async def _run(
        self,
        request: dtos.ResearchRequest,
        request_id: str,
        owner: str,
        before: dtos.StoredTurns | None,
        emit: EmitEvent,
        store_sources: StoreSources,
        early_finish: EarlyFinish,
        *,
        streamed: bool,
    ) -> None:
        began = asyncio.get_running_loop().time()
        if isinstance(request, dtos.ShortMessage):
            answer_short_message(request, request_id, before, emit)
            return
        self.check(request)
        async with self._opened(request) as (parts, request):
            emit(research_events.Started(request_id=request_id))
            with (
                receive_model_progress(lambda progress: emit(research_events.ModelProgressed.of(request_id, progress))),
                StageTimes(request.depth, self._metrics, emit) as stage_times,
                open_egress_log() as egress_log,
            ):
                asked, final = request, FinalEvent(stage_times, store_sources)
                follow_up, detected, emit = None, request_language(request), final.emit
                if before is not None or is_part_of_context(request):
                    earlier = before and request.previous_id and await self._stored_sources(owner, request.previous_id)
                    follow_up = await parts.follow_ups.understand(request, before or NO_TURNS, earlier or None)
                    request, detected = within_limits(request, follow_up), follow_up.language
                    emit = describing(follow_up, emit, egress_log)
                    if request.depth == "shallow":
                        emit(research_events.Planned(request_id=request_id, questions=(request.query,)))
                context = ResearchContext(
                    request=request,
                    request_id=request_id,
                    detected=detected,
                    emit=emit,
                    store_sources=final.store_sources,
                    streamed=streamed,
                    began=began,
                    egress_log=egress_log,
                    follow_up=follow_up,
                    owner=owner,
                    early_finish=early_finish,
                )
                await (parts.reporter.report(context) if request.depth == "report" else parts.quick.answer(context))
                if final.done is not None:
                    stage_times.emit(await with_output(parts, final.done, asked, context, has_sources=final.has_sources))


class _Holding(NamedTuple):
    """Decides where the texts of the sources go: to a caller's `store`, and to the texts that `source` returns."""

    store: StoreSources | None
    holds: bool


def _naming_files(done: research_events.Done, request: dtos.ResearchRequest) -> research_events.Done:
    """Return the answer with the names of the files, and without a topic: nothing of such a run is stored by topic."""
    files = tuple(file.name for file in request.files)
    metadata = done.response.metadata.model_copy(update={"files": files, "topic": None})
    return done.model_copy(update={"response": done.response.model_copy(update={"metadata": metadata})})


def _not_configured(models: Iterable[str]) -> str:
    names = ", ".join(models)
    remedy = f"choose one of {names}" if names else "leave model out, or set LLM_API_KEY with LLM_MODEL"
    return f"model is not configured: {remedy}"
