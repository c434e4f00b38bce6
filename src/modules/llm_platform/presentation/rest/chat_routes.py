"""A conversation with a configured language model (docs/reference/http.md)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.json_schema import SkipJsonSchema

from modules.llm_platform.application.research.events import Token
from modules.llm_platform.application.services.llm_service import LLMService
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.llm_dtos import (
    LLMRequest,
    LLMResponse,
    LLMToken,
    Spending,
)
from modules.llm_platform.domain.dtos.sent import SentKind
from modules.llm_platform.presentation.rest.body import read_body
from modules.llm_platform.presentation.rest.openapi import body_of
from modules.llm_platform.presentation.rest.problems import GUARDED, PROVIDER, WITH_BODY, documented
from modules.llm_platform.presentation.rest.responses import json_answer, request_id, services
from modules.llm_platform.presentation.rest.sse import CancelOnDisconnect, Event, EventStream, streamed_as, wants_events

router = APIRouter(tags=["chat"])


def _always(value: object) -> BeforeValidator:
    """For a field that is the platform's to fill: what a caller sends there is passed over, like any unknown field."""
    return BeforeValidator(lambda _: value)


class ChatApiRequest(LLMRequest):
    """A conversation; with `stream` the answer comes as events."""

    stream: bool = Field(default=False, strict=True)
    max_tries: SkipJsonSchema[Annotated[int | None, _always(None)]] = Field(default=None, exclude=True)
    holds: SkipJsonSchema[Annotated[SentKind, _always("query")]] = Field(default="query", exclude=True)


class ChatApiResponse(LLMResponse):
    """The model's answer."""

    spent: Spending = Field(default=Spending(), exclude=True)
    degraded: tuple[Degraded, ...] = Field(default=(), exclude=True)


LEFT_OUT = {name: True for name, field in ChatApiResponse.model_fields.items() if field.exclude}


class ChatDone(BaseModel):
    """Last: the whole answer. Its `content` is the tokens joined."""

    model_config = ConfigDict(frozen=True)

    request_id: str
    type: Literal["done"] = "done"
    response: ChatApiResponse


@router.post("/llm-platform/chat/", include_in_schema=False)
@router.post(
    "/llm-platform/chat",
    summary="Ask a language model",
    response_model=ChatApiResponse,
    responses={**documented(*GUARDED, *WITH_BODY, *PROVIDER), **streamed_as("token", "done", "failed")},
    openapi_extra=body_of(ChatApiRequest),
)
async def chat(request: Request) -> Response:
    asked = await read_body(request, ChatApiRequest)
    llm = services(request).llm
    if wants_events(request, asked.stream):
        return await EventStream.begun(request, _events(llm, asked, request_id(request)))
    async with CancelOnDisconnect(request.receive):
        answer = await llm.generate(asked)
    return json_answer(answer, exclude=LEFT_OUT)


async def _events(llm: LLMService, asked: LLMRequest, name: str) -> AsyncGenerator[Event, None]:
    async with aclosing(llm.stream(asked)) as parts:
        async for part in parts:
            yield _event(part, name)


def _event(part: LLMToken | LLMResponse, name: str) -> Event:
    if isinstance(part, LLMToken):
        return Token(request_id=name, text=part.text)
    shown: dict[str, Any] = part.model_dump(exclude=LEFT_OUT)
    return ChatDone(request_id=name, response=ChatApiResponse.model_validate(shown))
