"""Run the watches that are due, each run once, whichever process claims it.

A worker claims a watch for some seconds, and asks its question as a background run. The id of this run is derived from the watch
and the number of the run, so a run that has already been requested is found again. When the run has ended, whoever claims the
watch compares it with the run before, and stores changes, notices and the plan of the next run at once.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from modules.llm_platform.application.services.research_job_service import ResearchJobService
from modules.llm_platform.application.services.watch_notices import WatchNotices
from modules.llm_platform.domain.callers.api_key_label import set_api_key_label
from modules.llm_platform.domain.callers.current_caller import set_current_caller
from modules.llm_platform.domain.concurrency.page_allowance import Charge
from modules.llm_platform.domain.concurrency.stoppable import StopSignal, run_stoppable
from modules.llm_platform.domain.concurrency.task_group import cancel_and_wait
from modules.llm_platform.domain.dtos import watch_dtos as dtos
from modules.llm_platform.domain.dtos.request_dtos import MAX_URLS, ResearchRequest
from modules.llm_platform.domain.dtos.research_job_dtos import ResearchJobDetail
from modules.llm_platform.domain.exceptions import ResearchNotFoundError, ResearchQueueFullError, StoreError
from modules.llm_platform.domain.ports.metrics import NO_METRICS, IMetrics
from modules.llm_platform.domain.ports.research_job_store import JobSelection
from modules.llm_platform.domain.ports.tracing import NO_SPAN, NO_TRACER, ITracer, running
from modules.llm_platform.domain.ports.watch_store import (
    IWatchStore,
    WatchLeaseLostError,
    WatchSelection,
    WatchUnreadableError,
)
from modules.llm_platform.domain.telemetry.metrics import OK, WATCH_RUNS, WATCHES
from modules.llm_platform.domain.telemetry.spans import REQUEST_ID, WATCH_SPAN
from modules.llm_platform.domain.urls.canonical_url import is_web_url
from modules.llm_platform.domain.watches.carry_over import MAX_FACTS, carry_over
from modules.llm_platform.domain.watches.compare import compare_readings
from modules.llm_platform.domain.watches.page_versions import PagePairs
from modules.llm_platform.domain.watches.schedule import plan_next_run
from shared.exceptions import AppException

log = logging.getLogger(__name__)

LEASE_S: Final = 120.0  # to ask, or to compare two runs, which takes seconds
COMPARE_S: Final = 60.0  # less than the lease: another worker would begin the same comparison again
POLL_S: Final = 5.0
BUSY_POLL_S: Final = 1.0  # while a run that this process asked for has not ended
FIRST_LOOK_S: Final = 1.0
LAST_LOOK_S: Final = 30.0
QUEUE_FULL_S: Final = 60.0
LIMITED_S: Final = 60.0  # minimum wait after a rate limit, so that many watches do not retry all the time
COUNT_EVERY_S: Final = 30.0
END_TIMEOUT_S: Final = 5.0  # limits how long a stopping process waits for the watch that it works on
LOST: Final = "lost"
FIRST: Final = "first"
SAME: Final = "same"
CHANGED: Final = "changed"
FAILED: Final = "failed"
STOPPED: Final = "stopped"
UNREADABLE: Final = "The stored question cannot be read: remove this watch, and add it again."
RUN_REMOVED: Final = "Its run was removed."
TOO_MUCH: Final = f"The pages differ too much to be compared within {COMPARE_S:g} seconds: watch fewer pages."
DEFECT: Final = "Internal error: search the server log for the id of this watch."


@dataclass(frozen=True, slots=True)
class WatchTools:
    """The parts that a worker uses.

    `estimate_cost` returns the highest cost of a run in US dollars; None if prices are unknown. This amount is charged if the
    actual cost of a run is unknown, for example after a call that timed out.
    """

    store: IWatchStore
    jobs: ResearchJobService
    notices: WatchNotices
    metrics: IMetrics = NO_METRICS
    tracer: ITracer = NO_TRACER
    estimate_cost: Callable[[ResearchRequest], float | None] = lambda request: None


def select_pages(urls: tuple[str, ...], reading: dtos.WatchReading | None, *, are_all: bool) -> dtos.WatchedPages:
    """Return the pages that a run reads first: the addresses of the watch, then the pages of its facts, then other pages.

    At most MAX_REREAD_PAGES pages are added to the addresses of the watch; none with `are_all`, or without an earlier `reading`.
    """
    if are_all or reading is None:
        return dtos.WatchedPages(urls=urls, are_all=are_all)
    pages = (*(fact.url for fact in reading.facts), *(s.url for s in reading.sources if s.text_kind != "snippet"))
    further = [url for url in dict.fromkeys(pages) if url not in urls][: dtos.MAX_REREAD_PAGES]
    return dtos.WatchedPages(urls=(*urls, *further))


def build_request(watch: dtos.ClaimedWatch, pages: dtos.WatchedPages) -> ResearchRequest:
    """Return the request of a run. Only the request of a report is changed.

    It is `fresh`, gets the pages as `urls`, and may spend the dollars that the watch has left.
    """
    request = watch.request
    if request.depth != "report":
        return request
    left = None if watch.max_cost_usd is None else max(0.0, watch.max_cost_usd - watch.cost_usd)
    changes: dict[str, object] = {"fresh": True, "urls": tuple(filter(is_web_url, pages.urls))[:MAX_URLS]}
    if not pages.are_all:
        changes["sources"] = request.sources  # set explicitly, so that the report also searches
    return request.model_copy(update={**changes, "max_cost_usd": left})


class WatchWorker:
    """Works on due watches and notices, from `start` until `aclose`."""

    def __init__(self, tools: WatchTools) -> None:
        self._tools = tools
        self._store, self._metrics = tools.store, tools.metrics
        self._due = asyncio.Event()
        self._loop: asyncio.Task[None] | None = None
        self._busy_until = 0.0  # event loop time until which the shorter poll interval applies
        self._is_closing = False
        self._store_failed = False
        self._only: WatchSelection | None = None
        self._make_page_charge: Callable[[str], Charge] | None = None
        self._delivers = True
        self._delivery: asyncio.Task[None] | None = None
        self._stopped = 0  # number of active watches that this worker does not run, at the last count

    def start(
        self,
        only: WatchSelection | None = None,
        make_page_charge: Callable[[str], Charge] | None = None,
        runs: JobSelection | None = None,
    ) -> None:
        """Begin to work; a second call does nothing. `only` and `make_page_charge` are described in WatchService.

        With `runs`, this process carries out these background runs and no others, and the caller delivers the notices.
        """
        if self._loop is None and not self._is_closing:
            self._only, self._make_page_charge, self._delivers = only, make_page_charge, runs is None
            with running(NO_SPAN):  # keeps the work out of the trace of the request that starts it
                self._loop = asyncio.create_task(self._run_loop())
            self._tools.jobs.start(only=runs)

    def wake(self) -> None:
        """Look for due watches now."""
        self._due.set()

    async def wait_for_delivery(self) -> None:
        """Wait until this worker has tried the notices that it is delivering now."""
        if self._delivery is not None:
            await asyncio.wait([self._delivery])

    async def aclose(self) -> None:
        """Stop when the watch that is being worked on has been stored, or after END_TIMEOUT_S."""
        self._is_closing = True
        self._due.set()
        if self._loop is not None:
            await asyncio.wait([self._loop], timeout=END_TIMEOUT_S)
            await cancel_and_wait(self._loop)

    async def _run_loop(self) -> None:
        loop, count_at = asyncio.get_running_loop(), 0.0
        try:
            while not self._is_closing:
                self._due.clear()
                try:
                    await self._work()
                    if self._delivers and (self._delivery is None or self._delivery.done()):
                        self._delivery = asyncio.create_task(self._deliver())
                    if loop.time() >= count_at:
                        await self._count_watches()
                        count_at = loop.time() + COUNT_EVERY_S
                    self._store_failed = False
                except StoreError as error:
                    if not self._store_failed:
                        log.warning("watched questions wait for the store", extra={"reason": error.message})
                    self._store_failed = True
                except Exception as error:  # a defect must not stop the watches for ever
                    log.error("unexpected error", exc_info=error)
                if self._is_closing:
                    return
                with suppress(TimeoutError):
                    async with asyncio.timeout(BUSY_POLL_S if loop.time() < self._busy_until else POLL_S):
                        await self._due.wait()
        finally:
            if self._delivery is not None:
                await cancel_and_wait(self._delivery)

    async def _count_watches(self) -> None:
        """Set the metric of watches by state. Watches of unknown callers count as `stopped`. Raises StoreError."""
        of_all, stopped = await self._store.count(), 0
        if self._only is not None and self._only.ids is None:
            stopped = of_all["active"] - (await self._store.count(self._only))["active"]
        self._metrics.set(WATCHES, of_all["active"] - stopped, "active")
        self._metrics.set(WATCHES, of_all["paused"], "paused")
        self._metrics.set(WATCHES, stopped, STOPPED)
        if stopped and stopped != self._stopped:
            log.warning("watched questions do not run: their API key is not set", extra={"watches": stopped})
        self._stopped = stopped

    async def _deliver(self) -> None:
        """Deliver the due notices while the loop continues, because receivers may hang."""
        try:
            await self._tools.notices.deliver_due(self._only)
        except StoreError:
            pass  # the loop logs it
        except Exception as error:  # a defect must not stop the notices for ever
            log.error("unexpected error", exc_info=error)

    async def _work(self) -> None:
        """Work on the watches that are due now. Raises StoreError."""
        while not self._is_closing:
            try:
                watch = await self._store.claim(uuid.uuid4().hex, LEASE_S, self._only)
            except WatchUnreadableError as error:
                log.error("a stored question cannot be read", extra={"watch": error.watch.id})
                await self._end(error.watch, UNREADABLE)
                continue
            if watch is None:
                return
            # A task for each watch, because the label and the caller belong to the context of the task.
            task = asyncio.create_task(self._advance(watch))
            try:
                await asyncio.shield(task)
            finally:
                await cancel_and_wait(task)

    async def _advance(self, watch: dtos.ClaimedWatch) -> None:
        """Ask the question of a watch, or look at the run that was asked for. Raises StoreError."""
        set_api_key_label(watch.label)
        set_current_caller(watch.owner)
        try:
            await self._start_or_finish_run(watch)
        except WatchLeaseLostError:
            self._metrics.count(WATCH_RUNS, LOST)
        except StoreError:
            raise
        except AppException as error:
            await self._end(watch, error.message)
        except Exception as error:  # a defect in one watch must not stop the others
            log.error("unexpected error", exc_info=error, extra={"watch": watch.id})
            await self._end(watch, DEFECT)

    async def _start_or_finish_run(self, watch: dtos.ClaimedWatch) -> None:
        job = await self._find_job(watch)
        if job is None and watch.is_asked:
            await self._end(watch, RUN_REMOVED)
        elif job is None:
            await self._ask(watch)
        elif job.finished_at is None:
            waited_s = (datetime.now(UTC) - job.created_at).total_seconds()
            await self._reschedule(watch, min(LAST_LOOK_S, max(FIRST_LOOK_S, waited_s / 4)))
        else:
            await self._finish(watch, job)

    async def _find_job(self, watch: dtos.ClaimedWatch) -> ResearchJobDetail | None:
        """Return the run that was asked for; None if none was, or if it was deleted."""
        if not watch.is_asked:
            return None
        try:
            return await self._tools.jobs.get(watch.job_id, owner=watch.owner)
        except ResearchNotFoundError:
            return None

    async def _ask(self, watch: dtos.ClaimedWatch) -> None:
        """Ask the question. A worker that is killed before `wait` leaves a run that the next worker finds by its id."""
        if self._make_page_charge is not None and (wait_s := await self._make_page_charge(watch.owner)()):
            await self._reschedule(watch, max(wait_s, LIMITED_S), is_asked=False)
            return
        reading = await self._store.get_reading(watch)
        pages = select_pages(watch.urls, reading, are_all=watch.is_only_urls)
        try:
            await self._tools.jobs.submit_watched(
                build_request(watch, pages), pages, research_id=watch.job_id, owner=watch.owner
            )
        except ResearchQueueFullError:
            await self._reschedule(watch, QUEUE_FULL_S, is_asked=False)
            return
        log.info("watched question asked", extra={"watch": watch.id, "run": watch.run, "research": watch.job_id})
        try:
            await self._reschedule(watch, FIRST_LOOK_S)
        except WatchLeaseLostError:
            await self._cancel_orphan(watch)
            raise

    async def _cancel_orphan(self, watch: dtos.ClaimedWatch) -> None:
        """Cancel the run of a watch that was removed while its question was asked."""
        if await self._store.get(watch.owner, watch.id) is None:
            with suppress(ResearchNotFoundError):
                await self._tools.jobs.cancel(watch.job_id, owner=watch.owner)

    async def _reschedule(self, watch: dtos.ClaimedWatch, delay_s: float, *, is_asked: bool = True) -> None:
        """Release the watch. In `delay_s` seconds, any process can claim it again to look at its run."""
        self._busy_until = max(self._busy_until, asyncio.get_running_loop().time() + delay_s + 2 * BUSY_POLL_S)
        await self._store.wait(watch, delay_s, is_asked=is_asked)

    async def _finish(self, watch: dtos.ClaimedWatch, job: ResearchJobDetail) -> None:
        """Compare a run that has ended with the run before, and store what changed."""
        if job.response is None:
            problem: Mapping[str, Any] = job.problem or {}
            await self._end(watch, str(problem.get("detail") or f"The run was {job.status}."))
            return
        span = self._tools.tracer.start(WATCH_SPAN, WATCH_SPAN.name, {})
        span.set(REQUEST_ID, job.id)
        try:
            with running(span):
                was = await self._store.get_reading(watch)
                now = dtos.WatchReading.model_validate(job.response.output)
                signal = StopSignal()
                async with asyncio.timeout(COMPARE_S):
                    changes, kept = await run_stoppable(signal, partial(_compare, was, now, signal.check))
        except TimeoutError:
            await self._end(watch, TOO_MUCH)
            return
        finally:
            span.end(OK)
        cost_usd = job.response.metadata.cost_usd
        if cost_usd is None:
            cost_usd = self._tools.estimate_cost(watch.request) or 0.0
        following = plan_next_run(watch, "done", cost_usd)
        run = dtos.WatchRun(
            number=watch.run,
            job_id=job.id,
            at=datetime.now(UTC),
            status="done",
            cost_usd=cost_usd,
            facts=now.facts[:MAX_FACTS],
        )
        await self._store.finish(watch, run, changes, kept, following, self._list_notices(watch, changes, following))
        self._end_run(watch, FIRST if was is None else CHANGED if changes else SAME)

    async def _end(self, watch: dtos.ClaimedWatch, problem: str) -> None:
        """Store a run that failed. The reading that the next run is compared with stays."""
        following = plan_next_run(watch, "failed", 0.0)
        run = dtos.WatchRun(
            number=watch.run, job_id=watch.job_id, at=datetime.now(UTC), status="failed", problem=problem
        )
        try:
            await self._store.finish(watch, run, (), None, following, self._list_notices(watch, (), following))
        except WatchLeaseLostError:
            self._metrics.count(WATCH_RUNS, LOST)
        else:
            self._end_run(watch, FAILED)

    def _list_notices(
        self, watch: dtos.ClaimedWatch, changes: tuple[dtos.WatchChange, ...], following: dtos.NextRun
    ) -> tuple[dtos.NoticeChannel, ...]:
        """Return the channels that notify the owner; none if nothing has changed and the watch continues."""
        is_notified = changes or following.paused_because is not None
        return self._tools.notices.list_channels(watch.webhook) if is_notified else ()

    def _end_run(self, watch: dtos.ClaimedWatch, result: str) -> None:
        self._metrics.count(WATCH_RUNS, result)
        log.info("watched question compared", extra={"watch": watch.id, "run": watch.run, "result": result})


def _compare(
    was: dtos.WatchReading | None, now: dtos.WatchReading, check_stop: Callable[[], None]
) -> tuple[tuple[dtos.WatchChange, ...], dtos.WatchReading]:
    """Return what changed, and what the next run is compared with."""
    if was is None:
        return (), now
    pages = PagePairs(was, now, check_stop)  # shared, because reading them takes most of the time
    return compare_readings(was, now, pages), carry_over(was, now, pages)
