"""Run the research for a question, and return its events or only the answer (docs/reference/http.md)."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from functools import partial

from modules.llm_platform.application.research import events as research_events
from modules.llm_platform.application.research.failed_event import end_with_failed
from modules.llm_platform.application.research.find.files import OpenFiles
from modules.llm_platform.application.research.follow_up import (
    NO_TURNS,
    apply_follow_up,
    describe_plan,
    is_part_of_context,
    make_owner_key,
)
from modules.llm_platform.application.research.pipelines import ResearchPipelines, ResearchVariants
from modules.llm_platform.application.research.run import (
    EmitEvent,
    GivenPages,
    OnProgress,
    Run,
    StoreSources,
    detect_request_language,
    ignore_progress,
)
from modules.llm_platform.application.research.run_events import RunEvents, add_output
from modules.llm_platform.application.research.short_message import answer_short_message
from modules.llm_platform.application.research.stage_times import StageTimes
from modules.llm_platform.domain.callers.request_id import is_request_id, new_request_id
from modules.llm_platform.domain.concurrency.early_finish import EarlyFinish
from modules.llm_platform.domain.concurrency.emitted_events import emitted_events
from modules.llm_platform.domain.concurrency.loop_guard import LoopGuard
from modules.llm_platform.domain.dtos.answer_dtos import ResearchResponse
from modules.llm_platform.domain.dtos.evidence_dtos import EvidenceLine
from modules.llm_platform.domain.dtos.report_dtos import AcceptedPlan, PlanRequest, ReportAmounts, ResearchPlan
from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest, ShortMessage, StoredTurns
from modules.llm_platform.domain.dtos.request_type import require_request
from modules.llm_platform.domain.dtos.source_dtos import HeldSource, Source, StoredSources
from modules.llm_platform.domain.dtos.web_search_dtos import DOCUMENTS
from modules.llm_platform.domain.evidence.lines import list_evidence_lines
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
        pipelines: ResearchPipelines,
        sources: ICache[StoredSources],
        metrics: IMetrics = NO_METRICS,
        jobs: IResearchJobStore | None = None,
        variants: ResearchVariants | None = None,
        open_files: OpenFiles | None = None,
    ) -> None:
        """Create the service.

        - `pipelines` serve requests without `model` and `files`. `variants` make the pipelines for all other requests.
        - `sources` stores the texts of the sources.
        - `jobs` is the store of background runs.
        """
        self._pipelines = pipelines
        self._sources = sources
        self._metrics = metrics
        self._jobs = jobs
        self._follow_ups = pipelines.follow_ups  # shared by all models, so that a follow-up finds the turns of any run
        self._variants = variants or ResearchVariants((), lambda model, is_unstored: pipelines)
        self._open_files = open_files
        self._loop_guard = LoopGuard()

    def check(self, request: ResearchRequest) -> None:
        """Raise LLMRequestError, OutputSchemaError or PriceUnknownError if the settings do not allow the request."""
        pipelines = self._find_pipelines(request)
        if request.output_schema is not None and pipelines.output is None:
            raise OutputSchemaError
        pipelines.reporter.check(request)

    def estimate(self, request: ResearchRequest, *, searches_nothing: bool = False) -> ReportAmounts:
        """Return the upper bound of a run, excluding retries and failover.

        With `searches_nothing` a shallow or deep run has only the pages that it is given, which are not counted.
        """
        pipelines = self._find_pipelines(request)
        if request.depth == "report":
            return pipelines.reporter.estimate(request)
        price, context_tokens = pipelines.reporter.price, pipelines.reporter.context_tokens
        return pipelines.quick.estimate(request, price, context_tokens, searches_nothing=searches_nothing)

    def _find_pipelines(self, request: ResearchRequest) -> ResearchPipelines:
        """Return the pipelines for the model and the files of the request. Raises LLMRequestError for an unknown model."""
        if request.model is None and not request.files:
            return self._pipelines
        if request.model is not None and request.model not in self._variants.models:
            names = ", ".join(self._variants.models)
            remedy = f"choose one of {names}" if names else "leave model out, or set LLM_API_KEY with LLM_MODEL"
            raise LLMRequestError(f"model is not configured: {remedy}", field="model")
        return self._variants.make(request.model, bool(request.files))

    @asynccontextmanager
    async def _open_pipelines(self, run: Run) -> AsyncIterator[ResearchPipelines]:
        """Yield the pipelines for a run, and make the files of its request sources. Raises UploadedFileError."""
        request = run.request
        pipelines = self._find_pipelines(request)
        if not request.files:
            yield pipelines
            return
        if self._open_files is None:
            raise UploadedFileError("This platform cannot read files: leave `files` out.")
        has_sources = "sources" in request.model_fields_set
        changes: dict[str, object] = {"files": ()} if has_sources else {"files": (), "sources": (DOCUMENTS,)}
        async with (
            self._open_files(request.files) as files,
            pipelines.with_files(files, beside_sources=has_sources) as own_pipelines,
        ):
            run.request = request.model_copy(update=changes)
            yield own_pipelines

    async def research(
        self,
        request: ResearchRequest,
        *,
        request_id: str | None = None,
        owner: str = "",
        on_event: Callable[[research_events.ResearchEvent], None] | None = None,
        is_stored: bool = False,
    ) -> ResearchResponse:
        """Return the answer to a request.

        - `owner` is the caller that may request the stored sources; for any other caller `source` does not find them.
        - `on_event` is called with each event except the last (Done).
        - `is_stored` is True if the caller stores the answer. Otherwise the sources of a request with files are not stored.

        `degraded` reports stages that failed. Raises an AppException for a request that is not possible, and if nothing is left
        to answer from.
        """
        require_request(request, ResearchRequest)
        run = Run(
            request=request,
            original_request=request,
            request_id=request_id or new_request_id(),
            owner=owner,
            keeps_sources=is_stored or not request.files,
        )
        async with aclosing(self._stream_events(run)) as events:
            async for event in events:
                if isinstance(event, research_events.Done):
                    return event.response
                if on_event is not None:
                    on_event(event)
        raise AssertionError("a research run ends with Done or an error")

    def stream(
        self,
        request: ResearchRequest,
        *,
        request_id: str | None = None,
        owner: str = "",
        store_sources: StoreSources | None = None,
        is_stored: bool = False,
        early_finish: EarlyFinish | None = None,
        on_progress: OnProgress = ignore_progress,
        given: GivenPages | None = None,
    ) -> AsyncGenerator[research_events.ResearchEvent, None]:
        """Return the events of a run: Started first, Done or Failed last. Closing the iterator stops the run.

        - `owner` and `is_stored` mean the same as in `research`.
        - `store_sources` is called with the sources and their texts.
        - `early_finish.ask()` ends the search, and the answer is written from what was found.
        - `on_progress` is called when a report has stored an item, which a new attempt at the run will reuse.
        - `given` are the first sources of a shallow or deep run.

        An error in the request itself is raised before the first event.
        """
        require_request(request, ResearchRequest)
        run = Run(
            request=request,
            original_request=request,
            request_id=request_id or new_request_id(),
            owner=owner,
            is_streamed=True,
            on_sources=store_sources,
            keeps_sources=is_stored or not request.files,
            early_finish=early_finish or EarlyFinish(),
            on_progress=on_progress,
            given=given,
        )
        return end_with_failed(self._stream_events(run), run.request_id, instance=f"/research/{run.request_id}")

    async def plan(self, request: PlanRequest, *, owner: str = "") -> ResearchPlan:
        """Return the sub-questions of a report for review. Send the reviewed ones as `plan` of a request.

        Raises PreviousResearchNotFoundError, and LLMRequestError for a model that is not configured.
        """
        require_request(request, PlanRequest)
        asked = ResearchRequest(
            query=request.query,
            depth="report",
            language=request.language,
            context=request.context,
            model=request.model,
            previous_id=request.previous_id,
            history=request.history,
        )
        pipelines = self._find_pipelines(asked)
        before = await self.load_earlier_turns(asked, owner=owner)
        if before is None and not is_part_of_context(asked):
            return await pipelines.reporter.planner.plan(request)
        follow_up = await pipelines.follow_ups.rewrite_question(asked, before or NO_TURNS, None)
        understood = {"query": follow_up.query, "language": follow_up.language}
        return describe_plan(follow_up, await pipelines.reporter.planner.plan(request.model_copy(update=understood)))

    async def accept_plan(self, request: PlanRequest, questions: Sequence[str]) -> None:
        """Store the sub-questions that a person accepted, for `STORE_TTL_DAYS`."""
        await self._pipelines.reporter.planner.accept(request, questions)

    async def accepted_plan(self, request: PlanRequest) -> AcceptedPlan | None:
        """Return the sub-questions accepted last for this question in this language; None if there are none."""
        return await self._pipelines.reporter.planner.load_accepted(request)

    async def get_source(self, request_id: str, index: int, *, owner: str = "") -> HeldSource:
        """Return the stored text of one source of a finished run.

        Raises SourceNotHeldError if it is no longer stored, or belongs to another owner.
        """
        sources = await self._load_sources(owner, request_id)
        source = sources.find(index) if sources else None
        if source is None:
            raise SourceNotHeldError
        return source

    async def list_evidence(self, request_id: str, *, owner: str = "") -> tuple[EvidenceLine, ...]:
        """Return the evidence of a finished run, one line for each quote. A shallow run has none.

        Raises SourceNotHeldError if the run is no longer stored, has not ended, or belongs to another owner.
        """
        stored = await self._load_sources(owner, request_id)
        if stored is None:
            raise SourceNotHeldError
        rows = stored.evidence
        if not rows and self._jobs is not None and (research := await self._jobs.get(owner, request_id)):
            if research.response is None:
                raise SourceNotHeldError
            rows = research.response.evidence
        return list_evidence_lines(rows, stored.sources)

    async def get_stored_sources(self, request_id: str, *, owner: str = "") -> StoredSources | None:
        """Return the stored sources of a run of this process; None if they are no longer stored."""
        return await self._sources.get(make_owner_key(owner, request_id))

    async def forget(self, request_id: str, *, owner: str = "") -> None:
        """Remove a run from the caches of this process.

        Call this for a deleted run, and for a run that is in the shared store by now: another server may delete it there.
        """
        await self._sources.set(make_owner_key(owner, request_id), StoredSources(sources=()), 0.0)
        await self._follow_ups.forget(owner, request_id)

    async def load_earlier_turns(self, request: ResearchRequest, *, owner: str = "") -> StoredTurns | None:
        """Return the conversation that the request continues; None if there is none.

        Raises PreviousResearchNotFoundError.
        """
        if request.previous_id is None and not request.history:
            return None
        return await self._follow_ups.load_earlier_turns(request, owner)

    async def load_stored_answer(self, request_id: str, *, owner: str = "") -> str:
        """Return the beginning of an answer that is stored for follow-up questions. Raises PreviousResearchNotFoundError."""
        return await self._follow_ups.load_stored_answer(owner, request_id)

    async def _load_sources(self, owner: str, request_id: str) -> StoredSources | None:
        if not is_request_id(request_id):
            return None
        sources = await self.get_stored_sources(request_id, owner=owner)
        if sources is None and self._jobs is not None:
            sources = await self._jobs.sources(owner, request_id)
        return sources

    async def _stream_events(self, run: Run) -> AsyncGenerator[research_events.ResearchEvent, None]:
        """Yield the events of a run. Before the last event, store what later requests need: evidence and turns."""
        run.store_sources = partial(self._store_sources, run)
        before = await self.load_earlier_turns(run.original_request, owner=run.owner)
        async with aclosing(emitted_events(partial(self._carry_out, run, before))) as events:
            async for event in events:
                if isinstance(event, research_events.Done):
                    await self._store_evidence(run, event.response)
                    if run.original_request.files:
                        event = _name_files(event, run.original_request)
                    else:
                        turns = before.turns if before else ()
                        await self._follow_ups.store(run.owner, run.original_request, turns, event.response)
                yield event

    async def _carry_out(self, run: Run, before: StoredTurns | None, emit: EmitEvent) -> None:
        """Answer the request of a run, and emit its events."""
        run.began, run.emit = asyncio.get_running_loop().time(), emit
        if isinstance(run.request, ShortMessage):
            answer_short_message(run.request, run.request_id, before, emit)
            return
        self.check(run.request)
        async with self._loop_guard, self._open_pipelines(run) as pipelines:
            emit(research_events.Started(request_id=run.request_id))
            with (
                receive_model_progress(
                    lambda progress: emit(research_events.ModelProgressed.of(run.request_id, progress))
                ),
                StageTimes(run.request.depth, self._metrics, emit) as stage_times,
                open_egress_log() as run.egress_log,
            ):
                events = RunEvents(run, stage_times)
                run.emit, run.detected = events.emit, detect_request_language(run.request)
                if before is not None or is_part_of_context(run.request):
                    await self._rewrite_follow_up(run, pipelines, before)
                await (pipelines.reporter.report(run) if run.request.depth == "report" else pipelines.quick.answer(run))
                if events.done is not None:
                    stage_times.emit(await add_output(pipelines, events.done, run))

    async def _rewrite_follow_up(self, run: Run, pipelines: ResearchPipelines, before: StoredTurns | None) -> None:
        """Replace a follow-up question by a question that can be understood without the conversation."""
        request = run.request
        earlier = before and request.previous_id and await self._load_sources(run.owner, request.previous_id)
        run.follow_up = await pipelines.follow_ups.rewrite_question(request, before or NO_TURNS, earlier or None)
        run.request, run.detected = apply_follow_up(request, run.follow_up), run.follow_up.language
        if request.depth == "shallow":
            run.emit(research_events.Planned(request_id=run.request_id, questions=(run.request.query,)))

    async def _store_sources(self, run: Run, sources: tuple[Source, ...]) -> None:
        run.sources = sources
        if run.keeps_sources:
            stored = StoredSources(sources=sources)
            await self._sources.set(make_owner_key(run.owner, run.request_id), stored, SOURCES_TTL_S)
        if run.on_sources is not None:
            await run.on_sources(sources)

    async def _store_evidence(self, run: Run, response: ResearchResponse) -> None:
        if run.keeps_sources and response.evidence:
            stored = StoredSources(sources=run.sources, evidence=response.evidence)
            await self._sources.set(make_owner_key(run.owner, run.request_id), stored, SOURCES_TTL_S)


def _name_files(done: research_events.Done, request: ResearchRequest) -> research_events.Done:
    """Add the names of the files, and remove the topic, because a run over files is not stored under a topic."""
    files = tuple(file.name for file in request.files)
    metadata = done.response.metadata.model_copy(update={"files": files, "topic": None})
    return done.model_copy(update={"response": done.response.model_copy(update={"metadata": metadata})})
