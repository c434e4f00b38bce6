"""Perplexity's asynchronous chat: a chat completion that runs in the background and is fetched later.

Reference of the vendor: https://docs.perplexity.ai/api-reference/async-chat-completions-post
"""

from collections.abc import Mapping
from datetime import datetime
from hashlib import sha256
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import BaseModel, Field

from modules.llm_platform.application.research.events import Done, SourcesNumbered
from modules.llm_platform.domain.dtos.request_dtos import Depth
from modules.llm_platform.domain.dtos.research_job_dtos import MAX_LISTED, ResearchJob, ResearchJobDetail
from modules.llm_platform.domain.exceptions import OutputError
from modules.llm_platform.presentation.rest.compat import chat_completions, client_tools, dialect
from modules.llm_platform.presentation.rest.compat.perplexity.chat import (
    PerplexityChatRequest,
    build_research,
    describe,
)
from modules.llm_platform.presentation.rest.compat.responses import runs
from modules.llm_platform.presentation.rest.http.body import read_body
from modules.llm_platform.presentation.rest.http.request_scope import get_caller_id, get_services

router = APIRouter(prefix="/perplexity", tags=["compatible"])

API: Final = "perplexity/async"  # The name of the API in stored runs.
MAX_KEY_CHARS: Final = 255
ID_CHARS: Final = 32
PAGE_RUNS: Final = 20
MODEL: Final = "model"  # The key of the model in the stored request of the client.
TOOL: Final = "tool"  # The key of the tool that the answer calls.
MODELS: Final[Mapping[Depth, str]] = {"shallow": "sonar", "deep": "sonar-pro", "report": "sonar-deep-research"}

Status = Literal["CREATED", "IN_PROGRESS", "COMPLETED", "FAILED"]
# Any other status is FAILED.
STATUSES: Final[Mapping[str, Status]] = {"queued": "CREATED", "running": "IN_PROGRESS", "done": "COMPLETED"}


class PerplexityAsyncRequest(dialect.DialectBody, frozen=True):
    """A chat request. With the same `idempotency_key` it is run once."""

    request: PerplexityChatRequest
    idempotency_key: Annotated[str, Field(min_length=1, max_length=MAX_KEY_CHARS)] | None = None


class PerplexityAsyncSummary(BaseModel):
    """A chat completion in the background. Times are in seconds since 1970. A list has the usual `model` of the depth."""

    id: str
    model: str
    status: Status
    created_at: int
    started_at: int | None = None
    completed_at: int | None = None
    failed_at: int | None = None


class PerplexityAsyncResponse(PerplexityAsyncSummary):
    """A chat completion in the background, with its answer or the reason why there is none."""

    error_message: str | None = None
    response: dict[str, Any] | None = None


class PerplexityAsyncList(BaseModel):
    """Chat completions in the background, newest first."""

    requests: list[PerplexityAsyncSummary]
    next_token: str | None = None


@router.post(
    "/async/chat/completions",
    **dialect.declare_route(
        "Run a chat completion in the background, for clients of Perplexity",
        PerplexityAsyncRequest,
        PerplexityAsyncResponse,
    ),
)
async def create(request: Request) -> Response:
    body = await read_body(request, PerplexityAsyncRequest)
    sent = body.request
    tool = client_tools.find_forced_tool(request, sent.tools or (), sent.tool_choice)
    # The id is the same for all requests with this key. The store finds it among the runs of the caller.
    key = body.idempotency_key
    research_id = sha256(f"{API} {key}".encode()).hexdigest()[:ID_CHARS] if key else None
    job = await get_services(request).research_jobs.submit(
        build_research(request, sent, tool, in_background=True),
        owner=get_caller_id(request),
        api=API,
        client_request={MODEL: sent.model, **({TOOL: tool.name} if tool else {})},
        research_id=research_id,
    )
    answer = PerplexityAsyncResponse(**_make_summary(job), model=_find_model(job))
    ignored = (*sent.ignored_fields(tool), "stream", "return_related_questions")
    return dialect.report_ignored(dialect.make_json_response(answer), sent, *ignored)


@router.get(
    "/async/chat/completions",
    summary="The chat completions in the background, for clients of Perplexity",
    response_model=PerplexityAsyncList,
    responses=dialect.declare_errors(404, 422),
)
async def list_all(
    request: Request,
    limit: Annotated[int, Query(ge=1, le=MAX_LISTED)] = PAGE_RUNS,
    next_token: Annotated[str | None, Query(description="`next_token` of the page before")] = None,
) -> Response:
    jobs = get_services(request).research_jobs
    page = await jobs.list(owner=get_caller_id(request), limit=limit, before=next_token, api=API)
    summaries = [PerplexityAsyncSummary(**_make_summary(job), model=MODELS[job.depth]) for job in page.researches]
    return dialect.make_json_response(PerplexityAsyncList(requests=summaries, next_token=page.next))


@router.get(
    "/async/chat/completions/{api_request}",
    summary="A chat completion in the background, for clients of Perplexity",
    response_model=PerplexityAsyncResponse,
    responses=dialect.declare_errors(404, 422),
)
async def get(
    request: Request, api_request: Annotated[str, Path(description="`id` of the chat completion")]
) -> Response:
    job = await runs.find_job(request, API, api_request)
    answer, error = None, (job.problem or {}).get("detail")
    if job.response is not None:
        try:
            answer = await _make_completion(request, job)
        except OutputError as failure:
            error = failure.message
    summary = _make_summary(job, has_failed=answer is None and job.response is not None)
    return dialect.make_json_response(
        PerplexityAsyncResponse(**summary, model=_find_model(job), response=answer, error_message=error)
    )


def _make_summary(job: ResearchJob, *, has_failed: bool = False) -> dict[str, Any]:
    status = "FAILED" if has_failed else STATUSES.get(job.status, "FAILED")
    ended = _count_seconds(job.finished_at)
    return {
        "id": job.id,
        "status": status,
        "created_at": _count_seconds(job.created_at),
        "started_at": _count_seconds(job.started_at),
        "completed_at": ended if status == "COMPLETED" else None,
        "failed_at": ended if status == "FAILED" else None,
    }


def _count_seconds(time: datetime | None) -> int | None:
    return None if time is None else int(time.timestamp())


def _find_model(job: ResearchJobDetail) -> str:
    return str(job.client_request.get(MODEL) or MODELS[job.depth])


async def _make_completion(request: Request, job: ResearchJobDetail) -> dict[str, Any]:
    """Return the chat completion of a finished run. Raises OutputError if it was to be JSON and is not."""
    completion = chat_completions.Completion(
        job.id,
        _find_model(job),
        describe,
        created=int(job.created_at.timestamp()),
        is_json=job.request.output_schema is not None,
        tool=str(job.client_request.get(TOOL, "")),
    )
    for event in await runs.read_stored_events(request, job.id):
        if isinstance(event, SourcesNumbered):
            completion.collect_sources(event)
        elif isinstance(event, Done):
            return completion.whole(event.response)
    return {}
