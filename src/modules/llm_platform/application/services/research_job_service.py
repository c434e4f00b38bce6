"""Queue background runs, and let their owner follow, cancel and list them (docs/howto/run-long-researches.md)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, TypeVar
from weakref import WeakValueDictionary

from modules.llm_platform.application.research.events import Done, Failed, ResearchEvent, Verified
from modules.llm_platform.application.research.write.stopped_text import check_stopped_text
from modules.llm_platform.application.services.research_job_worker import (
    JobKey,
    JobOptions,
    JobRunner,
    JobTools,
    ResearchJobWorker,
)
from modules.llm_platform.application.services.research_service import ResearchService
from modules.llm_platform.application.services.verification_job import make_stored_response, make_verification_job
from modules.llm_platform.application.services.webhook_service import WebhookService
from modules.llm_platform.domain import exceptions
from modules.llm_platform.domain.callers.api_key_label import api_key_label
from modules.llm_platform.domain.callers.list_cursor import ListCursor, parse_cursor, write_cursor
from modules.llm_platform.domain.callers.request_id import is_request_id, new_request_id
from modules.llm_platform.domain.concurrency.page_allowance import Charge
from modules.llm_platform.domain.dtos import research_job_dtos as dtos
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest, ShortMessage
from modules.llm_platform.domain.dtos.request_type import require_request
from modules.llm_platform.domain.dtos.site_crawl_dtos import SiteCrawlRequest
from modules.llm_platform.domain.dtos.source_dtos import StoredSources
from modules.llm_platform.domain.dtos.verification_dtos import VerificationJob, VerificationRequest, VerifiedAgain
from modules.llm_platform.domain.dtos.watch_dtos import WatchedPages
from modules.llm_platform.domain.dtos.web_search_dtos import MAX_QUERY_CHARS
from modules.llm_platform.domain.ports.metrics import NO_METRICS, IMetrics
from modules.llm_platform.domain.ports.research_job_store import IResearchJobStore, JobSelection
from modules.llm_platform.domain.ports.tracing import NO_TRACER, ITracer, current_trace_headers

Stored = TypeVar("Stored")

log = logging.getLogger(__name__)

MAX_QUEUED: Final = 1000  # waiting runs of one owner
EVENT_BATCH_SIZE: Final = 200
LOCAL_POLL_S: Final = 10.0  # long, because a run in this process also reports each change itself
REMOTE_POLL_S: Final = 1.0
TOO_SHORT: Final = "the message is too short to research in the background: send a question"
NO_FILES: Final = "files are not stored, so a background run cannot use them: remove background or files"
NOT_STORED: Final = Degraded(
    component="store",
    reason="store: the answer could not be stored, so it has no address and no thread: keep it, or ask again later",
)
WRITES_NOTHING: Final = "only a research run can write from what it has so far: cancel this run, or wait for its end"
NO_OTHERS: Final[Mapping[dtos.JobKind, JobRunner]] = {}
VERIFICATION_TITLE: Final = "Verification of a text"
NO_STORE: Final = "background runs need the store, which is disabled: set STORE_TTL_DAYS to more than 0"


class ResearchJobService:
    """Research runs that outlive the request and the process.

    - `store` is None if nothing may be stored.
    - `owner` is the only caller that may see a run. For any other caller, its id does not exist.
    - Runs are carried out after `start` or the first submitted run. `aclose` puts unfinished runs back into the queue.
    """

    def __init__(
        self,
        research: ResearchService,
        store: IResearchJobStore | None,
        webhooks: WebhookService | None,
        options: JobOptions = JobOptions(),  # noqa: B008  frozen
        metrics: IMetrics = NO_METRICS,
        tracer: ITracer = NO_TRACER,
        others: Mapping[dtos.JobKind, JobRunner] = NO_OTHERS,
    ) -> None:
        """Create the service. `others` has the runner of each kind of run except research."""
        self._research = research
        self._store = store
        self._webhooks = webhooks
        # The events that followers wait for. Only followers hold them, so that nothing is left when the last one leaves.
        self._changes: WeakValueDictionary[JobKey, asyncio.Event] = WeakValueDictionary()
        self._worker: ResearchJobWorker | None = None
        if store is not None and webhooks is not None:
            tools = JobTools(research, store, options, metrics, others)
            self._worker = ResearchJobWorker(tools, webhooks, self._notify, tracer)

    @property
    def is_available(self) -> bool:
        """True if runs can be queued and stored."""
        return self._worker is not None

    def start(self, make_page_charge: Callable[[str], Charge] | None = None, only: JobSelection | None = None) -> None:
        """Work on the queue in this process, including runs that an earlier process left there.

        - `make_page_charge` returns the function that charges a caller for the pages of its runs; None means no limit.
        - With `only` this process works on these runs, and sends no webhooks.
        """
        if self._worker is not None:
            self._worker.start(make_page_charge, only)

    async def aclose(self) -> None:
        """Stop working, and put the running runs back into the queue."""
        if self._worker is not None:
            await self._worker.aclose()

    async def submit(
        self,
        request: ResearchRequest,
        *,
        webhook: str | None = None,
        owner: str = "",
        api: str = "",
        client_request: Mapping[str, Any] | None = None,
        research_id: str | None = None,
        thread_id: str | None = None,
    ) -> dtos.ResearchJobDetail:
        """Queue a research run durably, and return it.

        - `webhook` is an address to notify when the run ends.
        - `api` names the compatible API that took the request, and `client_request` is what it stores of that request.
        - `research_id` is the id of the run if the caller makes it. An existing run of the caller with this id is returned
          as it is.
        - `thread_id` is the id of a run. The new run joins the thread of that run without being a follow-up question.

        Raises BackgroundError or WebhookError if the run is not possible with these settings, ResearchQueueFullError,
        PreviousResearchNotFoundError, StoreError, and the errors of `ResearchService.check`.
        """
        require_request(request, ResearchRequest)
        if self._store is None or self._worker is None or self._webhooks is None:
            raise exceptions.BackgroundError(NO_STORE)
        if isinstance(request, ShortMessage):
            raise exceptions.BackgroundError(TOO_SHORT)
        if request.files:
            raise exceptions.BackgroundError(NO_FILES)
        self._research.check(request)
        request = await self._add_turns(request, owner)  # stored turns may expire while the run waits
        if webhook is not None:
            await self._webhooks.check(webhook)
        job = replace(
            _make_job(request, owner, research_id),
            webhook=webhook,
            thread_id=thread_id,
            api=api,
            client_request=client_request or {},
        )
        return await self._enqueue(job, may_exist=research_id is not None)

    async def submit_crawl(self, crawl: SiteCrawlRequest, *, api: str, owner: str = "") -> dtos.ResearchJobDetail:
        """Queue a crawl durably. It is a run whose sources are the pages of the site, and which writes no answer.

        Raises BackgroundError, ResearchQueueFullError, StoreError.
        """
        job = _make_job(ResearchRequest(query=crawl.url[:MAX_QUERY_CHARS]), owner)
        return await self._enqueue(replace(job, api=api, client_request={dtos.CRAWL: crawl.model_dump(mode="json")}))

    async def submit_watched(
        self, request: ResearchRequest, pages: WatchedPages, *, research_id: str, owner: str = ""
    ) -> dtos.ResearchJobDetail:
        """Queue a run of a watched question durably. An existing run of this id is returned as it is.

        Raises BackgroundError, ResearchQueueFullError, StoreError, and errors of settings that do not allow the request.
        """
        self._research.check(request)
        sent = {dtos.WATCH: pages.model_dump(mode="json")}
        job = replace(_make_job(request, owner, research_id), api=dtos.WATCH, client_request=sent)
        return await self._enqueue(job, may_exist=True)

    async def submit_verification(
        self, request: VerificationRequest, *, webhook: str | None = None, owner: str = ""
    ) -> VerificationJob:
        """Queue a verification durably. `webhook` is an address to notify when it ends.

        Raises BackgroundError, WebhookError, ResearchQueueFullError, StoreError.
        """
        if webhook is not None and self._webhooks is not None:
            await self._webhooks.check(webhook)
        sent = {dtos.VERIFY: request.model_dump(mode="json", include=set(VerificationRequest.model_fields))}
        job = _make_job(ResearchRequest(query=VERIFICATION_TITLE), owner)
        job = replace(job, webhook=webhook, api=dtos.VERIFY, client_request=sent)
        return make_verification_job(await self._enqueue(job))

    async def check_webhook(self, url: str) -> None:
        """Raise BackgroundError or WebhookError if no webhook can be sent to the address."""
        if self._webhooks is None:
            raise exceptions.BackgroundError(NO_STORE)
        await self._webhooks.check(url)

    async def report_changes(self, verified: VerifiedAgain, webhook: str, *, owner: str = "") -> None:
        """Store a comparison that found changes, and notify the address as if a run had ended. Raises StoreError."""
        if self._webhooks is None:
            raise exceptions.BackgroundError(NO_STORE)
        title, number = ResearchRequest(query=VERIFICATION_TITLE), verified.metadata.request_id
        job = dtos.NewResearchJob(number, title, owner, api_key_label(), webhook, api=dtos.VERIFY)
        done = Done(request_id=number, response=make_stored_response(title, verified))
        event = dtos.JobEvent(1, done.type, done.model_dump_json())
        await self._find_store(number).record(job, [event], None, verified.metadata.latency_ms / 1000)
        self.start()
        self._webhooks.wake()

    async def get_verification(self, job_id: str, *, owner: str = "") -> VerificationJob:
        """Return a background verification. Raises ResearchNotFoundError."""
        job = await self.get(job_id, owner=owner)
        if job.kind != "verification":
            raise exceptions.ResearchNotFoundError
        return make_verification_job(job)

    async def get_sources(self, research_id: str, *, owner: str = "") -> StoredSources:
        """Return the stored texts of the sources; empty until they are stored. Raises ResearchNotFoundError."""
        return await self._find_store(research_id).sources(owner, research_id) or StoredSources(sources=())

    async def _enqueue(self, job: dtos.NewResearchJob, *, may_exist: bool = False) -> dtos.ResearchJobDetail:
        """Queue a run, and return it. With `may_exist`, its id may belong to an earlier run, which is returned then."""
        if self._store is None or self._worker is None:
            raise exceptions.BackgroundError(NO_STORE)
        queued = await self._store.add(job, MAX_QUEUED)
        if queued is None:
            raise exceptions.ResearchQueueFullError
        self._worker.start()
        self._worker.wake()
        if may_exist:
            return await self.get(job.id, owner=job.owner)
        return dtos.ResearchJobDetail.model_validate(
            {**dict(queued), "request": job.request, "client_request": dict(job.client_request)}
        )

    @property
    def is_storing(self) -> bool:
        """True if research runs are stored: STORE_TTL_DAYS is not 0."""
        return self._store is not None

    async def record(
        self,
        request: ResearchRequest,
        events: Sequence[ResearchEvent],
        *,
        owner: str = "",
        api: str = "",
        client_request: Mapping[str, Any] | None = None,
        thread_id: str | None = None,
    ) -> bool:
        """Store a foreground run whose last event is Done, and return whether it is stored.

        An answer to a ShortMessage is not stored. A store that fails is logged and not raised: the answer was paid for, and
        is sent anyway.
        """
        done = events[-1]
        if self._store is None or not isinstance(done, Done) or isinstance(request, ShortMessage):
            return False
        try:
            with suppress(exceptions.PreviousResearchNotFoundError):  # the earlier run has expired meanwhile
                request = await self._add_turns(request, owner)
            job = dtos.NewResearchJob(
                id=done.request_id,
                request=_strip_request(request),
                owner=owner,
                label=api_key_label(),
                thread_id=thread_id,
                api=api,
                client_request=client_request or {},
            )
            await self._record_ended(job, events, done)
        except exceptions.StoreError as error:
            log.warning("an answer could not be stored", extra={"reason": error.message})
            return False
        return True

    async def _record_ended(self, job: dtos.NewResearchJob, events: Sequence[ResearchEvent], done: Done) -> None:
        """Store a run that has ended, with its sources, and remove it from the caches of this process."""
        numbered = [
            dtos.JobEvent(number, event.type, event.model_dump_json()) for number, event in enumerate(events, 1)
        ]
        sources = await self._research.get_stored_sources(job.id, owner=job.owner)
        await self._find_store(job.id).record(job, numbered, sources, done.response.metadata.latency_ms / 1000)
        await self._research.forget(job.id, owner=job.owner)

    async def delete(self, research_id: str, *, owner: str = "") -> None:
        """Stop a run, and remove everything that is stored of it. Raises ResearchNotFoundError."""
        _require_found(await self._find_store(research_id).delete(owner, research_id))
        await self._forget(research_id, owner)

    async def list_threads(
        self, *, owner: str = "", limit: int = 20, before: str | None = None, text: str = ""
    ) -> dtos.ResearchThreadPage:
        """Return a page of the owner's threads, the thread with the newest run first.

        - `limit` is the number of threads on a page, at most 100.
        - `before` is `next` of the page before, or an id; None for the first page.
        - `text` selects the threads whose title or one of whose questions contains it.

        Raises ResearchNotFoundError for the id of no thread.
        """
        if self._store is None:
            return dtos.ResearchThreadPage(threads=())
        if before is not None and self._parse_cursor(before).at is None:
            before = (await self.get_thread(before, owner=owner)).id
        limit = max(1, min(limit, dtos.MAX_LISTED))
        text = text.replace("\x00", "").strip()[: dtos.MAX_SEARCH_CHARS]
        found = await self._store.threads(owner, limit + 1, before, text or None)
        last = found[limit - 1] if len(found) > limit else None
        return dtos.ResearchThreadPage(
            threads=found[:limit], next=write_cursor(last.id, last.updated_at) if last else None
        )

    async def get_thread(self, research_id: str, *, owner: str = "") -> dtos.ResearchThreadDetail:
        """Return the thread of a run. Raises ResearchNotFoundError."""
        return _require_found(await self._find_store(research_id).thread(owner, research_id))

    async def rename_thread(self, research_id: str, title: str, *, owner: str = "") -> dtos.ResearchThreadDetail:
        """Give the thread of a run a title, and return the thread. Raises ResearchNotFoundError."""
        _require_found(await self._find_store(research_id).rename_thread(owner, research_id, title))
        return await self.get_thread(research_id, owner=owner)

    async def delete_thread(self, research_id: str, *, owner: str = "") -> dtos.ResearchThreadDetail:
        """Stop all runs of a run's thread, remove everything that is stored of them, and return the thread as it was.

        Raises ResearchNotFoundError.
        """
        found = await self.get_thread(research_id, owner=owner)
        for deleted_id in await self._find_store(research_id).delete_thread(owner, research_id):
            await self._forget(deleted_id, owner)
        return found

    async def get(self, research_id: str, *, owner: str = "") -> dtos.ResearchJobDetail:
        """Return a run, with its answer or problem if it has ended. Raises ResearchNotFoundError."""
        return _require_found(await self._find_store(research_id).get(owner, research_id))

    async def list(
        self, *, owner: str = "", limit: int = 20, before: str | None = None, api: str | None = None
    ) -> dtos.ResearchJobPage:
        """Return a page of the owner's runs, newest first.

        - `limit` is the number of runs on a page, at most 100.
        - `before` is `next` of the page before, or an id; None for the first page.
        - `api` selects the runs that came in through this compatible API.

        Raises ResearchNotFoundError for the id of no run.
        """
        if self._store is None:
            return dtos.ResearchJobPage(researches=())
        if before is not None and self._parse_cursor(before).at is None:
            await self.get(before, owner=owner)
        limit = max(1, min(limit, dtos.MAX_LISTED))
        found = await self._store.page(owner, limit + 1, before, api)
        last = found[limit - 1] if len(found) > limit else None
        return dtos.ResearchJobPage(
            researches=found[:limit], next=write_cursor(last.id, last.created_at) if last else None
        )

    async def cancel(self, research_id: str, *, owner: str = "") -> dtos.ResearchJobDetail:
        """Stop a run unless it has ended, and return its new state. Raises ResearchNotFoundError.

        The citations of the text that it has written so far are compared by words: the event `verified` comes before the last.
        """
        store = self._find_store(research_id)
        problem = exceptions.ResearchCancelledError().problem(
            instance=f"/research/{research_id}", request_id=research_id
        )
        verified = await self._check_text_so_far(research_id, owner)
        failed = Failed(request_id=research_id, problem=problem)
        events: Sequence[ResearchEvent] = (verified, failed) if verified else (failed,)
        stored = [dtos.JobEvent(0, event.type, event.model_dump_json()) for event in events]
        _require_found(await store.cancel(owner, research_id, *stored))
        if self._worker is not None:
            self._worker.interrupt((owner, research_id))
        self._notify((owner, research_id))
        return await self.get(research_id, owner=owner)

    async def _check_text_so_far(self, research_id: str, owner: str) -> Verified | None:
        """Return the verdicts on the text that a run has written so far; None if there is nothing to check."""
        store = self._find_store(research_id)
        job = await self.get(research_id, owner=owner)
        held = None if job.finished_at else await store.sources(owner, research_id)
        if held is None:
            return None
        events = await self.list_stored_events(research_id, owner=owner)
        return await asyncio.to_thread(check_stopped_text, research_id, events, held.sources, job.request.language)

    async def finish_early(self, research_id: str, *, owner: str = "") -> dtos.ResearchJobDetail:
        """Let a run stop searching and write from what it has found so far, and return its new state.

        A run that has found nothing searches until it has. A second call changes nothing.

        Raises ResearchNotFoundError, ResearchEndedError, and BackgroundError for a run that writes no answer.
        """
        job = await self.get(research_id, owner=owner)
        if job.kind != "research":
            raise exceptions.BackgroundError(WRITES_NOTHING)
        if not await self._find_store(research_id).ask_finish(owner, research_id):
            raise exceptions.ResearchEndedError
        if self._worker is not None:
            self._worker.finish_early((owner, research_id))
        return await self.get(research_id, owner=owner)

    async def has_events(self, research_id: str, *, owner: str = "", after: int = 0) -> bool:
        """Return whether an event after number `after` exists or may follow. Raises ResearchNotFoundError."""
        page = _require_found(await self._find_store(research_id).events(owner, research_id, after, 1))
        return bool(page.events) or not page.is_last

    async def list_stored_events(self, research_id: str, *, owner: str = "") -> Sequence[dtos.JobEvent]:
        """Return the events stored so far, without waiting for more. Raises ResearchNotFoundError."""
        store, found = self._find_store(research_id), list[dtos.JobEvent]()
        while True:
            page = _require_found(
                await store.events(owner, research_id, found[-1].number if found else 0, EVENT_BATCH_SIZE)
            )
            found.extend(page.events)
            if page.is_last or not page.events:
                return found

    async def events(self, research_id: str, *, owner: str = "", after: int = 0) -> AsyncGenerator[dtos.JobEvent, None]:
        """Yield the events after number `after` as they happen, up to `done` or `failed`.

        After a crash the run begins again: its events continue with `reset` (reason `interrupted`).

        Raises ResearchNotFoundError.
        """
        store, key = self._find_store(research_id), (owner, research_id)
        while True:
            changed = self._changes.setdefault(key, asyncio.Event())
            page = _require_found(await store.events(owner, research_id, after, EVENT_BATCH_SIZE))
            for event in page.events:
                yield event
                after = event.number
            if page.is_last:
                self._notify(key)
                return
            if not page.events:
                is_local = self._worker is not None and self._worker.is_running(key)
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOCAL_POLL_S if is_local else REMOTE_POLL_S):
                        await changed.wait()

    async def _add_turns(self, request: ResearchRequest, owner: str) -> ResearchRequest:
        """Return the request with the conversation that it continues. Raises PreviousResearchNotFoundError."""
        before = await self._research.load_earlier_turns(request, owner=owner)
        return request.model_copy(update={"history": before.turns}) if before else request

    async def _forget(self, research_id: str, owner: str) -> None:
        """Stop a run that was removed from the store; once it has ended, remove what it left in the caches."""
        if self._worker is not None:
            await self._worker.stop((owner, research_id))
        self._notify((owner, research_id))
        await self._research.forget(research_id, owner=owner)

    def _notify(self, key: JobKey) -> None:
        changed = self._changes.pop(key, None)
        if changed is not None:
            changed.set()

    def _parse_cursor(self, before: str) -> ListCursor:
        """Return where a page begins. Raises ResearchNotFoundError if no run can have the id of the cursor."""
        cursor = parse_cursor(before)
        self._find_store(cursor.id)
        return cursor

    def _find_store(self, research_id: str) -> IResearchJobStore:
        if self._store is None or not is_request_id(research_id):
            raise exceptions.ResearchNotFoundError
        return self._store


def _require_found(result: Stored | None) -> Stored:
    """Return the store's result. None and False mean that there is no such run, and raise ResearchNotFoundError."""
    if not result:
        raise exceptions.ResearchNotFoundError
    return result


def _make_job(request: ResearchRequest, owner: str, research_id: str | None = None) -> dtos.NewResearchJob:
    """Return a run of the current caller and trace, with a new id unless the caller has chosen one."""
    return dtos.NewResearchJob(
        id=research_id or new_request_id(),
        request=_strip_request(request),
        owner=owner,
        label=api_key_label(),
        traceparent=current_trace_headers().get("traceparent", ""),
    )


def _strip_request(request: ResearchRequest) -> ResearchRequest:
    """Return the request without the fields of subclasses, which endpoints add, and without files, which are not stored."""
    return ResearchRequest.model_validate(
        request.model_dump(include=set(ResearchRequest.model_fields) - {"files"}, exclude_unset=True)
    )
