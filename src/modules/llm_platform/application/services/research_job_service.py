"""Background runs: submitted, followed, cancelled and listed by their owner (docs/howto/run-long-researches.md)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Final

from modules.llm_platform.application.research.events import Failed
from modules.llm_platform.application.services.research_job_worker import JobKey, JobOptions, ResearchJobWorker
from modules.llm_platform.application.services.research_service import ResearchService
from modules.llm_platform.application.services.webhook_service import WebhookService
from modules.llm_platform.domain import exceptions
from modules.llm_platform.domain.api_key_label import api_key_label
from modules.llm_platform.domain.dtos import research_job_dtos as dtos
from modules.llm_platform.domain.dtos.research_dtos import ResearchRequest
from modules.llm_platform.domain.ports.metrics import NO_METRICS, IMetrics
from modules.llm_platform.domain.ports.research_job_store import IResearchJobStore
from modules.llm_platform.domain.ports.tracing import NO_TRACER, ITracer, current_trace_headers
from modules.llm_platform.domain.request_id import is_request_id, new_request_id

MAX_QUEUED: Final = 1000  # research runs of one owner that wait
MAX_PAGE: Final = 100
EVENTS_AT_ONCE: Final = 200
LOCAL_POLL_S: Final = 10.0  # for events of a research run that runs in this process, which also reports each change
REMOTE_POLL_S: Final = 1.0
NO_STORE: Final = "background runs are stored, and the store is off: set STORE_TTL_DAYS to more than 0"


class ResearchJobService:
    """Research runs that outlive the request and the process. `store` is None if nothing may be stored.

    `owner` is who may see a research run: an id of another owner does not exist. The work begins with `start` or the first
    `submit`, and is put back into the queue by `aclose`.
    """

    def __init__(
        self,
        research: ResearchService,
        store: IResearchJobStore | None,
        webhooks: WebhookService | None,
        options: JobOptions = JobOptions(),  # noqa: B008  frozen
        metrics: IMetrics = NO_METRICS,
        tracer: ITracer = NO_TRACER,
    ) -> None:
        self._research = research
        self._store = store
        self._webhooks = webhooks
        self._changes: dict[JobKey, asyncio.Event] = {}
        self._worker: ResearchJobWorker | None = None
        if store is not None and webhooks is not None:
            self._worker = ResearchJobWorker(research, store, webhooks, options, self._notify, metrics, tracer)

    def start(self) -> None:
        """Run queued research runs in this process, also those of an earlier one."""
        if self._worker is not None:
            self._worker.start()

    async def aclose(self) -> None:
        """Stop working; running research runs go back into the queue."""
        if self._worker is not None:
            await self._worker.aclose()

    async def submit(
        self, request: ResearchRequest, *, webhook: str | None = None, owner: str = "", label: str | None = None
    ) -> dtos.ResearchJobDetail:
        """Queue a research run durably. `webhook`: an address to notify when it ends; `label`: that of the API key.

        Raises BackgroundError or WebhookError if it cannot run with these settings, ResearchQueueFullError,
        PreviousResearchNotFoundError, StoreError.
        """
        if self._store is None or self._worker is None or self._webhooks is None:
            raise exceptions.BackgroundError(NO_STORE)
        self._research.check(request)
        if before := await self._research.turns_before(request, owner=owner):  # they may expire while the research waits
            request = request.model_copy(update={"history": before.turns})
        if webhook is not None:
            await self._webhooks.check(webhook)
        fields = request.model_dump(include=set(ResearchRequest.model_fields), exclude_unset=True)
        job = dtos.NewResearchJob(
            id=new_request_id(),
            request=ResearchRequest.model_validate(fields),  # without the fields that an endpoint added
            owner=owner,
            label=api_key_label() if label is None else label,
            webhook=webhook,
            traceparent=current_trace_headers().get("traceparent", ""),
        )
        queued = await self._store.add(job, MAX_QUEUED)
        if queued is None:
            raise exceptions.ResearchQueueFullError
        self._worker.start()
        self._worker.wake()
        return dtos.ResearchJobDetail.model_validate({**dict(queued), "request": job.request})

    async def get(self, research_id: str, *, owner: str = "") -> dtos.ResearchJobDetail:
        """The research, with its answer or problem when it has ended. Raises ResearchNotFoundError."""
        store = self._store_of(research_id)
        found = await store.get(owner, research_id)
        if found is None:
            raise exceptions.ResearchNotFoundError
        return found

    async def list(self, *, owner: str = "", limit: int = 20, before: str | None = None) -> dtos.ResearchJobPage:
        """Up to `limit` research runs (at most 100), newest first; `before` is `next` of the page before."""
        if self._store is None or (before is not None and not is_request_id(before)):
            return dtos.ResearchJobPage(researches=())
        limit = max(1, min(limit, MAX_PAGE))
        found = await self._store.page(owner, limit + 1, before)
        return dtos.ResearchJobPage(researches=found[:limit], next=found[limit - 1].id if len(found) > limit else None)

    async def cancel(self, research_id: str, *, owner: str = "") -> dtos.ResearchJobDetail:
        """Stop the research unless it has ended; returns what it is then. Raises ResearchNotFoundError."""
        store = self._store_of(research_id)
        problem = exceptions.ResearchCancelledError().problem(instance=f"/research/{research_id}", request_id=research_id)
        event = Failed(request_id=research_id, problem=problem)
        if not await store.cancel(owner, research_id, dtos.JobEvent(0, event.type, event.model_dump_json())):
            raise exceptions.ResearchNotFoundError
        if self._worker is not None:
            self._worker.interrupt((owner, research_id))
        self._notify((owner, research_id))
        return await self.get(research_id, owner=owner)

    async def has_events(self, research_id: str, *, owner: str = "", after: int = 0) -> bool:
        """Whether there is, or will be, an event after number `after`. Raises ResearchNotFoundError."""
        page = await self._store_of(research_id).events(owner, research_id, after, 1)
        if page is None:
            raise exceptions.ResearchNotFoundError
        return bool(page.events) or not page.is_last

    async def events(
        self, research_id: str, *, owner: str = "", after: int = 0
    ) -> AsyncGenerator[dtos.JobEvent, None]:
        """Yield the events after number `after`, as they happen; done or failed last. Raises ResearchNotFoundError.

        After a crash the steps begin again, with the event `reset` (reason `interrupted`) first.
        """
        store, key = self._store_of(research_id), (owner, research_id)
        while True:
            changed = self._changes.setdefault(key, asyncio.Event())
            page = await store.events(owner, research_id, after, EVENTS_AT_ONCE)
            if page is None:
                raise exceptions.ResearchNotFoundError
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

    def _notify(self, key: JobKey) -> None:
        changed = self._changes.pop(key, None)
        if changed is not None:
            changed.set()

    def _store_of(self, research_id: str) -> IResearchJobStore:
        if self._store is None or not is_request_id(research_id):
            raise exceptions.ResearchNotFoundError
        return self._store
