"""OpenAI's Responses API: the answer of a research run or of a configured language model.

Reference of the vendor: https://platform.openai.com/docs/api-reference/responses
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Annotated, Any, Final, Literal

from fastapi import Request, Response
from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import to_json
from starlette.types import Scope

from modules.llm_platform.application.research.events import Done, Failed, Reset, Token
from modules.llm_platform.domain.dtos.llm_dtos import MAX_ANSWER_TOKENS, ConfiguredModel, LLMRequest, LLMResponse
from modules.llm_platform.domain.dtos.research_dtos import Depth, PreviousId, ResearchResponse
from modules.llm_platform.domain.dtos.web_search_dtos import MAX_DOMAINS, Domain
from modules.llm_platform.presentation.rest.chat_routes import ChatDone, chat_events
from modules.llm_platform.presentation.rest.compat import chat_completions, dialect
from modules.llm_platform.presentation.rest.compat.openai_models import DEPTHS, ModelName, find_llm, router
from modules.llm_platform.presentation.rest.http import responses
from modules.llm_platform.presentation.rest.http.body import read_body, validate
from modules.llm_platform.presentation.rest.http.problems import problem_object
from modules.llm_platform.presentation.rest.http.sse import Event, EventStream, stream_research
from shared.exceptions import AppException

ERROR_STATUSES: Final = (404, *dialect.ERROR_STATUSES_400)
MAX_TOOLS: Final = 10
REFUSED: Final = {
    "conversation": "conversations are not stored: send the whole conversation as input",
    "prompt": "stored prompts are not supported: use instructions",
    "background": "use POST /research with `background: true`",
    "top_logprobs": "logprobs are not supported",
}


class WebSearchFilters(BaseModel):
    """The only domains to search."""

    model_config = ConfigDict(frozen=True)

    allowed_domains: Annotated[tuple[Domain, ...], Field(max_length=MAX_DOMAINS)] | None = None


class WebSearchTool(BaseModel):
    """A web search, which a research run does anyway; of its options only the domains have an effect."""

    model_config = ConfigDict(extra="allow", frozen=True)

    type: Literal["web_search", "web_search_2025_08_26", "web_search_preview", "web_search_preview_2025_03_11"]
    filters: WebSearchFilters | None = None


class OpenaiResponsesRequest(dialect.DialectBody):
    """A question, or a conversation that ends with one."""

    model: ModelName
    input: Annotated[str, Field(min_length=1)] | chat_completions.Messages
    instructions: str | None = None
    previous_response_id: PreviousId | None = None
    stream: bool | None = Field(default=None, strict=True)
    max_output_tokens: int | None = Field(default=None, ge=1, le=MAX_ANSWER_TOKENS, strict=True)
    tools: Annotated[tuple[WebSearchTool, ...], Field(max_length=MAX_TOOLS)] | None = None
    text: dict[str, Any] | None = None

    @property
    def messages(self) -> tuple[chat_completions.CompletionMessage, ...]:
        """The conversation with the instructions before it."""
        turns = (
            (chat_completions.CompletionMessage(role="user", content=self.input),)
            if isinstance(self.input, str)
            else self.input
        )
        return (
            (chat_completions.CompletionMessage(role="system", content=self.instructions), *turns)
            if self.instructions
            else turns
        )

    @property
    def domains(self) -> tuple[str, ...]:
        filters = [tool.filters for tool in self.tools or () if tool.filters]
        return tuple(domain for each in filters for domain in each.allowed_domains or ())

    @property
    def partly_served(self) -> tuple[str, ...]:
        """The names of the fields that do not change all that they ask for."""
        options = ("tools",) if any(tool.model_extra for tool in self.tools or ()) else ()
        return (*options, "max_output_tokens")


class OpenaiResponse(BaseModel):
    """A response with one message, whose annotations are the citations of a research."""

    model_config = ConfigDict(extra="allow")

    id: str
    object: str
    created_at: int
    status: str
    model: str
    output: list[dict[str, Any]]
    usage: dict[str, Any] | None


@router.post(
    "/responses",
    **dialect.declaration(
        "Answer a question, for clients of OpenAI's Responses API",
        OpenaiResponsesRequest,
        OpenaiResponse,
        ERROR_STATUSES,
        "The response; as a stream, the events response.created to response.completed.",
    ),
)
async def respond(request: Request) -> Response:
    body = await read_body(request, OpenaiResponsesRequest)
    chat_completions.refuse_fields(body, REFUSED)
    text_format = (body.text or {}).get("format")
    if isinstance(text_format, dict) and text_format.get("type", "text") != "text":
        raise chat_completions.refused("text", "only text is supported: leave out its format")
    writing = Writing(responses.request_id(request), body)
    if body.model in DEPTHS:
        return await _research(request, body, DEPTHS[body.model], writing)
    return await _chat(request, body, writing)


async def _research(request: Request, body: OpenaiResponsesRequest, depth: Depth, writing: Writing) -> Response:
    domains = body.domains[:MAX_DOMAINS]
    question = chat_completions.research_request(
        body.messages,
        depth,
        field="input",
        domains=domains,
        omit_raw=True,
        previous_id=body.previous_response_id,
    )
    if body.stream:
        stream = await stream_research(request, question, ResponseStream(writing))
        return dialect.report_ignored(stream, body, *body.partly_served)
    answer = writing.of_research(await responses.run_research(request, question))
    return dialect.json_answer(answer, body, *body.partly_served)


async def _chat(request: Request, body: OpenaiResponsesRequest, writing: Writing) -> Response:
    if body.previous_response_id is not None:
        raise chat_completions.refused(
            "previous_response_id", "only the research models store answers: send the whole conversation as input"
        )
    if body.tools:
        raise chat_completions.refused("tools", "only the research models search, and other tools are not supported")
    prompt = llm_request(find_llm(request, body.model), body.messages, body.max_output_tokens)
    if body.stream:
        events = chat_events(responses.services(request).llm, prompt, writing.id)
        return dialect.report_ignored(await EventStream.start(request, events, ResponseStream(writing)), body)
    answer = writing.of_llm(await generate(request, prompt))
    return dialect.json_answer(answer, body)


def llm_request(
    model: ConfiguredModel, messages: Sequence[chat_completions.CompletionMessage], max_tokens: int | None
) -> LLMRequest:
    """Return the prompt of a conversation. Raises InvalidRequestError for an empty message."""
    turns = [{"role": each.role.replace("developer", "system"), "content": each.text} for each in messages]
    values = {"messages": turns, "provider": model.provider, "model": model.model, "max_tokens": max_tokens}
    return validate(LLMRequest, values, "body")


async def generate(request: Request, prompt: LLMRequest) -> LLMResponse:
    """Return the answer of the model. The call stops if the client disconnects."""
    async with responses.CancelOnDisconnect(request.receive):
        answer = await responses.services(request).llm.generate(prompt)
    request.scope[responses.ANSWER] = answer
    return answer


@dataclass(slots=True)
class Writing:
    """One response in the making."""

    id: str
    body: OpenaiResponsesRequest
    created_at: int = field(default_factory=lambda: int(time.time()))

    @property
    def item_id(self) -> str:
        return f"msg_{self.id}"

    def part(self, text: str, annotations: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
        return {"type": "output_text", "text": text, "annotations": list(annotations), "logprobs": []}

    def item(self, status: str, *parts: Mapping[str, Any]) -> dict[str, Any]:
        return {"id": self.item_id, "type": "message", "role": "assistant", "status": status, "content": list(parts)}

    def response(self, status: str, output: Sequence[Mapping[str, Any]] = (), **fields: Any) -> dict[str, Any]:
        """Return the whole object."""
        body = self.body
        return {
            "id": self.id,
            "object": "response",
            "created_at": self.created_at,
            "status": status,
            "model": body.model,
            "output": list(output),
            "instructions": body.instructions,
            "max_output_tokens": body.max_output_tokens,
            "error": None,
            "incomplete_details": None,
            "metadata": {},
            "parallel_tool_calls": False,
            "previous_response_id": body.previous_response_id,
            "store": False,
            "text": {"format": {"type": "text"}},
            "tool_choice": "auto",
            "tools": [{"type": tool.type} for tool in body.tools or ()],
            "usage": None,
            **fields,
        }

    def of_research(self, answer: ResearchResponse, before: str = "") -> dict[str, Any]:
        """Return the complete response. `before`: text that was sent before the answer began anew."""
        part = self.part(before + answer.synthesis, list(chat_completions.url_citations(answer, len(before))))
        metadata = answer.metadata
        extension = answer.model_dump(mode="json", include={"degraded", "metadata"})
        usage = _usage(metadata.prompt_tokens, metadata.completion_tokens)
        return self.response(
            "completed", [self.item("completed", part)], usage=usage, **{chat_completions.EXTENSION: extension}
        )

    def of_llm(self, answer: LLMResponse) -> dict[str, Any]:
        """Return the complete response; `incomplete` if the model reached its limit."""
        usage = _usage(answer.usage.prompt_tokens, answer.usage.completion_tokens)
        status, details = "completed", None
        if answer.finish_reason == "length":
            status, details = "incomplete", {"reason": "max_output_tokens"}
        item = self.item(status, self.part(answer.content))
        return self.response(status, [item], usage=usage, incomplete_details=details)


class ResponseStream:
    """Encodes the events of an answer as those of the Responses API, each with a `sequence_number`."""

    def __init__(self, writing: Writing) -> None:
        self._writing = writing
        self._sent = 0
        self._text = ""
        self._void = ""  # the text up to the end of the last notice that the answer begins anew
        self._has_begun = self._has_text = False

    def encode(self, event: Event) -> bytes:
        begin = self._begin()
        if isinstance(event, Token):
            return begin + self._delta(event.text)
        if isinstance(event, Reset):
            restarted = self._delta(chat_completions.RESTARTED)
            self._void = self._text
            return begin + restarted
        if isinstance(event, Done):
            return begin + self._end(self._writing.of_research(event.response, self._void))
        if isinstance(event, ChatDone):
            return begin + self._end(self._writing.of_llm(event.response))
        if isinstance(event, Failed):
            return begin + self._fail(event.problem)
        return begin

    def fail(self, error: AppException, scope: Scope) -> bytes:
        return self._begin() + self._fail(problem_object(error, scope))

    def _begin(self) -> bytes:
        if self._has_begun:
            return b""
        self._has_begun = True
        response = self._writing.response("in_progress")
        return self._event("created", response=response) + self._event("in_progress", response=response)

    def _delta(self, text: str) -> bytes:
        self._text += text
        return self._open_text() + self._text_event("output_text.delta", delta=text, logprobs=[])

    def _open_text(self) -> bytes:
        if self._has_text:
            return b""
        self._has_text = True
        item = self._event("output_item.added", output_index=0, item=self._writing.item("in_progress"))
        return item + self._text_event("content_part.added", part=self._writing.part(""))

    def _end(self, response: Mapping[str, Any]) -> bytes:
        [item] = response["output"]
        [part] = item["content"]
        events = [
            self._open_text(),
            *(
                self._text_event("output_text.annotation.added", annotation_index=place, annotation=annotation)
                for place, annotation in enumerate(part["annotations"])
            ),
            self._text_event("output_text.done", text=part["text"], logprobs=[]),
            self._text_event("content_part.done", part=part),
            self._event("output_item.done", output_index=0, item=item),
            self._event(response["status"], response=response),
        ]
        return b"".join(events)

    def _fail(self, problem: Mapping[str, Any]) -> bytes:
        code = "rate_limit_exceeded" if problem["status"] == HTTPStatus.TOO_MANY_REQUESTS else "server_error"
        error = {"code": code, "message": problem["detail"]}
        return self._event("failed", response=self._writing.response("failed", error=error))

    def _text_event(self, kind: str, **fields: Any) -> bytes:
        return self._event(kind, item_id=self._writing.item_id, output_index=0, content_index=0, **fields)

    def _event(self, kind: str, **fields: Any) -> bytes:
        data = to_json({"type": f"response.{kind}", "sequence_number": self._sent, **fields})
        self._sent += 1
        return f"event: response.{kind}\ndata: ".encode() + data + b"\n\n"


def _usage(prompt_tokens: int, completion_tokens: int) -> dict[str, Any]:
    return {
        "input_tokens": prompt_tokens,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": completion_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": prompt_tokens + completion_tokens,
    }


_EXAMPLE: Final = Writing("3f2c8a5e", OpenaiResponsesRequest(model="research-shallow", input="What is tea?"), 1_795_000_000)
_EXAMPLE_CITATION: Final = {
    "type": "url_citation", "start_index": 0, "end_index": 14, "title": "Tea", "url": "https://example.org/tea",
}
EXAMPLES: Final[Mapping[tuple[str, str], dialect.Example]] = {
    ("post", "/v1/responses"): dialect.Example(
        _EXAMPLE.response(
            "completed",
            [_EXAMPLE.item("completed", _EXAMPLE.part("Tea is a drink [1].", [_EXAMPLE_CITATION]))],
            usage=_usage(310, 12),
        ),
        {"model": "research-shallow", "input": "What is tea?"},
        events='event: response.created\ndata: {"type":"response.created","sequence_number":0,"response":{}}\n\n',
    ),
}
