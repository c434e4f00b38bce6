"""Perplexity's Agent API: the answer of a research run as a response, at once, streamed or in the background.

Reference of the vendor: https://docs.perplexity.ai/docs/agent-api
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field

from modules.llm_platform.domain.dtos.llm_dtos import MAX_ANSWER_TOKENS
from modules.llm_platform.domain.dtos.request_dtos import MAX_URL_CHARS, MAX_URLS, Depth, PreviousId, ResearchRequest
from modules.llm_platform.domain.dtos.web_search_dtos import Language
from modules.llm_platform.domain.research.transcript_task import TranscriptTask
from modules.llm_platform.domain.urls.site_names import MAX_SITES
from modules.llm_platform.presentation.rest.compat import (
    chat_completions,
    client_tools,
    dialect,
    structured,
    transcripts,
)
from modules.llm_platform.presentation.rest.compat.perplexity.agent_writer import AgentResponseWriter
from modules.llm_platform.presentation.rest.compat.perplexity.filters import DATES, SearchFilters
from modules.llm_platform.presentation.rest.compat.perplexity.models import EFFORTS, find_depth
from modules.llm_platform.presentation.rest.compat.responses import inputs, runs
from modules.llm_platform.presentation.rest.compat.responses.writer import NOTHING_SENT, Envelope, ResponseEncoder
from modules.llm_platform.presentation.rest.http.body import read_body
from modules.llm_platform.presentation.rest.http.openapi import declare_data_stream
from modules.llm_platform.presentation.rest.http.problems import InvalidRequestError
from modules.llm_platform.presentation.rest.http.request_scope import request_id
from modules.llm_platform.presentation.rest.http.sse import MEDIA_TYPE

router = APIRouter(prefix="/perplexity", tags=["compatible"])

API: Final = runs.ResponsesApi("perplexity", AgentResponseWriter)
MAX_STEPS: Final = 100  # The vendor's limits.
MAX_MODELS: Final = 5
AGENT_MODEL_NAME_CHARS: Final = 320
SHALLOW_STEPS: Final = 1  # `max_steps` that one search takes
DEEP_STEPS: Final = 9  # A request for more steps is a report: the vendor's own deep research takes ten.
REFUSED: Final = {
    "profile": "profiles are not stored: send effort, tools and instructions",
    "skills": "skills are not supported",
}
_ADDRESS: Final = re.compile(r"https?://[^\s<>\"'`]+", re.I)
_AROUND_ADDRESS: Final = ".,;:!?)]}»”’"

Name = Annotated[str, Field(min_length=1, max_length=AGENT_MODEL_NAME_CHARS)]


class AgentWebSearchTool(dialect.StringValuesBody, frozen=True):
    """A web search. A research run searches in any case, and only the filters have an effect."""

    filters: SearchFilters | None = None


class AgentFetchUrlTool(dialect.StringValuesBody, frozen=True):
    """Reads the addresses in the last message."""

    max_urls: int | None = Field(default=None, ge=1, strict=True)


TOOLS: Final[Mapping[str, type[BaseModel]]] = {"web_search": AgentWebSearchTool, "fetch_url": AgentFetchUrlTool}


class PerplexityAgentRequest(dialect.StringValuesBody, frozen=True):
    """A question, or a conversation that ends with one. `effort`, `preset` or `model` selects the depth."""

    input: inputs.Input
    effort: Name | None = None
    preset: Name | None = None
    model: Name | None = None
    models: Annotated[tuple[Name, ...], Field(min_length=1, max_length=MAX_MODELS)] | None = None
    max_steps: int | None = Field(default=None, ge=1, le=MAX_STEPS, strict=True)
    instructions: str | None = None
    language_preference: Language | None = None
    previous_response_id: PreviousId | None = None
    background: bool | None = Field(default=None, strict=True)
    store: bool | None = Field(default=None, strict=True)
    stream: bool | None = Field(default=None, strict=True)
    max_output_tokens: int | None = Field(default=None, ge=1, le=MAX_ANSWER_TOKENS, strict=True)
    response_format: dict[str, Any] | None = None
    tools: inputs.Tools | None = None
    tool_choice: str | dict[str, Any] | None = None

    @cached_property
    def conversation(self) -> inputs.Conversation:
        """The conversation with the instructions before it. Raises InvalidRequestError if it has no message."""
        return inputs.read_conversation(self.input, self.instructions)

    @cached_property
    def served_tools(self) -> tuple[BaseModel, ...]:
        """The tools that a research run serves. Raises InvalidRequestError for one that it does not have."""
        return tuple(inputs.read_served_tools(self.tools or (), TOOLS))

    @property
    def searches(self) -> tuple[AgentWebSearchTool, ...]:
        return tuple(tool for tool in self.served_tools if isinstance(tool, AgentWebSearchTool))

    @property
    def filters(self) -> tuple[SearchFilters, ...]:
        return tuple(tool.filters for tool in self.searches if tool.filters)

    @property
    def urls(self) -> tuple[str, ...]:
        """The addresses that the tool fetch_url reads: the addresses in the last message, or the first `max_urls` of them."""
        tools = [tool for tool in self.served_tools if isinstance(tool, AgentFetchUrlTool)]
        text = self.conversation.messages[-1].text if tools else ""
        found = (address.rstrip(_AROUND_ADDRESS) for address in _ADDRESS.findall(text))
        usable = (address for address in found if len(address) <= MAX_URL_CHARS and address.isprintable())
        return tuple(dict.fromkeys(usable))[: min((tool.max_urls for tool in tools if tool.max_urls), default=None)]

    @property
    def named(self) -> tuple[str, ...]:
        """The names that select the depth, the first known one wins."""
        names = (self.effort, self.preset, *(self.models or (self.model,)))
        return tuple(name for name in names if name)

    @property
    def depth(self) -> Depth | None:
        """The depth of the research, or None if no name is known."""
        depth = next((found for name in self.named if (found := find_depth(name))), None)
        if depth is None:
            return None
        if self.urls:
            return "report"  # Only a report reads given addresses.
        steps = self.max_steps or MAX_STEPS
        if steps <= SHALLOW_STEPS:
            return "shallow"
        return "deep" if depth == "report" and steps <= DEEP_STEPS else depth

    @property
    def answering(self) -> str:
        """The first known name: the `model` of the response."""
        return next(name for name in self.named if find_depth(name))

    @property
    def partly_served(self) -> tuple[str, ...]:
        """The names of the fields that do not change all that they ask for."""
        names = {
            "effort": (self.effort,),
            "preset": (self.preset,),
            "model": (self.model,),
            "models": self.models or (),
        }
        partly = {
            **{field: any(name and find_depth(name) is None for name in sent) for field, sent in names.items()},
            "tools": len(self.served_tools) < len(self.tools or ())
            or any(
                part.model_extra.keys() - {"type"} for part in (*self.served_tools, *self.filters) if part.model_extra
            )
            or any(tool_filter.partly_served for tool_filter in self.filters),
            "max_steps": self.depth == "report",
            "max_output_tokens": True,
            "tool_choice": True,
        }
        return tuple(name for name, is_named in partly.items() if is_named)


class PerplexityAgentResponse(BaseModel, extra="allow"):
    """A response: the numbered sources, the pages that were read, and the message."""

    id: str
    object: str
    created_at: int
    status: str
    model: str
    output: list[dict[str, Any]]


class PerplexityCancelled(BaseModel):
    """A background response that stops."""

    response_id: str
    status: Literal["cancelling"]


@router.post("/v1/agent", include_in_schema=False)  # The vendor's other name.
@router.post(
    "/v1/responses",
    **dialect.declare_route(
        "Answer a question, for clients of Perplexity's Agent API",
        PerplexityAgentRequest,
        PerplexityAgentResponse,
        (404, *dialect.ERROR_STATUSES),
        "The response, queued with `background`; as a stream, the events response.created to response.completed.",
    ),
)
async def respond(request: Request) -> Response:
    body = await read_body(request, PerplexityAgentRequest)
    if not body.background and (task := transcripts.find_task(body.conversation.messages)):
        return dialect.report_ignored(await _answer_task(request, body, task), body, *body.partly_served)
    tool = client_tools.find_forced_tool(request, body.tools or (), body.tool_choice)
    depth = _depth(body)
    schema = tool.schema if tool else structured.read_schema(request, body.response_format)
    envelope = _make_envelope(
        request,
        body,
        background=body.background,
        store=body.store,
        is_json=schema is not None,
        tool=tool.name if tool else "",
    )
    run = runs.ResponseRun(API, _make_question(body, depth, schema), envelope)
    ignored = client_tools.list_ignored_fields(body.partly_served, tool, body.tools or ())
    if body.stream:
        return dialect.report_ignored(await runs.stream(request, run), body, *ignored)
    return dialect.make_json_answer(await runs.respond(request, run), body, *ignored)


async def _answer_task(request: Request, body: PerplexityAgentRequest, task: TranscriptTask) -> Response:
    """Answer a task about a transcript, which needs no search, has no sources, and is not stored."""
    depth = _depth(body)
    answer = await transcripts.answer_task(request, task, body.conversation.messages, depth, body.response_format)
    writer = API.writer(request_id(request), _make_envelope(request, body, store=False))
    events = list(transcripts.make_research_events(answer, writer.id))
    if not body.stream:
        return dialect.make_json_response(writer.whole(events))
    encoder = ResponseEncoder(writer)
    return Response(b"".join(map(encoder.encode, events)), media_type=MEDIA_TYPE)


def _depth(body: PerplexityAgentRequest) -> Depth:
    """Return the depth. Raises InvalidRequestError for a request without one, and for fields that are not supported."""
    chat_completions.refuse_fields(body, REFUSED)
    for filters in body.filters:
        chat_completions.refuse_fields(filters, DATES)
    if body.depth is None:
        sent = next((name for name in ("effort", "preset", "models") if getattr(body, name)), "model")
        raise chat_completions.make_refusal(sent, f"choose effort, preset or model, one of {', '.join(EFFORTS)}")
    return body.depth


def _make_envelope(
    request: Request,
    body: PerplexityAgentRequest,
    *,
    store: bool | None,
    background: bool | None = False,
    **fields: Any,
) -> Envelope:
    echo = body.model_dump(mode="json", include={"previous_response_id", "effort", "preset"})
    return runs.make_envelope(request, body.answering, background=background, store=store, echo=echo, **fields)


def _make_question(body: PerplexityAgentRequest, depth: Depth, schema: Mapping[str, Any] | None) -> ResearchRequest:
    """Return the research request. Raises InvalidRequestError, also for more addresses than a report reads."""
    urls = body.urls
    if len(urls) > MAX_URLS:
        raise InvalidRequestError.at(
            ("body", *body.conversation.position),
            f"must have at most {MAX_URLS} addresses: send fewer, or max_urls of fetch_url, at most {MAX_URLS}",
            "too_long",
        )
    filters: Sequence[SearchFilters] = body.filters
    fields: dict[str, Any] = {"urls": urls} if urls else {}
    if urls and body.searches:
        fields["sources"] = ("web",)  # Without this, only the given addresses are read.
    return chat_completions.research_request(
        body.conversation.messages,
        depth,
        field=body.conversation.position,
        in_background=body.background,
        domains=tuple(domain for tool_filter in filters for domain in tool_filter.search_domain_filter or ())[
            :MAX_SITES
        ],
        time_range=next((tool_filter.time_range for tool_filter in filters if tool_filter.time_range), None),
        freshness=next((tool_filter.freshness for tool_filter in filters if tool_filter.freshness), None),
        language=body.language_preference
        or next((tool_filter.language for tool_filter in filters if tool_filter.language), None),
        omit_raw=True,
        previous_id=body.previous_response_id,
        output_schema=schema,
        **fields,
    )


ERRORS: Final = dialect.declare_errors(400, 404, 422)


@router.get("/v1/agent/{response_id}", include_in_schema=False)
@router.get(
    "/v1/responses/{response_id}",
    summary="A stored response, for clients of Perplexity's Agent API",
    response_model=PerplexityAgentResponse,
    responses={**ERRORS, **declare_data_stream("The response as it is now; with `stream`, its events.")},
)
async def get_response(
    request: Request,
    response_id: runs.ResponseId,
    stream: Annotated[bool, Query(description="Send the events")] = False,
    starting_after: runs.StartingAfter = NOTHING_SENT,
) -> Response:
    if stream:
        return await runs.resume(request, API, response_id, starting_after)
    return dialect.make_json_response(await runs.retrieve(request, API, response_id))


@router.post("/v1/agent/{response_id}/cancel", include_in_schema=False)
@router.post(
    "/v1/responses/{response_id}/cancel",
    summary="Cancel a background response, for clients of Perplexity's Agent API",
    response_model=PerplexityCancelled,
    responses=ERRORS,
)
async def cancel_response(request: Request, response_id: runs.ResponseId) -> Response:
    await runs.cancel(request, API, response_id)
    return dialect.make_json_response({"response_id": response_id, "status": "cancelling"})
