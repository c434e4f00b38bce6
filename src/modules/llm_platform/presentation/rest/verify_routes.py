"""Verification over HTTP: which sentences of a text its sources support (docs/howto/verify-a-text.md)."""

from typing import Annotated, Self
from urllib.parse import quote

from fastapi import APIRouter, Path, Request, Response
from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from modules.llm_platform.application.verification.events import VERIFICATION_EVENT_TYPES
from modules.llm_platform.domain.dtos.request_dtos import GivenUrl
from modules.llm_platform.domain.dtos.verification_dtos import (
    VerificationJob,
    VerificationRequest,
    VerifiedAgain,
    VerifiedText,
)
from modules.llm_platform.presentation.rest.http import sse
from modules.llm_platform.presentation.rest.http.body import read_body
from modules.llm_platform.presentation.rest.http.disconnect import CancelOnDisconnect
from modules.llm_platform.presentation.rest.http.ignored_fields import tell_ignored_fields, tell_in_last_event
from modules.llm_platform.presentation.rest.http.openapi import declare_event_stream, describe_body
from modules.llm_platform.presentation.rest.http.problems import BODY_STATUSES, UPSTREAM_STATUSES, declare_problems
from modules.llm_platform.presentation.rest.http.request_scope import (
    ANSWER,
    get_caller_id,
    get_server_state,
    get_services,
    request_id,
)
from modules.llm_platform.presentation.rest.http.responses import know_questions, make_json_response
from modules.llm_platform.presentation.rest.research_job_routes import ResearchId

router = APIRouter(tags=["verify"])


class VerificationApiRequest(VerificationRequest):
    """A text with citations.

    With `stream` (or `Accept: text/event-stream`) its sentences are sent as their sources are read. With `background` it is
    queued, stored for `STORE_TTL_DAYS` at /verify/{id}, and outlives the connection. `webhook` is notified when it ends.
    """

    stream: bool = Field(default=False, strict=True)
    background: bool = Field(default=False, strict=True)
    webhook: GivenUrl | None = None

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.background and self.stream:
            raise PydanticCustomError(
                "background",
                "background cannot be combined with stream: leave stream out, and read /research/{id}/events",
            )
        if self.webhook is not None and not self.background:
            raise PydanticCustomError("background_only", "webhook belongs to a background run: add background true")
        return self


class VerifyAgainApiRequest(BaseModel):
    """A request to verify an answer again.

    `webhook` is notified if a verdict has changed. The result is then stored for `STORE_TTL_DAYS` at /verify/{id}.
    """

    model_config = ConfigDict(frozen=True)

    webhook: GivenUrl | None = None


@router.post(
    "/verify",
    summary="Check the sentences of a text against the sources that it cites",
    response_model=VerifiedText,
    responses={
        **declare_problems(*BODY_STATUSES, *UPSTREAM_STATUSES),
        **declare_event_stream(*VERIFICATION_EVENT_TYPES.values()),
        202: {"model": VerificationJob, "description": "With `background`: the queued verification, at `Location`"},
    },
    openapi_extra=describe_body(VerificationApiRequest),
)
async def verify(request: Request) -> Response:
    body = await read_body(request, VerificationApiRequest)
    verification, slots = get_services(request).verification, get_server_state(request).researches
    number, owner = request_id(request), get_caller_id(request)
    if body.background:
        job = await get_services(request).research_jobs.submit_verification(body, webhook=body.webhook, owner=owner)
        location = f"{quote(request.scope['path'])}/{job.id}"
        return make_json_response(job, status=202, headers={"Location": location})
    if sse.accepts_event_stream(request, body.stream):
        events = tell_in_last_event(request, verification.stream(body, request_id=number, owner=owner))
        return await sse.EventStream.start(request, slots.admit(events))
    async with CancelOnDisconnect(request.receive), slots.slot():
        verified = tell_ignored_fields(request, await verification.run(body, request_id=number, owner=owner))
    request.scope[ANSWER] = verified
    return make_json_response(verified)


@router.get(
    "/verify/{request_id}",
    summary="A verification in the background: its state, and its result when it is done",
    response_model=VerificationJob,
    responses=declare_problems(404, 422),
)
async def get_verification(
    request: Request,
    verification_id: Annotated[str, Path(alias="request_id", description="`id` of a background verification")],
) -> Response:
    return make_json_response(
        await get_services(request).research_jobs.get_verification(verification_id, owner=get_caller_id(request))
    )


@router.post(
    "/research/{request_id:research_id}/verify",
    summary="Compare a stored answer with what its sources say now",
    response_model=VerifiedAgain,
    responses=declare_problems(404, 405, *BODY_STATUSES, *UPSTREAM_STATUSES),
    openapi_extra=describe_body(VerifyAgainApiRequest, is_required=False),
)
async def verify_again(request: Request, research_id: ResearchId) -> Response:
    body = await read_body(request, VerifyAgainApiRequest, if_empty=VerifyAgainApiRequest())
    platform, owner = get_services(request), get_caller_id(request)
    if body.webhook is not None:
        await platform.research_jobs.check_webhook(body.webhook)
    research = await platform.research_jobs.get(research_id, owner=owner)
    know_questions(request, research)
    async with CancelOnDisconnect(request.receive), get_server_state(request).researches.slot():
        verified = await platform.verification.verify_again(research, request_id=request_id(request), owner=owner)
        if body.webhook is not None and verified.changed:
            await platform.research_jobs.report_changes(verified, body.webhook, owner=owner)
    verified = tell_ignored_fields(request, verified)
    request.scope[ANSWER] = verified
    return make_json_response(verified)
