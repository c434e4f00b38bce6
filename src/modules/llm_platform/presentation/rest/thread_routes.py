"""Threads over HTTP: stored questions with their follow-up questions (docs/reference/http.md)."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from modules.llm_platform.domain.dtos import research_job_dtos as dtos
from modules.llm_platform.presentation.rest.http.body import read_body
from modules.llm_platform.presentation.rest.http.openapi import describe_body
from modules.llm_platform.presentation.rest.http.problems import BODY_STATUSES, declare_problems
from modules.llm_platform.presentation.rest.http.request_scope import get_caller_id, get_services
from modules.llm_platform.presentation.rest.http.responses import make_stored_response

router = APIRouter(prefix="/research/threads", tags=["research"])

PAGE_THREADS = 20  # threads, unless `limit` says otherwise

RunId = Annotated[str, Path(alias="request_id", description="`id` of the thread, or of any of its research runs")]


@router.get(
    "",
    summary="The threads of the caller, the one with the newest run first",
    response_model=dtos.ResearchThreadPage,
    responses=declare_problems(404, 422),
)
async def list_threads(
    request: Request,
    limit: Annotated[int, Query(ge=1, le=dtos.MAX_LISTED)] = PAGE_THREADS,
    before: Annotated[str | None, Query(description="`next` of the page before")] = None,
    q: Annotated[
        str,
        Query(max_length=dtos.MAX_SEARCH_CHARS, description="a text that the title, a question or an answer contains"),
    ] = "",
) -> Response:
    jobs = get_services(request).research_jobs
    return make_stored_response(
        request, await jobs.list_threads(owner=get_caller_id(request), limit=limit, before=before, text=q)
    )


@router.get(
    "/{request_id}",
    summary="A thread with its research runs, the oldest first",
    response_model=dtos.ResearchThreadDetail,
    responses=declare_problems(404, 422),
)
async def get_thread(request: Request, run_id: RunId) -> Response:
    return make_stored_response(
        request, await get_services(request).research_jobs.get_thread(run_id, owner=get_caller_id(request))
    )


@router.patch(
    "/{request_id}",
    summary="Rename a thread",
    response_model=dtos.ResearchThreadDetail,
    responses=declare_problems(*BODY_STATUSES, 404),
    openapi_extra=describe_body(dtos.ThreadChange),
)
async def rename_thread(request: Request, run_id: RunId) -> Response:
    change = await read_body(request, dtos.ThreadChange)
    jobs = get_services(request).research_jobs
    return make_stored_response(request, await jobs.rename_thread(run_id, change.title, owner=get_caller_id(request)))


@router.delete(
    "/{request_id}",
    summary="Delete a thread: its runs are stopped, and all that is stored of them is removed",
    response_model=dtos.ResearchThreadDetail,
    responses=declare_problems(404, 422),
)
async def delete_thread(request: Request, run_id: RunId) -> Response:
    return make_stored_response(
        request, await get_services(request).research_jobs.delete_thread(run_id, owner=get_caller_id(request))
    )
