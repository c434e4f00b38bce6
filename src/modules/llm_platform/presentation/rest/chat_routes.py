"""Chat with a configured language model (docs/reference/http.md)."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, BeforeValidator, Field
from pydantic.json_schema import SkipJsonSchema

from modules.llm_platform.application.research.events import Failed, Token
from modules.llm_platform.application.services.llm_service import LLMService
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.llm_dtos import (
    MAX_MESSAGES,
    READER_STEP_S,
    ChatMessage,
    LLMRequest,
    LLMResponse,
    LLMToken,
    Relay,
    Spending,
)
from modules.llm_platform.domain.dtos.sent import SentKind
from modules.llm_platform.presentation.rest.http import sse
from modules.llm_platform.presentation.rest.http.body import read_body
from modules.llm_platform.presentation.rest.http.disconnect import run_until_disconnect
from modules.llm_platform.presentation.rest.http.openapi import declare_event_stream, describe_body
from modules.llm_platform.presentation.rest.http.problems import BODY_STATUSES, UPSTREAM_STATUSES, declare_problems
from modules.llm_platform.presentation.rest.http.request_scope import get_services, request_id
from modules.llm_platform.presentation.rest.http.responses import find_excluded_fields, make_json_response

router = APIRouter(tags=["chat"])


def _fixed(value: object) -> BeforeValidator:
    """Ignore what a client sends for a field that the platform sets."""
    return BeforeValidator(lambda _: value)


class TextMessage(ChatMessage, frozen=True):
    """One turn of a conversation."""

    role: Literal["system", "user", "assistant"]
    tool_calls: SkipJsonSchema[Annotated[tuple[dict[str, Any], ...], _fixed(())]] = Field(default=(), exclude=True)
    tool_call_id: SkipJsonSchema[Annotated[str | None, _fixed(None)]] = Field(default=None, exclude=True)
    name: SkipJsonSchema[Annotated[str | None, _fixed(None)]] = Field(default=None, exclude=True)
    reasoning: SkipJsonSchema[Annotated[str, _fixed("")]] = Field(default="", exclude=True)
    parts: SkipJsonSchema[Annotated[tuple[dict[str, Any], ...], _fixed(())]] = Field(default=(), exclude=True)
    content: Annotated[str, Field(min_length=1)]


class ChatApiRequest(LLMRequest, frozen=True):
    """A conversation. With `stream`, the answer is sent as events. Only the interface of OpenAI forwards tools."""

    messages: tuple[TextMessage, ...] = Field(min_length=1, max_length=MAX_MESSAGES)
    stream: bool = Field(default=False, strict=True)
    max_tries: SkipJsonSchema[Annotated[int | None, _fixed(None)]] = Field(default=None, exclude=True)
    data_kind: SkipJsonSchema[Annotated[SentKind, _fixed("query")]] = Field(default="query", exclude=True)
    json_schema: SkipJsonSchema[Annotated[dict[str, Any] | None, _fixed(None)]] = Field(default=None, exclude=True)
    is_callers_schema: SkipJsonSchema[Annotated[bool, _fixed(False)]] = Field(default=False, exclude=True)
    extra: SkipJsonSchema[Annotated[dict[str, Any], _fixed({})]] = Field(default_factory=dict, exclude=True)
    as_it_comes: SkipJsonSchema[Annotated[bool, _fixed(False)]] = Field(default=False, exclude=True)
    step_s: SkipJsonSchema[Annotated[float, _fixed(READER_STEP_S)]] = Field(default=READER_STEP_S, exclude=True)
    relay: SkipJsonSchema[Annotated[Relay | None, _fixed(None)]] = Field(default=None, exclude=True)


class ChatApiResponse(LLMResponse, frozen=True):
    """The model's answer."""

    # What only the compatible interfaces forward.
    tool_calls: tuple[dict[str, Any], ...] = Field(default=(), exclude=True)
    reasoning: str = Field(default="", exclude=True)
    logprobs: tuple[dict[str, Any], ...] = Field(default=(), exclude=True)
    others: tuple[LLMResponse, ...] = Field(default=(), exclude=True)
    spent: Spending = Field(default=Spending(), exclude=True)
    degraded: tuple[Degraded, ...] = Field(default=(), exclude=True)


HIDDEN_FIELDS = find_excluded_fields(ChatApiResponse)


class ModelPart(BaseModel, frozen=True):
    """A part of an answer that is more than text: calls of the caller's tools, reasoning, or a part of a further answer."""

    request_id: str
    type: Literal["part"] = "part"
    part: LLMToken


class ChatDone(BaseModel, frozen=True):
    """The last event: the complete answer. Its `content` is the joined tokens."""

    request_id: str
    type: Literal["done"] = "done"
    response: ChatApiResponse


ChatEvent = Token | ModelPart | ChatDone


@router.post("/llm-platform/chat/", include_in_schema=False)
@router.post(
    "/llm-platform/chat",
    summary="Ask a language model",
    response_model=ChatApiResponse,
    responses={
        **declare_problems(*BODY_STATUSES, *UPSTREAM_STATUSES),
        **declare_event_stream(Token, ChatDone, Failed),
    },
    openapi_extra=describe_body(ChatApiRequest),
)
async def chat(request: Request) -> Response:
    body = await read_body(request, ChatApiRequest)
    llm = get_services(request).llm
    if sse.accepts_event_stream(request, body.stream):
        return await sse.EventStream.start(request, stream_chat(llm, body, request_id(request)))
    return make_json_response(await run_until_disconnect(request, llm.generate(body)), exclude=HIDDEN_FIELDS)


async def stream_chat(llm: LLMService, request: LLMRequest, request_id: str) -> AsyncGenerator[ChatEvent, None]:
    """Yield Token events, ModelPart events for what is not a text, and one ChatDone."""
    async with aclosing(llm.stream(request)) as parts:
        async for part in parts:
            yield make_chat_event(part, request_id)


def make_chat_event(part: LLMToken | LLMResponse, request_id: str) -> ChatEvent:
    """Return the event of a part of an answer, or of the whole one, which is the last."""
    if isinstance(part, LLMToken) and (part.tool_calls or part.reasoning or part.logprobs or part.choice):
        return ModelPart(request_id=request_id, part=part)
    if isinstance(part, LLMToken):
        return Token(request_id=request_id, text=part.text)
    fields: dict[str, Any] = {name: getattr(part, name) for name in LLMResponse.model_fields}
    return ChatDone(request_id=request_id, response=ChatApiResponse.model_construct(**fields))
