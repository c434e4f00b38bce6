"""Make reports for the research service. A finished report is stored, and replayed from the store when it is asked for again."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, replace
from functools import partial

from modules.llm_platform.application.research.budget import Budget, Price
from modules.llm_platform.application.research.events import Done, ModelProgressed, ResearchEvent
from modules.llm_platform.application.research.find.files import FilesReader, FilesSearch, OpenedFiles
from modules.llm_platform.application.research.report.checkpoint_store import CheckpointStore
from modules.llm_platform.application.research.report.estimate import estimate_report
from modules.llm_platform.application.research.report.pipeline import make_report
from modules.llm_platform.application.research.report.planner import Planner
from modules.llm_platform.application.research.report.report_key import make_report_key
from modules.llm_platform.application.research.report.run import ReportRun, ReportTools
from modules.llm_platform.application.research.report.stored_report import (
    find_stored_report,
    mark_finished,
    store_owner,
    store_report,
)
from modules.llm_platform.application.research.run import Run, detect_request_language
from modules.llm_platform.application.research.structured_output import compute_output_seconds
from modules.llm_platform.domain.concurrency.early_finish import SharedEarlyFinish
from modules.llm_platform.domain.concurrency.single_flight import SingleFlight
from modules.llm_platform.domain.concurrency.task_group import cancel_and_wait
from modules.llm_platform.domain.dtos.answer_dtos import ResearchResponse
from modules.llm_platform.domain.dtos.report_dtos import PlanRequest, ReportAmounts
from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.exceptions import PriceUnknownError, StoreError
from modules.llm_platform.domain.llm.model_progress import receive_model_progress
from modules.llm_platform.domain.ports.key_lock import NO_KEY_LOCK
from modules.llm_platform.domain.research.store_key import make_topic
from modules.llm_platform.domain.text.language import DEFAULT_LANGUAGE

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class MadeReport:
    """A report for all callers that share it. `is_stored` is True if the store has it under its key."""

    response: ResearchResponse
    is_stored: bool

    def make_final_event(self, run: Run) -> Done:
        """Return the last event of one caller, with its request id, its latency, and raw_results if it wants them."""
        own = {"request_id": run.request_id, "latency_ms": _measure_latency_ms(run)}
        metadata = self.response.metadata.model_copy(update=own)
        raw = None if run.request.omit_raw else self.response.raw_results
        answer = self.response.model_copy(update={"metadata": metadata, "raw_results": raw})
        return Done(request_id=run.request_id, response=answer)


class _ItemStored:
    """Signals that an item was stored. A new attempt at the report would reuse it."""


_Part = ResearchEvent | tuple[Source, ...] | _ItemStored | MadeReport  # what all callers of a shared report get


class Reporter:
    """Makes reports with one set of tools. The first report also starts to clean the store in the background."""

    def __init__(self, tools: ReportTools) -> None:
        self.planner = Planner(tools)
        self._tools = tools
        self._flights: SingleFlight[_Part] = SingleFlight()
        self._early_finishes: dict[Hashable, SharedEarlyFinish] = {}
        self._cleaning: asyncio.Task[None] | None = None

    def with_files(self, files: OpenedFiles, *, beside_sources: bool) -> "Reporter":
        """Return a reporter that searches the files of a request, and with `beside_sources` the other sources too.

        Close it when its run has ended.
        """
        search = FilesSearch(files, self._tools.search if beside_sources else None)
        return Reporter(replace(self._tools, search=search, pages=FilesReader(files, self._tools.pages)))

    def check(self, request: ResearchRequest) -> None:
        """Raise PriceUnknownError if the request limits the cost and prices are unknown."""
        if request.max_cost_usd is not None and self._tools.llms and self._tools.price is None:
            raise PriceUnknownError

    @property
    def price(self) -> Price | None:
        """The function that returns the cost of a call; None if prices are unknown."""
        return self._tools.price

    @property
    def context_tokens(self) -> int:
        return self._tools.options.context_tokens

    def estimate(self, request: ResearchRequest) -> ReportAmounts:
        """Return the upper bound of a report whose sub-questions are not planned yet."""
        wanted = PlanRequest(query=request.query, sources=request.sources, urls=request.urls, language=request.language)
        questions = [request.query] * self._tools.options.sub_questions
        language = detect_request_language(request) or DEFAULT_LANGUAGE
        return estimate_report(self._tools, wanted, language, questions).at_most

    async def report(self, run: Run) -> None:
        """Make the report, and emit its events up to Done. The service has already emitted Started.

        Equal requests with equal limits share one report. In this process they share its events; another process replays them
        from the store when the report is done. A shared report ends early when all callers that wait for it ask for that.

        Raises the AppException that left no source to write from.
        """
        if self._cleaning is None:
            self._cleaning = asyncio.create_task(self._clean_store())
        request = run.request
        checkpoints = self._tools.open_checkpoints(make_topic(request.query), run.language, fresh=request.fresh)
        key = make_report_key(checkpoints, self._tools, request, run.earlier_sources)
        has_schema = request.output_schema is not None  # a report with a schema keeps time and a call free for it
        limits = (request.max_llm_calls, request.max_cost_usd, request.max_seconds, has_schema)
        equal = (key, request.fresh, limits)
        with self._share_early_finish(equal, run) as early_finish:
            shared = replace(run, early_finish=early_finish)

            async def make(emit: Callable[[_Part], None]) -> None:
                checkpoints.on_stored = partial(emit, _ItemStored())
                emit(await self._read_or_make(shared, emit, checkpoints, key, f"{key}:{limits}"))

            report = await self._follow((*equal, early_finish), run, make)
        if report.is_stored and run.owner:
            await store_owner(checkpoints, run.owner, key)
        run.emit(report.make_final_event(run))

    @contextmanager
    def _share_early_finish(self, equal: Hashable, run: Run) -> Iterator[SharedEarlyFinish]:
        """Add the run to the callers that share the early finish of equal reports.

        A report that was already asked to end early is not shared any more: the run gets a new early finish, and so a new
        report.
        """
        early_finish = self._early_finishes.get(equal)
        if early_finish is None or early_finish.is_asked:
            early_finish = self._early_finishes[equal] = SharedEarlyFinish()
        try:
            with early_finish.shared_by(run.early_finish):
                yield early_finish
        finally:
            if not early_finish.callers and self._early_finishes.get(equal) is early_finish:
                del self._early_finishes[equal]

    async def _follow(
        self, key: Hashable, run: Run, make: Callable[[Callable[[_Part], None]], Awaitable[None]]
    ) -> MadeReport:
        """Emit the events of the report with this key, under the request id of the run. Return the report instead of Done."""
        async with aclosing(self._flights.stream(key, make)) as parts:
            async for part, _, is_past in parts:
                if isinstance(part, MadeReport):
                    return part
                if isinstance(part, tuple):
                    await run.store_sources(part)
                elif isinstance(part, _ItemStored):
                    await run.on_progress()
                elif not (is_past and isinstance(part, ModelProgressed)):  # old progress of a call helps nobody
                    own = part.request_id == run.request_id
                    run.emit(part if own else part.model_copy(update={"request_id": run.request_id}))
        raise AssertionError("a report ends with its response")

    async def _read_or_make(
        self,
        first: Run,
        emit: Callable[[_Part], None],
        checkpoints: CheckpointStore,
        key: str,
        lock_key: str,
    ) -> MadeReport:
        """Return the report for all callers. What it sends is recorded in the egress log of the first one."""
        emitted: list[ResearchEvent] = []

        def emit_event(event: ResearchEvent) -> None:
            emitted.append(event)
            emit(event)

        async def store_sources(sources: tuple[Source, ...]) -> None:
            emit(sources)

        run = replace(first, emit=emit_event, store_sources=store_sources)
        if stored := await self._replay_stored(run, checkpoints, key):
            return stored
        lock = NO_KEY_LOCK if first.request.fresh else self._tools.lock  # no other caller reads a fresh report
        with receive_model_progress(lambda progress: emit(ModelProgressed.of(first.request_id, progress))):
            async with lock.hold(lock_key) as has_waited:
                made = await self._replay_stored(run, checkpoints, key) if has_waited else None
                return made or await self._make(run, emitted, checkpoints, key)

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

    async def _replay_stored(self, run: Run, checkpoints: CheckpointStore, key: str) -> MadeReport | None:
        stored = await find_stored_report(
            checkpoints, key, run.request, run.language, offline=self._tools.options.offline
        )
        if stored is None:
            return None
        log.info("research from the store", extra={"depth": "report", "latency_ms": _measure_latency_ms(run)})
        await run.store_sources(stored.sources)
        for event in stored.repeat_events(run.request_id):
            run.emit(event)
        return MadeReport(stored.replayed_response, is_stored=True)

    async def _make(
        self, run: Run, emitted: Sequence[ResearchEvent], checkpoints: CheckpointStore, key: str
    ) -> MadeReport:
        # The report has raw_results even if this request omits them, because its stored form serves other requests too.
        unabridged = replace(run, request=run.request.model_copy(update={"omit_raw": False}))
        report = await make_report(
            ReportRun.of(
                unabridged,
                tools=await self._tools.with_context(),
                budget=self._make_budget(run),
                checkpoints=checkpoints,
            )
        )
        response, latency_ms = report.response, report.response.metadata.latency_ms
        if report.is_storable:
            events = (*emitted, Done(request_id=run.request_id, response=response))
            await store_report(checkpoints, key, run.request, run.language, events=events, sources=report.sources)
        elif report.is_complete:
            await mark_finished(checkpoints, key)
        log.info(
            "research done",
            extra={"depth": "report", "sources": len(report.sources), "latency_ms": latency_ms},
        )
        return MadeReport(response, is_stored=report.is_storable)

    def compute_deadline(self, run: Run) -> float:
        """Return the deadline of the whole run, in event loop time.

        `ReportRun.deadline`, set before the writing, is earlier: it leaves time for the fallback and the output.
        """
        return run.began + self._compute_limit_seconds(run.request)

    def _compute_limit_seconds(self, request: ResearchRequest) -> float:
        return min(self._tools.options.timeout_s, request.max_seconds or self._tools.options.timeout_s)

    def _make_budget(self, run: Run) -> Budget:
        request = run.request
        seconds = self._compute_limit_seconds(request)
        budget = Budget(
            max_llm_calls=request.max_llm_calls,
            max_cost_usd=request.max_cost_usd,
            deadline=run.began + seconds - compute_output_seconds(request, seconds),
            price=self._tools.price,
            stages=self._tools.llms.keys(),
        )
        if request.output_schema is not None:
            budget.expect_calls("output", 1)  # the call that makes the structured output when the report is done
        return budget


def _measure_latency_ms(run: Run) -> int:
    return round((asyncio.get_running_loop().time() - run.began) * 1000)
