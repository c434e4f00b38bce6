"""Research over HTTP: a cited answer, complete or streamed (requirements RB2 and RB15; docs/reference/http.md).

The plan of a report can be requested first and changed by a person (requirements MS1 to MS8).
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response
from pydantic import Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from modules.llm_platform.domain.dtos.report_dtos import PlanRequest, ResearchPlan
from modules.llm_platform.domain.dtos.research_dtos import GivenUrl, HeldSource, ResearchRequest, ResearchResponse
from modules.llm_platform.domain.dtos.research_job_dtos import ResearchJobDetail
from modules.llm_platform.presentation.rest.http import responses, sse
from modules.llm_platform.presentation.rest.http.body import read_body
from modules.llm_platform.presentation.rest.http.openapi import body_of
from modules.llm_platform.presentation.rest.http.problems import BODY_STATUSES, UPSTREAM_STATUSES, problem_responses
from modules.llm_platform.presentation.rest.research_job_routes import submit

router = APIRouter(prefix="/research", tags=["research"])

MAX_SOURCE_INDEX = 1_000_000


class ResearchApiRequest(ResearchRequest):
    """A question; with `stream` (or `Accept: text/event-stream`) the steps of the research are sent as events.

    With `background` the research is queued and outlives the connection; `webhook` is notified when it ends.
    """

    stream: bool = Field(default=False, strict=True)
    background: bool = Field(default=False, strict=True)
    webhook: GivenUrl | None = None

    @field_validator("background")
    @classmethod
    def _does_not_stream(cls, value: bool, info: ValidationInfo) -> bool:
        if value and info.data.get("stream"):
            raise PydanticCustomError("background", "does not go with stream: read /research/{id}/events")
        return value

    @field_validator("webhook")
    @classmethod
    def _belongs_to_background(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None and not info.data.get("background"):
            raise PydanticCustomError("background_only", "belongs to a background run: add background true")
        return value


@router.post(
    "",
    summary="Answer a question from sources",
    response_model=ResearchResponse,
    responses={
        **problem_responses(*BODY_STATUSES, *UPSTREAM_STATUSES, 404),
        **sse.event_stream_response(*sse.RESEARCH_EVENTS),
        202: {"model": ResearchJobDetail, "description": "With `background`: the queued research, at `Location`"},
    },
    openapi_extra=body_of(ResearchApiRequest),
)
async def research(request: Request) -> Response:
    body = await read_body(request, ResearchApiRequest)
    if body.background:
        return await submit(request, body, body.webhook)
    if sse.accepts_event_stream(request, body.stream):
        return await sse.stream_research(request, body)
    return responses.json_response(await responses.run_research(request, body))


@router.post(
    "/plan",
    summary="Split a question into sub-questions, for the `plan` of a report",
    response_model=ResearchPlan,
    responses=problem_responses(*BODY_STATUSES, 404),
    openapi_extra=body_of(PlanRequest),
)
async def plan(request: Request) -> Response:
    body = await read_body(request, PlanRequest)
    async with responses.CancelOnDisconnect(request.receive), responses.server_state(request).researches.slot():
        response = await responses.services(request).research.plan(body, owner=responses.caller_id(request))
    return responses.json_response(response)


@router.get(
    "/{request_id}/sources/{index}",
    summary="The stored text that quotes point into",
    response_model=HeldSource,
    responses=problem_responses(404, 422),
)
async def source(
    request: Request,
    research_id: Annotated[str, Path(alias="request_id", description="`metadata.request_id` of the answer")],
    index: Annotated[int, Path(ge=1, le=MAX_SOURCE_INDEX, description="The source's number in the answer")],
) -> Response:
    return responses.json_response(
        await responses.services(request).research.source(research_id, index, owner=responses.caller_id(request))
    )
