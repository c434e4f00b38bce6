"""Answer questions with cited answers, as events or as one answer (docs/reference/http.md)."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import NamedTuple

from modules.llm_platform.application.research import events as research_events
from modules.llm_platform.application.research.context import (
    EmitEvent,
    OnProgress,
    ResearchContext,
    StoreSources,
    ignore_progress,
    request_language,
)
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
    """Researches questions. `stream` returns the events as they happen, and `research` only the answer."""

    def __init__(
        self,
        parts: ResearchParts,
        sources: ICache[dtos.StoredSources],
        metrics: IMetrics = NO_METRICS,
        jobs: IResearchJobStore | None = None,
        variants: ResearchVariants | None = None,
        open_files: OpenFiles | None = None,
    ) -> None:
        """Create the service.

        - `parts` serve requests that choose neither a model nor files, and `variants` serve the others.
        - `sources` stores the texts of the sources.
        - `jobs` has the background runs.
        """
        self._parts = parts
        self._sources = sources
        self._metrics = metrics
        self._jobs = jobs
        self._follow_ups = parts.follow_ups  # one object for all models, so that it finds the turns of every run
        self._variants = variants or ResearchVariants((), lambda model, is_unstored: parts)
        self._open_files = open_files

    def check(self, request: dtos.ResearchRequest) -> None:
        """Raise the error of a request that is not possible with these settings."""
        parts = self._parts_of(request)
        if request.output_schema is not None and parts.output is None:
            raise OutputSchemaError
        parts.reporter.check(request)

    def _parts_of(self, request: dtos.ResearchRequest) -> ResearchParts:
        """Return the parts for the model and the files of the request. Raises LLMRequestError for an unknown model."""
        if request.model is None and not request.files:
            return self._parts
        if request.model is not None and request.model not in self._variants.models:
            names = ", ".join(self._variants.models)
            remedy = f"choose one of {names}" if names else "leave model out, or set LLM_API_KEY with LLM_MODEL"
            raise LLMRequestError(f"model is not configured: {remedy}", field="model")
        return self._variants.make(request.model, bool(request.files))

    @asynccontextmanager
    async def _opened(self, request: dtos.ResearchRequest) -> AsyncIterator[tuple[ResearchParts, dtos.ResearchRequest]]:
        """Yield the parts for the request, and the request with its files as sources. Raises UploadedFileError."""
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
        """Return the answer to a request.

        - `owner` is the caller that may request the stored sources; for any other caller `source` does not find them.
        - `on_event` is called with each event before the last.
        - `is_stored` is True if the caller stores the answer. Otherwise the sources of a request with files are not stored.

        A stage that fails is reported in `degraded`. Raises the AppException after which there was nothing to answer from.
        """
        request_id = request_id or new_request_id()
        storage = _SourceStorage(None, keeps_sources=is_stored or not request.files)
        async with aclosing(self._events(request, request_id, owner, storage, streamed=False)) as events:
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
        on_progress: OnProgress = ignore_progress,
    ) -> AsyncGenerator[research_events.ResearchEvent, None]:
        """Return the events of a run: Started first, Done or Failed last. Closing the iterator stops the run.

        - `owner` and `is_stored` are those of `research`.
        - `store_sources` is called with the sources and their texts.
        - `early_finish.ask()` ends the search, and the answer is written from what was found.
        - `on_progress` is called when a report has stored an item that a new attempt would not make again.

        An error in the request itself is raised before the first event.
        """
        request_id = request_id or new_request_id()
        storage = _SourceStorage(store_sources, keeps_sources=is_stored or not request.files)
        events = self._events(
            request, request_id, owner, storage, streamed=True, early_finish=early_finish, on_progress=on_progress
        )
        return ending_with_failed(events, request_id, instance=f"/research/{request_id}")

    async def plan(self, request: PlanRequest, *, owner: str = "") -> ResearchPlan:
        """Return the sub-questions of a report for review. Send the reviewed ones as `plan` of a request.

        Raises PreviousResearchNotFoundError, and LLMRequestError for a model that is not configured.
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
        """Store the sub-questions that a person accepted, for `STORE_TTL_DAYS`."""
        await self._parts.reporter.planner.accept(request, questions)

    async def accepted_plan(self, request: PlanRequest) -> AcceptedPlan | None:
        """Return the sub-questions accepted last for this question in this language; None if there are none."""
        return await self._parts.reporter.planner.accepted(request)

    async def source(self, request_id: str, index: int, *, owner: str = "") -> dtos.HeldSource:
        """Return the stored text of one source of a finished run.

        Raises SourceNotHeldError if it is no longer stored, or belongs to another owner.
        """
        sources = await self._stored_sources(owner, request_id)
        source = sources.find(index) if sources else None
        if source is None:
            raise SourceNotHeldError
        return source

    async def evidence(self, request_id: str, *, owner: str = "") -> tuple[EvidenceLine, ...]:
        """Return the evidence of a finished run, one line for each quote. A shallow run has none.

        Raises SourceNotHeldError if the run is no longer stored, has not ended, or belongs to another owner.
        """
        stored = await self._stored_sources(owner, request_id)
        if stored is None:
            raise SourceNotHeldError
        rows = stored.evidence
        if not rows and self._jobs is not None and (research := await self._jobs.get(owner, request_id)):
            if research.response is None:
                raise SourceNotHeldError
            rows = research.response.evidence
        return evidence_lines(rows, stored.sources)

    async def stored_sources(self, request_id: str, *, owner: str = "") -> dtos.StoredSources | None:
        """Return the stored sources of a run of this process; None if they are no longer stored."""
        return await self._sources.get(owner_key(owner, request_id))

    async def forget(self, request_id: str, *, owner: str = "") -> None:
        """Remove a run from the caches.

        Call this for a run that was deleted, and for one that the store of background runs has: another server may delete it
        there.
        """
        await self._sources.set(owner_key(owner, request_id), dtos.StoredSources(sources=()), 0.0)
        await self._follow_ups.forget(owner, request_id)

    async def turns_before(self, request: dtos.ResearchRequest, *, owner: str = "") -> dtos.StoredTurns | None:
        """Return the conversation that the request continues; None if there is none.

        Raises PreviousResearchNotFoundError.
        """
        if request.previous_id is None and not request.history:
            return None
        return await self._follow_ups.turns_before(request, owner)

    async def stored_answer(self, request_id: str, *, owner: str = "") -> str:
        """Return the beginning of an answer that is stored for follow-up questions. Raises PreviousResearchNotFoundError."""
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
        storage: "_SourceStorage",
        *,
        streamed: bool,
        early_finish: EarlyFinish | None = None,
        on_progress: OnProgress = ignore_progress,
    ) -> AsyncGenerator[research_events.ResearchEvent, None]:
        last_sources: tuple[dtos.Source, ...] = ()

        async def store_sources(sources: tuple[dtos.Source, ...]) -> None:
            nonlocal last_sources
            last_sources = sources
            if storage.keeps_sources:
                await self._sources.set(
                    owner_key(owner, request_id), dtos.StoredSources(sources=sources), SOURCES_TTL_S
                )
            if storage.store is not None:
                await storage.store(sources)

        before = await self.turns_before(request, owner=owner)

        async def run(emit: EmitEvent) -> None:
            finish = early_finish or EarlyFinish()
            await self._run(
                request, request_id, owner, before, emit, store_sources, finish, on_progress, streamed=streamed
            )

        async with aclosing(emitted_events(run)) as events:
            async for event in events:
                if isinstance(event, research_events.Done):
                    if storage.keeps_sources and event.response.evidence:
                        stored = dtos.StoredSources(sources=last_sources, evidence=event.response.evidence)
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
        on_progress: OnProgress,
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
                    on_progress=on_progress,
                )
                await (parts.reporter.report(context) if request.depth == "report" else parts.quick.answer(context))
                if final.done is not None:
                    stage_times.emit(await with_output(parts, final.done, asked, context, has_sources=final.has_sources))


class _SourceStorage(NamedTuple):
    """The places where the sources of a run are stored.

    - `store` is a callback of the caller.
    - `keeps_sources` is True if the service stores them too, so that `source` returns them.
    """

    store: StoreSources | None
    keeps_sources: bool


def _naming_files(done: research_events.Done, request: dtos.ResearchRequest) -> research_events.Done:
    """Return the answer with the names of the files, and without a topic: a run over files is not stored by topic."""
    files = tuple(file.name for file in request.files)
    metadata = done.response.metadata.model_copy(update={"files": files, "topic": None})
    return done.model_copy(update={"response": done.response.model_copy(update={"metadata": metadata})})


