"""Routes of research: answer a question, plan a report, and return the evidence and the stored sources of an answer.

The answer is one JSON object or a stream of events (docs/reference/http.md).
"""

from collections.abc import Mapping, Sequence
from functools import partial
from math import ceil
from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Request, Response
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from modules.llm_platform.application.research.events import EVENT_TYPES, Done, ResearchEvent, Token
from modules.llm_platform.application.services.research_job_service import NOT_STORED, ResearchJobService
from modules.llm_platform.domain.dtos.answer_dtos import ResearchResponse
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.report_dtos import PlanRequest, ResearchPlan
from modules.llm_platform.domain.dtos.request_dtos import MIN_QUESTION_CHARS, GivenUrl, PreviousId, ResearchRequest
from modules.llm_platform.domain.dtos.research_job_dtos import ResearchJobDetail
from modules.llm_platform.domain.dtos.source_dtos import HeldSource
from modules.llm_platform.domain.dtos.uploaded_file_dtos import MAX_FILES_BYTES
from modules.llm_platform.domain.research.long_message import MAX_MESSAGE_CHARS, join_context, split_message
from modules.llm_platform.presentation.rest.http import sse
from modules.llm_platform.presentation.rest.http.access import HEADERS
from modules.llm_platform.presentation.rest.http.body import MAX_BODY_BYTES, BodyLimit, read_body, read_declared_length
from modules.llm_platform.presentation.rest.http.disconnect import CancelOnDisconnect
from modules.llm_platform.presentation.rest.http.ignored_fields import tell_ignored_fields
from modules.llm_platform.presentation.rest.http.openapi import declare_event_stream, describe_body
from modules.llm_platform.presentation.rest.http.problems import (
    BODY_STATUSES,
    UPSTREAM_STATUSES,
    BodyTooLargeError,
    NotFoundError,
    declare_problems,
)
from modules.llm_platform.presentation.rest.http.request_scope import (
    get_caller_id,
    get_server_state,
    get_services,
    request_id,
)
from modules.llm_platform.presentation.rest.http.responses import make_json_response
from modules.llm_platform.presentation.rest.http.run_research import run_research
from modules.llm_platform.presentation.rest.research_job_routes import submit

router = APIRouter(prefix="/research", tags=["research"])

FILES_NOTE = "With `files` the body may be larger: they may have 10 MB in total, which base64 makes 14 MB."
WITH_FILES = BodyLimit(
    max_bytes=MAX_BODY_BYTES + ceil(MAX_FILES_BYTES / 3) * 4,  # base64 has four characters for three bytes
    timeout_s=60.0,
    refusal=f"The body is too large: send fewer or smaller files, at most {MAX_FILES_BYTES // 1_000_000} MB together.",
    is_counted=False,  # `ServerState.uploads` already limits how many are received at once
)
MAX_SOURCE_INDEX = 1_000_000
EVIDENCE_NOTE: Final = "One object a line; nothing for a shallow run, which keeps no ledger"
ICON_CONTENT: Final = {"content": {"image/*": {"schema": {"type": "string", "format": "binary"}}}}
ICON_HEADERS: Final[Mapping[str, str]] = {  # an SVG icon that a user opens directly must not run scripts
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "private, max-age=86400",
}


def _need_query_or_message(schema: dict[str, Any]) -> None:
    schema["required"].remove("query")
    schema["oneOf"] = [{"required": ["query"]}, {"required": ["message"]}]


def _without_default(schema: dict[str, Any]) -> None:
    """Remove the default "": a client may not send it, because it is shorter than `min_length`."""
    del schema["default"]


class MessageRequest(BaseModel):
    """A request that may have a `message` instead of a `query`: a text of any length that contains the question.

    The question becomes `query`. If the message has more than the question, the whole message becomes `context`.
    """

    model_config = ConfigDict(json_schema_extra=_need_query_or_message)

    message: Annotated[
        str, StringConstraints(strip_whitespace=True, min_length=MIN_QUESTION_CHARS, max_length=MAX_MESSAGE_CHARS)
    ] = Field(default="", exclude=True, json_schema_extra=_without_default)

    @model_validator(mode="before")
    @classmethod
    def _find_question(cls, values: Any) -> Any:
        message = values.get("message") if isinstance(values, dict) else None
        if not isinstance(message, str):
            return values
        if "query" in values:
            raise PydanticCustomError("message", "has both query and message: leave one out")
        question, whole = split_message(message[:MAX_MESSAGE_CHARS])  # `message` refuses a longer text
        context = values.get("context")
        if whole is None or not isinstance(context, str | None):
            return {**values, "query": question}
        return {**values, "query": question, "context": join_context(whole, context)}


class PlanApiRequest(PlanRequest, MessageRequest):
    """A question to plan, or a message that contains one."""


class ResearchApiRequest(ResearchRequest, MessageRequest):
    """A question, or a `message` that contains one.

    With `stream` (or `Accept: text/event-stream`) the steps of the research are sent as events. With `store` the answer is
    stored for `STORE_TTL_DAYS` at /research/{id}, and `id` is `metadata.request_id`. A follow-up question then joins its
    thread. With `thread_id`, the id of a stored run, a stored run joins the thread of that run and does not follow it. With
    `background` the research is queued, always stored, and outlives the connection. `webhook` is notified when it ends.
    """

    stream: bool = Field(default=False, strict=True)
    store: bool = Field(default=False, strict=True)
    background: bool = Field(default=False, strict=True)
    webhook: GivenUrl | None = None
    thread_id: PreviousId | None = None

    @field_validator("background")
    @classmethod
    def _does_not_stream(cls, value: bool, info: ValidationInfo) -> bool:
        if value and info.data.get("stream"):
            raise PydanticCustomError(
                "background", "cannot be combined with stream: leave stream out, and read /research/{id}/events"
            )
        return value

    @field_validator("background")
    @classmethod
    def _has_no_files(cls, value: bool, info: ValidationInfo) -> bool:
        if value and info.data.get("files"):
            raise PydanticCustomError(
                "background", "cannot be combined with files, which are not stored: remove one of them"
            )
        return value

    @field_validator("webhook")
    @classmethod
    def _belongs_to_background(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None and not info.data.get("background"):
            raise PydanticCustomError("background_only", "belongs to a background run: add background true")
        return value

    @field_validator("thread_id")
    @classmethod
    def _belongs_to_a_stored_run(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None and not (info.data.get("background") or info.data.get("store")):
            raise PydanticCustomError("stored_only", "belongs to a stored run: add store or background true")
        return value


class JsonLines(Response):
    """JSON Lines: one JSON object on each line."""

    media_type = "application/x-ndjson"


@router.post(
    "",
    summary="Answer a question from sources",
    response_model=ResearchResponse,
    responses={
        **declare_problems(*BODY_STATUSES, *UPSTREAM_STATUSES, 404),
        **declare_event_stream(*EVENT_TYPES.values()),
        202: {"model": ResearchJobDetail, "description": "With `background`: the queued research, at `Location`"},
    },
    openapi_extra=describe_body(ResearchApiRequest, note=FILES_NOTE),
)
async def research(request: Request) -> Response:
    body = await _read(request)
    if body.background:
        return await submit(request, body, body.webhook, body.thread_id)
    owner = get_caller_id(request)
    record = partial(_record, get_services(request).research_jobs, owner, body) if body.store else None
    if sse.accepts_event_stream(request, body.stream):
        return await sse.stream_research(request, body, record=record, owner=owner)
    events: list[ResearchEvent] = []
    response = await run_research(request, body, events.append, owner=owner, is_stored=body.store)
    if record is not None:
        done = Done(request_id=request_id(request), response=response)
        if not_stored := await record([*events, done]):
            response = response.with_degraded(not_stored)
    return make_json_response(response)


async def _read(request: Request) -> ResearchApiRequest:
    """Return the body. Only a body with files may exceed MAX_BODY_BYTES, and only a few of these are received at once."""
    if read_declared_length(request.scope[HEADERS]) <= MAX_BODY_BYTES:
        return await read_body(request, ResearchApiRequest)
    async with get_server_state(request).uploads.slot():
        body = await read_body(request, ResearchApiRequest, limit=WITH_FILES)
    if not body.files:
        raise BodyTooLargeError
    return body


async def _record(
    jobs: ResearchJobService, owner: str, body: ResearchApiRequest, events: Sequence[ResearchEvent]
) -> Degraded | None:
    """Store a foreground run. If that fails, return the entry for `degraded`.

    Tokens are not stored, because the last event has the whole text.
    """
    stored = [event for event in events if not isinstance(event, Token)]
    is_stored = await jobs.record(body, stored, owner=owner, thread_id=body.thread_id)
    return None if is_stored or not jobs.is_storing else NOT_STORED


@router.post(
    "/plan",
    summary="Split a question into sub-questions, for the `plan` of a report",
    response_model=ResearchPlan,
    responses=declare_problems(*BODY_STATUSES, 404),
    openapi_extra=describe_body(PlanApiRequest),
)
async def plan(request: Request) -> Response:
    body = await read_body(request, PlanApiRequest)
    async with CancelOnDisconnect(request.receive), get_server_state(request).researches.slot():
        response = await get_services(request).research.plan(body, owner=get_caller_id(request))
    return make_json_response(tell_ignored_fields(request, response))


@router.get(
    "/{request_id}/evidence",
    summary="The ledger of a research run: for each question the quotes that answer it, as JSON lines",
    response_class=JsonLines,
    responses={200: {"description": EVIDENCE_NOTE}, **declare_problems(404, 422)},
)
async def evidence(
    request: Request,
    research_id: Annotated[str, Path(alias="request_id", description="`metadata.request_id` of the answer")],
) -> Response:
    lines = await get_services(request).research.list_evidence(research_id, owner=get_caller_id(request))
    return JsonLines("".join(f"{line.model_dump_json()}\n" for line in lines))


@router.get(
    "/{request_id}/sources/{index}",
    summary="The stored text that quotes point into",
    response_model=HeldSource,
    responses=declare_problems(404, 422),
)
async def source(
    request: Request,
    research_id: Annotated[str, Path(alias="request_id", description="`metadata.request_id` of the answer")],
    index: Annotated[int, Path(ge=1, le=MAX_SOURCE_INDEX, description="The source's number in the answer")],
) -> Response:
    return make_json_response(
        await get_services(request).research.get_source(research_id, index, owner=get_caller_id(request))
    )


@router.get(
    "/{request_id}/sources/{index}/icon",
    summary="The icon of the site of a source, with PAGE_FAVICONS",
    response_class=Response,
    responses={200: ICON_CONTENT, **declare_problems(404, 422)},
)
async def source_icon(
    request: Request,
    research_id: Annotated[str, Path(alias="request_id", description="`metadata.request_id` of the answer")],
    index: Annotated[int, Path(ge=1, le=MAX_SOURCE_INDEX, description="The source's number in the answer")],
) -> Response:
    platform = get_services(request)
    source = await platform.research.get_source(research_id, index, owner=get_caller_id(request))
    icon = await platform.icons.read(source.url) if platform.icons else None
    if icon is None:
        raise NotFoundError(
            "There is no icon for this source: the site has none that can be read, or PAGE_FAVICONS is off."
        )
    return Response(icon.data, media_type=icon.media_type, headers=dict(ICON_HEADERS))
