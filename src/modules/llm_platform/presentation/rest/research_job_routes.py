"""Background runs over HTTP: state, list, resumable events, early finish, cancellation (docs/howto/run-long-researches.md)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Path, Query, Request, Response
from starlette.convertors import StringConvertor, register_url_convertor

from modules.llm_platform.application.research.events import EVENT_TYPES
from modules.llm_platform.domain.concurrency.task_group import cancel_and_wait
from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest
from modules.llm_platform.domain.dtos.research_job_dtos import MAX_LISTED, JobEvent, ResearchJobDetail, ResearchJobPage
from modules.llm_platform.domain.dtos.sealed_dtos import SEALED_SUFFIX
from modules.llm_platform.presentation.rest.http.access import HEADERS
from modules.llm_platform.presentation.rest.http.openapi import declare_event_stream
from modules.llm_platform.presentation.rest.http.problems import OverloadedError, declare_problems
from modules.llm_platform.presentation.rest.http.request_scope import get_caller_id, get_server_state, get_services
from modules.llm_platform.presentation.rest.http.responses import know_questions, make_stored_response
from modules.llm_platform.presentation.rest.http.sse import EventStream


class _ResearchIdConvertor(StringConvertor):
    """Leaves /research/documents, /research/options, /research/plan and /research/threads to their own routes."""

    regex = r"(?!(?:documents|options|plan|threads)(?:/|$))[^/]+"


register_url_convertor("research_id", _ResearchIdConvertor())
router = APIRouter(prefix="/research", tags=["research"])

MAX_EVENT_DIGITS = 9
MAX_STREAMS = 100  # streams of one caller in this process; each may ask the store every second
SEALED_TYPE = "application/zip"
SEALED_HEADERS = (
    ("Content-Disposition", f'attachment; filename="answer{SEALED_SUFFIX}"'),
    ("X-Content-Type-Options", "nosniff"),
    ("Cache-Control", "private, no-store"),
)
PAGE_RUNS = 20  # research runs of a page, unless `limit` says otherwise

ResearchId = Annotated[str, Path(alias="request_id", description="`id` of a background run")]


async def submit(request: Request, body: ResearchRequest, webhook: str | None, thread_id: str | None) -> Response:
    """Queue a research run: 202 with its state and Location."""
    jobs = get_services(request).research_jobs
    job = await jobs.submit(body, webhook=webhook, owner=get_caller_id(request), thread_id=thread_id)
    return make_stored_response(
        request, job, status=202, headers={"Location": f"{quote(request.scope['path'])}/{job.id}"}
    )


@router.get(
    "",
    summary="The background runs of the caller, newest first",
    response_model=ResearchJobPage,
    responses=declare_problems(404, 422),
)
async def list_researches(
    request: Request,
    limit: Annotated[int, Query(ge=1, le=MAX_LISTED)] = PAGE_RUNS,
    before: Annotated[str | None, Query(description="`next` of the page before")] = None,
) -> Response:
    return make_stored_response(
        request,
        await get_services(request).research_jobs.list(owner=get_caller_id(request), limit=limit, before=before),
    )


@router.get(
    "/{request_id:research_id}",
    summary="A background run: its state, and its answer when it is done",
    response_model=ResearchJobDetail,
    responses=declare_problems(404, 405, 422),
)
async def get_research(request: Request, research_id: ResearchId) -> Response:
    return make_stored_response(
        request, await get_services(request).research_jobs.get(research_id, owner=get_caller_id(request))
    )


@router.delete(
    "/{request_id:research_id}",
    summary="Cancel a background run unless it has ended",
    response_model=ResearchJobDetail,
    responses=declare_problems(404, 405, 422),
)
async def cancel_research(request: Request, research_id: ResearchId) -> Response:
    return make_stored_response(
        request, await get_services(request).research_jobs.cancel(research_id, owner=get_caller_id(request))
    )


@router.post(
    "/{request_id:research_id}/finish",
    summary="Stop the search of a background run and write the answer from what was found",
    response_model=ResearchJobDetail,
    responses=declare_problems(404, 405, 409, 422),
)
async def finish_research(request: Request, research_id: ResearchId) -> Response:
    job = await get_services(request).research_jobs.finish_early(research_id, owner=get_caller_id(request))
    return make_stored_response(request, job)


@router.get(
    "/{request_id:research_id}/sealed",
    summary="A stored answer with its sources, sealed in one file that anybody can check",
    response_class=Response,
    responses={
        200: {"content": {SEALED_TYPE: {"schema": {"type": "string", "format": "binary"}}}},
        **declare_problems(404, 405, 409, 422, 503),
    },
)
async def get_sealed_research(request: Request, research_id: ResearchId) -> Response:
    data = await get_services(request).seals.seal_stored(research_id, owner=get_caller_id(request))
    return Response(data, media_type=SEALED_TYPE, headers=dict(SEALED_HEADERS))


@router.get(
    "/{request_id:research_id}/events",
    summary="The events of a background run, after `Last-Event-ID` if it is sent",
    response_class=Response,
    responses={
        **declare_event_stream(*EVENT_TYPES.values()),
        204: {"description": "The research run has ended, and there are no events after Last-Event-ID"},
        **declare_problems(404, 405, 422),
    },
)
async def research_events(request: Request, research_id: ResearchId) -> Response:
    # The number of Last-Event-ID; 0 without a valid one, as if nothing had been received.
    sent = request.scope[HEADERS].get(b"last-event-id", b"").strip()
    after = int(sent) if sent.isdigit() and len(sent) <= MAX_EVENT_DIGITS else 0
    jobs, owner = get_services(request).research_jobs, get_caller_id(request)
    know_questions(request, await jobs.get(research_id, owner=owner))
    events = follow(request, research_id, after)
    if not await jobs.has_events(research_id, owner=owner, after=after):
        return Response(status_code=204)  # tells EventSource not to connect again
    return EventStream(events)


def follow(request: Request, research_id: str, after: int = 0) -> AsyncGenerator[JobEvent, None]:
    """Return the events of a run of the caller after number `after`, until the last one or until the server stops.

    Raises OverloadedError if the caller follows MAX_STREAMS runs.
    """
    check_streams(request)
    return _stream_until_draining(
        request, get_services(request).research_jobs.events(research_id, owner=get_caller_id(request), after=after)
    )


def check_streams(request: Request) -> None:
    """Raise OverloadedError if the caller follows MAX_STREAMS runs."""
    if get_server_state(request).streams[get_caller_id(request)] >= MAX_STREAMS:
        raise OverloadedError("Too many event streams of this client are open: close some, or read GET /research/{id}.")


async def _stream_until_draining(
    request: Request, events: AsyncGenerator[JobEvent, None]
) -> AsyncGenerator[JobEvent, None]:
    """Yield the events until the server stops: a client that waits for the next one must not delay that."""
    draining = asyncio.create_task(get_server_state(request).requests.draining.wait())
    streams, caller = get_server_state(request).streams, get_caller_id(request)
    streams[caller] += 1
    async with aclosing(events):
        try:
            while True:
                following = asyncio.ensure_future(anext(events))
                try:
                    await asyncio.wait({following, draining}, return_when=asyncio.FIRST_COMPLETED)
                # A job that ended just before the client was gone is awaited too: no other code retrieves its error.
                finally:
                    await cancel_and_wait(following)
                if following.cancelled():
                    return
                yield following.result()
        except StopAsyncIteration:
            return
        finally:
            draining.cancel()
            streams[caller] -= 1
            streams += Counter()  # forgets callers without a stream
