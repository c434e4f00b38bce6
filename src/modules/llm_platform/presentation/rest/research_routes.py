"""A question in, a cited answer out, whole or as it is made (requirements RB2 and RB15; docs/reference/http.md).

For a report its plan can be had first, so that a person can change it (requirements MS1 to MS8).
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response
from pydantic import Field

from modules.llm_platform.domain.dtos.report_dtos import PlanRequest, ResearchPlan
from modules.llm_platform.domain.dtos.research_dtos import HeldSource, ResearchRequest, ResearchResponse
from modules.llm_platform.presentation.rest.body import read_body
from modules.llm_platform.presentation.rest.openapi import body_of
from modules.llm_platform.presentation.rest.problems import GUARDED, PROVIDER, WITH_BODY, documented
from modules.llm_platform.presentation.rest.responses import json_answer, request_id, services
from modules.llm_platform.presentation.rest.sse import CancelOnDisconnect, EventStream, streamed_as, wants_events

router = APIRouter(prefix="/research", tags=["research"])

MAX_SOURCE_INDEX = 1_000_000
EVENTS = (
    "started", "planned", "searched", "ranked", "read", "summarized", "sources", "token", "reset", "done", "failed",
)  # fmt: skip


class ResearchApiRequest(ResearchRequest):
    """A question; with `stream` (or `Accept: text/event-stream`) the research tells its steps as events."""

    stream: bool = Field(default=False, strict=True)


@router.post(
    "",
    summary="Answer a question from sources",
    response_model=ResearchResponse,
    responses={**documented(*GUARDED, *WITH_BODY, *PROVIDER), **streamed_as(*EVENTS)},
    openapi_extra=body_of(ResearchApiRequest),
)
async def research(request: Request) -> Response:
    asked = await read_body(request, ResearchApiRequest)
    service, name = services(request).research, request_id(request)
    if wants_events(request, asked.stream):
        return await EventStream.begun(request, service.stream(asked, request_id=name))
    async with CancelOnDisconnect(request.receive):
        answer = await service.research(asked, request_id=name)
    return json_answer(answer)


@router.post(
    "/plan",
    summary="Take a question apart, for the `plan` of a report",
    response_model=ResearchPlan,
    responses=documented(*GUARDED, *WITH_BODY),
    openapi_extra=body_of(PlanRequest),
)
async def plan(request: Request) -> Response:
    asked = await read_body(request, PlanRequest)
    async with CancelOnDisconnect(request.receive):
        made = await services(request).research.plan(asked)
    return json_answer(made)


@router.get(
    "/{request_id}/sources/{index}",
    summary="The stored text that quotes point into",
    response_model=HeldSource,
    responses=documented(*GUARDED, 404, 422),
)
async def source(
    request: Request,
    research_id: Annotated[str, Path(alias="request_id", description="`metadata.request_id` of the answer")],
    index: Annotated[int, Path(ge=1, le=MAX_SOURCE_INDEX, description="The source's number in the answer")],
) -> Response:
    return json_answer(await services(request).research.source(research_id, index))
