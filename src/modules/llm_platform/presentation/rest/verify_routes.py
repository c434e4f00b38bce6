"""Verification over HTTP: which sentences of a text its sources bear out (docs/howto/verify-a-text.md)."""

from fastapi import APIRouter, Request, Response
from pydantic import Field

from modules.llm_platform.application.verification.events import VERIFICATION_EVENT_TYPES
from modules.llm_platform.domain.dtos.verification_dtos import VerificationRequest, VerifiedAgain, VerifiedText
from modules.llm_platform.presentation.rest.http import sse
from modules.llm_platform.presentation.rest.http.body import read_body
from modules.llm_platform.presentation.rest.http.disconnect import CancelOnDisconnect
from modules.llm_platform.presentation.rest.http.openapi import body_of, event_stream_response
from modules.llm_platform.presentation.rest.http.problems import BODY_STATUSES, UPSTREAM_STATUSES, problem_responses
from modules.llm_platform.presentation.rest.http.request_scope import (
    ANSWER,
    caller_id,
    request_id,
    server_state,
    services,
)
from modules.llm_platform.presentation.rest.http.responses import json_response, know_questions
from modules.llm_platform.presentation.rest.research_job_routes import ResearchId

router = APIRouter(tags=["verify"])


class VerificationApiRequest(VerificationRequest):
    """A text with citations.

    With `stream` (or `Accept: text/event-stream`) its sentences are sent as their sources are read.
    """

    stream: bool = Field(default=False, strict=True)


@router.post(
    "/verify",
    summary="Check the sentences of a text against the sources that it cites",
    response_model=VerifiedText,
    responses={
        **problem_responses(*BODY_STATUSES, *UPSTREAM_STATUSES),
        **event_stream_response(*VERIFICATION_EVENT_TYPES.values()),
    },
    openapi_extra=body_of(VerificationApiRequest),
)
async def verify(request: Request) -> Response:
    body = await read_body(request, VerificationApiRequest)
    verification, slots = services(request).verification, server_state(request).researches
    number, owner = request_id(request), caller_id(request)
    if sse.accepts_event_stream(request, body.stream):
        return await sse.EventStream.start(request, slots.admitted(verification.stream(body, request_id=number, owner=owner)))
    async with CancelOnDisconnect(request.receive), slots.slot():
        verified = await verification.run(body, request_id=number, owner=owner)
    request.scope[ANSWER] = verified
    return json_response(verified)


@router.post(
    "/research/{request_id:research_id}/verify",
    summary="Compare a stored answer with what its sources say now",
    response_model=VerifiedAgain,
    responses=problem_responses(404, 405, 422, *UPSTREAM_STATUSES),
)
async def verify_again(request: Request, research_id: ResearchId) -> Response:
    platform, owner = services(request), caller_id(request)
    research = await platform.research_jobs.get(research_id, owner=owner)
    know_questions(request, research)
    async with CancelOnDisconnect(request.receive), server_state(request).researches.slot():
        verified = await platform.verification.verify_again(research, request_id=request_id(request), owner=owner)
    request.scope[ANSWER] = verified
    return json_response(verified)
