"""Run the queued runs of the background store in this process: a limited number at once, each under a lease."""

import asyncio
import logging
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol, TypeVar

from modules.llm_platform.application.research import events as research_events
from modules.llm_platform.application.research.run import StoreSources
from modules.llm_platform.application.services.research_service import ResearchService
from modules.llm_platform.application.services.webhook_service import WebhookService
from modules.llm_platform.domain.callers.api_key_label import set_api_key_label
from modules.llm_platform.domain.callers.current_caller import set_current_caller
from modules.llm_platform.domain.concurrency.early_finish import EarlyFinish
from modules.llm_platform.domain.concurrency.page_allowance import Charge, set_page_charge
from modules.llm_platform.domain.concurrency.task_group import cancel_and_wait
from modules.llm_platform.domain.dtos.research_job_dtos import ClaimedJob, JobEvent, JobKind, ResearchProgress
from modules.llm_platform.domain.dtos.source_dtos import Source, StoredSources
from modules.llm_platform.domain.exceptions import BackgroundError, ResearchInterruptedError, StoreError
from modules.llm_platform.domain.ports.metrics import NO_METRICS, IMetrics
from modules.llm_platform.domain.ports.research_job_store import IResearchJobStore, JobSelection, LeaseLostError
from modules.llm_platform.domain.ports.tracing import NO_SPAN, NO_TRACER, ITracer, running
from modules.llm_platform.domain.telemetry.metrics import (
    CANCELLED,
    DEGRADED_ANSWERS,
    OK,
    RESEARCH_JOBS,
    RESEARCH_JOBS_ENDED,
)
from modules.llm_platform.domain.telemetry.spans import ATTEMPT, JOB_SPAN, REQUEST_ID
from shared.exceptions import AppException

log = logging.getLogger(__name__)

Result = TypeVar("Result")
JobKey = tuple[str, str]  # owner and id

LOST: Final = "lost"  # the result of a run that was deleted or cancelled, or that another worker runs
INTERRUPTED: Final = "interrupted"  # the reason of the event `reset` when a run begins again
RENEWALS_PER_LEASE: Final = 3
QUICK_PER_REPORT: Final = 4  # shallow and deep runs take seconds, and should not wait for reports
CLEAN_EVERY_S: Final = 3600.0  # the interval at which expired runs are removed
STORE_RETRY_S: Final = 1.0
STORE_RETRIES: Final = 300  # after this many failed tries of one write, the attempt ends and its lease expires
RELEASE_TIMEOUT_S: Final = 5.0
EARLY_FINISH_DELAY_S: Final = (
    10.0  # a new attempt first finds stored results, then repeats the early finish requested from an earlier attempt
)
END_TIMEOUT_S: Final = 5.0  # limits how long a stopping server waits until the last event is stored
MAX_STORED_CHARS: Final = 20_000_000  # of the events of one attempt; a report of 40 sources has some 1,000,000
TOO_LONG: Final = "The run has more than {most} MB of events: send a shorter text, or run it without `background`"
UNREADABLE: Final = "The stored request of this run cannot be read: send it again"
_COUNTED: Final = {
    "searched": "searched",
    "read": "read",
    "summarized": "summarized",
}  # fields of the progress, by event


@dataclass(frozen=True, slots=True)
class JobOptions:
    """Settings of the worker.

    - `max_running` is the number of reports at once, next to QUICK_PER_REPORT times as many other runs; 0 runs nothing.
    - `lease_s` is the duration of a lease, in seconds. When the lease of a dead process expires, any process can claim its run.
    - `poll_s` is the interval, in seconds, at which the worker looks for runs that other processes queued.
    - `flush_s` is the time, in seconds, for which events are collected before they are stored together.
    """

    max_running: int = 4
    lease_s: float = 15.0
    poll_s: float = 2.0
    flush_s: float = 0.1


class JobRunner(Protocol):
    """Carries out the background runs of one kind, such as crawls."""

    def stream(
        self, job: ClaimedJob, store_sources: StoreSources
    ) -> AsyncGenerator[research_events.ResearchEvent, None]:
        """Yield the events of the run. `store_sources` is called with its sources and their texts."""


@dataclass(frozen=True, slots=True)
class JobTools:
    """What all attempts share. `others` has the runner of each kind of run except research."""

    research: ResearchService
    store: IResearchJobStore
    options: JobOptions
    metrics: IMetrics = NO_METRICS
    others: Mapping[JobKind, JobRunner] = field(default_factory=dict)


class ResearchJobWorker:
    """Claims runs and runs them, from `start` until `aclose`.

    The worker looks for runs when `wake` is called and every `poll_s`, because another server may have queued a run or left
    one unfinished. `changed` is called with the key of a run after each stored batch of events, and when the run is lost.
    """

    def __init__(
        self, tools: JobTools, webhooks: WebhookService, changed: Callable[[JobKey], None], tracer: ITracer = NO_TRACER
    ) -> None:
        self._tools = tools
        self._store, self._options, self._metrics = tools.store, tools.options, tools.metrics
        self._webhooks = webhooks
        self._changed = changed
        self._tracer = tracer
        self._running: dict[JobKey, tuple[ClaimedJob, asyncio.Task[None]]] = {}
        self._early_finishes: dict[JobKey, EarlyFinish] = {}  # of the runs in `_running`
        self._suspect: asyncio.Task[None] | None = (
            None  # at most one suspect runs at a time: if the process died with two, both would be blamed
        )
        self._make_page_charge: Callable[[str], Charge] | None = None
        self._only: JobSelection | None = None
        self._work = asyncio.Event()
        self._loops: list[asyncio.Task[None]] = []
        self._store_failed = False
        self._is_closing = False

    def start(self, make_page_charge: Callable[[str], Charge] | None = None, only: JobSelection | None = None) -> None:
        """Begin to work; a second call does nothing. `make_page_charge` and `only` are described in ResearchJobService."""
        self._make_page_charge = make_page_charge or self._make_page_charge
        if not self._loops and not self._is_closing and self._options.max_running:
            self._only = only
            work = [self._run_loop()] if only else [self._run_loop(), self._webhooks.run()]
            with running(NO_SPAN):  # keeps the work of the loops out of the trace of the request that starts them
                self._loops = [asyncio.create_task(loop) for loop in work]

    def wake(self) -> None:
        """Look for queued runs now."""
        self._work.set()

    def is_running(self, key: JobKey) -> bool:
        return key in self._running

    def interrupt(self, key: JobKey) -> None:
        """Stop a run that was cancelled in the store."""
        if key in self._running:
            self._running[key][1].cancel()

    def finish_early(self, key: JobKey) -> None:
        """Let a run write from what it has found so far."""
        if key in self._early_finishes:
            self._early_finishes[key].ask()

    async def stop(self, key: JobKey) -> None:
        """Stop a run that was removed from the store, and wait for its end, after which it writes nothing."""
        if key in self._running:
            await cancel_and_wait(self._running[key][1])

    async def aclose(self) -> None:
        """Stop, and put the runs that have not ended back into the queue."""
        self._is_closing = True
        self._work.set()
        if self._loops:  # a claim that is cancelled leaves a run that nobody has until its lease expires
            await asyncio.wait(self._loops[:1], timeout=RELEASE_TIMEOUT_S)
        running = list(self._running.values())
        await cancel_and_wait(*self._loops, *(task for _, task in running))
        with suppress(TimeoutError, StoreError):  # a run that cannot be released is free when its lease expires
            async with asyncio.timeout(RELEASE_TIMEOUT_S):
                for job, task in running:
                    if not task.cancelled():
                        continue
                    await self._store.release(job)
                    self._metrics.count(RESEARCH_JOBS_ENDED, "released")

    async def _run_loop(self) -> None:
        loop, clean_at = asyncio.get_running_loop(), 0.0
        while not self._is_closing:
            self._work.clear()
            try:
                most = self._options.max_running
                await self._claim(is_report=False, most=QUICK_PER_REPORT * most)
                await self._claim(is_report=True, most=most)
                if self._is_closing:
                    return
                if loop.time() >= clean_at:
                    await self._store.clean()
                    clean_at = loop.time() + CLEAN_EVERY_S
                for status, count in (await self._store.counts()).items():
                    self._metrics.set(RESEARCH_JOBS, count, status)
                self._store_failed = False
            except StoreError as error:
                if not self._store_failed:
                    log.warning("background runs wait for the store", extra={"reason": error.message})
                self._store_failed = True
            except Exception as error:  # a defect must not stop the background runs for ever
                log.error("unexpected error", exc_info=error)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._options.poll_s):
                    await self._work.wait()

    async def _claim(self, *, is_report: bool, most: int) -> None:
        def count() -> int:
            return sum((job.request.depth == "report") is is_report for job, _ in self._running.values())

        while not self._is_closing and count() < most:
            job = await self._store.claim(
                uuid.uuid4().hex,
                self._options.lease_s,
                is_report,
                held=[job.number for job, _ in self._running.values()],
                leaves_suspects=self._suspect is not None,
                only=self._only,
            )
            if job is None:
                return
            key = (job.owner, job.id)
            task = asyncio.create_task(self._run(job))
            self._running[key] = job, task
            if job.is_suspect and not job.is_given_up:
                self._suspect = task
            task.add_done_callback(partial(self._forget, key))

    def _forget(self, key: JobKey, ended: asyncio.Task[None]) -> None:
        """Remove an attempt that has ended, but not a later attempt at a run that lost its lease and was claimed again."""
        if key in self._running and self._running[key][1] is ended:
            del self._running[key]
        self._release_suspect(ended)
        self._work.set()

    def _release_suspect(self, task: asyncio.Task[None] | None) -> None:
        """Allow the next suspect run to start, because this one has ended or made progress."""
        if self._suspect is task:
            self._suspect = None
            self._work.set()

    async def _run(self, job: ClaimedJob) -> None:
        set_api_key_label(job.label)
        set_current_caller(job.owner)
        set_page_charge(self._make_page_charge(job.owner) if self._make_page_charge else None)
        key = (job.owner, job.id)
        changed, early_finish = partial(self._changed, key), EarlyFinish()
        attempt = _Attempt(
            job, self._tools, changed, early_finish, partial(self._release_suspect, asyncio.current_task())
        )
        self._early_finishes[key] = early_finish
        if job.is_given_up:
            log.error(
                "background run given up", extra={"research": job.id, "reason": ResearchInterruptedError().message}
            )
        else:
            log.info("background run started", extra={"research": job.id, "attempt": job.attempts})
        span = self._tracer.start(JOB_SPAN, JOB_SPAN.name, {"traceparent": job.traceparent}, link=True)
        span.set(REQUEST_ID, job.id)
        span.set(ATTEMPT, job.attempts)
        try:
            with running(span):
                result = await attempt.run()
        except asyncio.CancelledError:
            if not self._is_closing:
                self._metrics.count(RESEARCH_JOBS_ENDED, CANCELLED)
            raise
        finally:
            span.end(attempt.code)
            if self._early_finishes.get(key) is early_finish:
                del self._early_finishes[key]
        await self._tools.research.forget(
            job.id, owner=job.owner
        )  # the store has the run, or another server deleted it
        if result == LOST:
            changed()
        log.info("background run ended", extra={"research": job.id, "result": result})
        self._metrics.count(RESEARCH_JOBS_ENDED, result)
        self._webhooks.wake()


class _Attempt:
    """One attempt at a run: stores its events in batches, and renews its lease.

    `code` is "ok", "lost", "cancelled" or an error code, once the attempt has ended.
    """

    def __init__(
        self,
        job: ClaimedJob,
        tools: JobTools,
        changed: Callable[[], None],
        early_finish: EarlyFinish,
        on_suspicion_cleared: Callable[[], None],
    ) -> None:
        self._job = job
        self._tools = tools
        self._store, self._options, self._metrics = tools.store, tools.options, tools.metrics
        self._changed = changed
        self._early_finish = early_finish
        self._on_trusted = on_suspicion_cleared
        self._is_suspect = job.is_suspect
        self._last_number = job.last_event
        self._stored_chars = 0
        self._progress = ResearchProgress()
        self._pending: list[research_events.ResearchEvent] = []
        self._has_pending = asyncio.Event()
        self._has_ended = False
        self.code = CANCELLED

    async def run(self) -> str:
        """Run to the end. Return the type of the last event (done or failed), or "lost"."""
        tasks = [asyncio.create_task(work) for work in (self._follow(), self._write())]
        _, writing = tasks
        if self._job.is_finish_asked:
            tasks.append(asyncio.create_task(self._repeat_early_finish()))
        with running(NO_SPAN):  # renewals every few seconds would fill the trace
            tasks.append(asyncio.create_task(self._renew()))
        try:
            while not writing.done():
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
                tasks = [task for task in tasks if not task.done()]
        except LeaseLostError:
            self.code = LOST
            return self.code
        except asyncio.CancelledError:
            if self._has_ended:  # the run was paid for, so its end is stored before the server stops
                await asyncio.wait([writing], timeout=END_TIMEOUT_S)
            if not writing.done() or writing.exception() is not None:
                raise
        finally:
            await cancel_and_wait(*tasks)
        return self._progress.step or ""

    async def _follow(self) -> None:
        """Collect the events of the run. An error becomes its last event."""
        job = self._job
        if job.is_given_up:
            self._fail(ResearchInterruptedError())
            return
        if not job.is_readable:
            self._fail(BackgroundError(UNREADABLE))
            return
        try:
            async with aclosing(self._stream_events()) as events:
                async for event in events:
                    self._add(event)
        except AppException as error:
            self._fail(error)
        except LeaseLostError:
            raise
        except (
            Exception
        ) as error:  # the outermost handler of a background run: a defect in one must not stop the others
            log.error("unexpected error", exc_info=error)
            self._fail(AppException("Internal error: search the server log for the id of this research run."))

    def _stream_events(self) -> AsyncGenerator[research_events.ResearchEvent, None]:
        job = self._job
        if runner := self._tools.others.get(job.kind):
            return runner.stream(job, self._store_sources)
        return self._tools.research.stream(
            job.request,
            request_id=job.id,
            owner=job.owner,
            store_sources=self._store_sources,
            early_finish=self._early_finish,
            on_progress=self._clear_suspicion,
        )

    async def _clear_suspicion(self) -> None:
        """Clear the count of attempts whose worker vanished, because this attempt has got further than they did."""
        if self._is_suspect:
            self._is_suspect = False
            await self._retry(lambda: self._store.clear_unclean_ends(self._job))
            self._on_trusted()

    def _add(self, event: research_events.ResearchEvent) -> None:
        if isinstance(event, research_events.Started) and self._job.last_event:
            event = research_events.Reset(request_id=event.request_id, reason=INTERRUPTED)
        self._pending.append(event)
        self._has_ended = isinstance(event, research_events.LastEvent)
        self._has_pending.set()

    def _fail(self, error: AppException) -> None:
        self._add(self._build_failed_event(error))

    def _build_failed_event(self, error: AppException) -> research_events.Failed:
        problem = error.problem(instance=f"/research/{self._job.id}", request_id=self._job.id)
        return research_events.Failed(request_id=self._job.id, problem=problem)

    async def _store_sources(self, sources: tuple[Source, ...]) -> None:
        sources_to_store = StoredSources(sources=sources)
        await self._retry(lambda: self._store.put_sources(self._job, sources_to_store))

    async def _write(self) -> None:
        """Store the events in batches, until the last one is stored."""
        while True:
            await self._has_pending.wait()
            await asyncio.sleep(self._options.flush_s)
            self._has_pending.clear()
            batch, self._pending = self._pending, []
            events = [self._number_event(event) for event in batch]
            last = batch[-1]
            self._stored_chars += sum(len(event.data) for event in events)
            if self._stored_chars > MAX_STORED_CHARS:
                last = self._build_failed_event(BackgroundError(TOO_LONG.format(most=MAX_STORED_CHARS // 1_000_000)))
                self._last_number -= len(events)
                events = [self._number_event(last)]
            if isinstance(last, research_events.LastEvent):
                await self._retry(lambda: self._store.finish(self._job, last.type, events, self._progress))  # noqa: B023
            else:
                await self._retry(lambda: self._store.append(self._job, events, self._progress))  # noqa: B023
            self._changed()
            if isinstance(last, research_events.Done):
                for entry in last.response.degraded:
                    self._metrics.count(DEGRADED_ANSWERS, entry.component)
            if isinstance(last, research_events.LastEvent):
                self.code = last.problem["code"] if isinstance(last, research_events.Failed) else OK
                return

    def _number_event(self, event: research_events.ResearchEvent) -> JobEvent:
        changes: dict[str, object] = {} if isinstance(event, research_events.ModelProgressed) else {"step": event.type}
        if isinstance(event, research_events.Planned):
            changes["planned"] = len(event.questions)
        elif event.type in _COUNTED:
            name = _COUNTED[event.type]
            changes[name] = getattr(self._progress, name) + 1
        self._progress = self._progress.model_copy(update=changes)
        self._last_number += 1
        return JobEvent(self._last_number, event.type, event.model_dump_json())

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._options.lease_s / RENEWALS_PER_LEASE)
            is_asked = await self._retry(lambda: self._store.renew(self._job, self._options.lease_s))
            if is_asked and not self._job.is_finish_asked:
                self._early_finish.ask()

    async def _repeat_early_finish(self) -> None:
        """Repeat, after EARLY_FINISH_DELAY_S seconds, the early finish that the caller requested from an earlier attempt."""
        await asyncio.sleep(EARLY_FINISH_DELAY_S)
        self._early_finish.ask()

    async def _retry(self, write: Callable[[], Awaitable[Result]]) -> Result:
        """Return the result of a write, repeated while the store fails. Raises LeaseLostError after STORE_RETRIES tries."""
        for _ in range(STORE_RETRIES):
            try:
                return await write()
            except StoreError:
                await asyncio.sleep(STORE_RETRY_S)
        raise LeaseLostError
