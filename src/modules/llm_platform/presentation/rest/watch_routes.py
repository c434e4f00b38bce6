"""Watched questions over HTTP: questions that are asked again, and what changed (docs/howto/watch-a-question.md)."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Path, Query, Request, Response

from modules.llm_platform.domain.dtos import watch_dtos as dtos
from modules.llm_platform.domain.dtos.research_job_dtos import MAX_LISTED
from modules.llm_platform.presentation.rest.http.body import read_body
from modules.llm_platform.presentation.rest.http.openapi import describe_body
from modules.llm_platform.presentation.rest.http.problems import BODY_STATUSES, declare_problems
from modules.llm_platform.presentation.rest.http.request_scope import get_caller_id, get_services
from modules.llm_platform.presentation.rest.http.responses import make_json_response, make_stored_response
from modules.llm_platform.presentation.rest.watch_feed import ATOM_TYPE, render_feed

router = APIRouter(prefix="/watches", tags=["watches"])

LISTED_WATCHES = 20  # watches of a page, unless `limit` says otherwise
LISTED_CHANGES = 20  # the same for changes
FEED_CHANGES = 50  # the newest changes of a feed
MAX_CHANGE_NUMBER = 2**31 - 1

WatchId = Annotated[str, Path(alias="watch_id", description="`id` of a watched question")]


@router.post(
    "",
    status_code=201,
    summary="Watch a question: it is asked again, and changes of its facts are reported",
    response_model=dtos.WatchDetail,
    responses=declare_problems(*BODY_STATUSES, 409, 503),
    openapi_extra=describe_body(dtos.WatchRequest),
)
async def add_watch(request: Request) -> Response:
    body = await read_body(request, dtos.WatchRequest)
    watch = await get_services(request).watches.add(body, owner=get_caller_id(request))
    location = f"{quote(request.scope['path'])}/{watch.id}"
    return make_stored_response(request, watch, status=201, headers={"Location": location})


@router.get(
    "",
    summary="The watched questions of the caller, newest first",
    response_model=dtos.WatchPage,
    responses=declare_problems(404, 422),
)
async def list_watches(
    request: Request,
    limit: Annotated[int, Query(ge=1, le=MAX_LISTED)] = LISTED_WATCHES,
    before: Annotated[
        str | None, Query(pattern=dtos.WATCH_CURSOR_PATTERN, description="`next` of the page before")
    ] = None,
) -> Response:
    page = await get_services(request).watches.list(owner=get_caller_id(request), limit=limit, before=before)
    return make_stored_response(request, page)


@router.get(
    "/{watch_id}",
    summary="A watched question: when it is asked next, what it takes at most, and its newest runs",
    response_model=dtos.WatchDetail,
    responses=declare_problems(404, 422),
)
async def get_watch(request: Request, watch_id: WatchId) -> Response:
    return make_stored_response(
        request, await get_services(request).watches.get(watch_id, owner=get_caller_id(request))
    )


@router.delete(
    "/{watch_id}",
    status_code=204,
    summary="Remove a watched question with its runs and changes",
    response_class=Response,
    responses=declare_problems(404, 422),
)
async def remove_watch(request: Request, watch_id: WatchId) -> Response:
    await get_services(request).watches.remove(watch_id, owner=get_caller_id(request))
    return Response(status_code=204)


@router.post(
    "/{watch_id}/run",
    status_code=202,
    summary="Ask a watched question now, and resume it if it is paused",
    response_model=dtos.WatchDetail,
    responses=declare_problems(404, 409, 422),
)
async def run_watch(request: Request, watch_id: WatchId) -> Response:
    watch = await get_services(request).watches.run_now(watch_id, owner=get_caller_id(request))
    return make_stored_response(request, watch, status=202)


@router.get(
    "/{watch_id}/changes",
    summary="The changes of a watched question, newest first",
    response_model=dtos.ChangePage,
    responses=declare_problems(404, 422),
)
async def list_changes(
    request: Request,
    watch_id: WatchId,
    limit: Annotated[int, Query(ge=1, le=MAX_LISTED)] = LISTED_CHANGES,
    before: Annotated[int | None, Query(ge=1, le=MAX_CHANGE_NUMBER, description="`next` of the page before")] = None,
) -> Response:
    watches = get_services(request).watches
    return make_json_response(
        await watches.list_changes(watch_id, owner=get_caller_id(request), limit=limit, before=before)
    )


@router.get(
    "/{watch_id}/feed.atom",
    summary="The newest changes of a watched question as an Atom feed",
    response_class=Response,
    responses={200: {"content": {ATOM_TYPE: {"schema": {"type": "string"}}}}, **declare_problems(404, 422)},
)
async def get_feed(request: Request, watch_id: WatchId) -> Response:
    watches, owner = get_services(request).watches, get_caller_id(request)
    watch = await watches.get(watch_id, owner=owner)
    page = await watches.list_changes(watch_id, owner=owner, limit=FEED_CHANGES)
    feed = render_feed(watch, page.changes, str(request.url.replace(query="")))
    return Response(feed, media_type=ATOM_TYPE)
