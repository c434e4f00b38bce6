"""The Messages API of Anthropic: the answer of a research run or of a configured language model.

Reference of the vendor: https://docs.anthropic.com/en/api/messages
"""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal

from fastapi import Request, Response
from pydantic import BaseModel, Discriminator, Field, Tag

from modules.llm_platform.application.research.events import ResearchEvent
from modules.llm_platform.domain.dtos.llm_dtos import MAX_ANSWER_TOKENS, MAX_MESSAGES, MAX_TOOLS
from modules.llm_platform.domain.dtos.research_dtos import Depth, ResearchRequest
from modules.llm_platform.domain.site_names import MAX_SITES
from modules.llm_platform.domain.text.tokens import count_tokens
from modules.llm_platform.presentation.rest.chat_routes import chat_events
from modules.llm_platform.presentation.rest.compat import chat_completions, client_tools, dialect, structured
from modules.llm_platform.presentation.rest.compat.anthropic import models
from modules.llm_platform.presentation.rest.compat.anthropic.blocks import MessageBlocks
from modules.llm_platform.presentation.rest.compat.anthropic.stream import (
    ChatStream,
    MessageHead,
    ResearchStream,
    error_object,
    llm_end,
    research_end,
)
from modules.llm_platform.presentation.rest.compat.openai.models import DEPTHS, ModelName, find_llm
from modules.llm_platform.presentation.rest.compat.openai.response_llm import llm_request
from modules.llm_platform.presentation.rest.compat.openai.responses import ERROR_STATUSES
from modules.llm_platform.presentation.rest.http import responses
from modules.llm_platform.presentation.rest.http.body import read_body
from modules.llm_platform.presentation.rest.http.sse import EventStream, stream_research
from shared.exceptions import AppException

MAX_BLOCKS: Final = 1000  # of one message: an answer of ours has one for each cited sentence
DEEP_SEARCHES: Final = 3
NO_SERVER_TOOLS: Final = "a research model has no such tool: it searches and reads by itself. Leave it out"
CLIENT_TYPES: Final = ("bash_", "computer_", "memory_", "text_editor_")
LLM_TOOLS: Final = "a language model has no tools here: use /v1/chat/completions, or a research model, which searches by itself"
LLM_IGNORED: Final = ("tool_choice", "output_config")
TOOL_RESULT: Final = "tool_result"
SERVED_TOOLS: Final = ("web_search", "web_fetch")
LLM_FORMAT: Final = "a language model has no formats here: use /v1/chat/completions, or a research model"
ONLY_TEXT: Final = "only blocks of text are read: put the content of files into the text"
WEB_SEARCH_PATTERN: Final = r"^web_search_\d{8}$"  # as JSON Schema writes it
WEB_SEARCH: Final = re.compile(r"web_search_\d{8}\Z")
WEB_FETCH: Final = re.compile(r"web_fetch_\d{8}\Z")  # a research run reads the pages that it finds


class ContentBlock(BaseModel, frozen=True):
    """A part of a message. Of earlier answers only the text is read."""

    type: Annotated[str, Field(max_length=100)]
    text: str | None = None


class AnthropicTurn(BaseModel, frozen=True):
    """One turn of a conversation."""

    role: Literal["user", "assistant", "system"]
    content: str | Annotated[tuple[ContentBlock, ...], Field(max_length=MAX_BLOCKS)]

    def completion_message(self, field: str) -> chat_completions.CompletionMessage:
        """Return the text. Raises InvalidRequestError that names the field if the user sends something else too."""
        if isinstance(self.content, str):
            return chat_completions.CompletionMessage(role=self.role, content=self.content)
        if self.role != "assistant" and any(block.type not in ("text", TOOL_RESULT) for block in self.content):
            raise chat_completions.refused(field, ONLY_TEXT)
        texts = [block.text or "" for block in self.content if block.type == "text"]
        if self.role == "user" and self.content and not texts:
            return chat_completions.OpenaiMessage(role=chat_completions.TOOL)
        # The blocks of an answer of ours are one text.
        return chat_completions.CompletionMessage(
            role=self.role, content=("" if self.role == "assistant" else "\n").join(texts)
        )


class AnthropicWebSearch(BaseModel, extra="allow", frozen=True):
    """The tool `web_search` of any date, which a research run does anyway; the options restrict it."""

    type: Annotated[str, Field(pattern=WEB_SEARCH_PATTERN)]
    allowed_domains: dialect.Sites | None = None
    blocked_domains: dialect.Sites | None = None
    max_uses: int | None = Field(default=None, ge=1, strict=True)
    user_location: dict[str, Any] | None = None


class AnthropicTool(BaseModel, extra="allow", frozen=True):
    """Another tool."""

    type: Annotated[str, Field(json_schema_extra={"not": {"pattern": WEB_SEARCH_PATTERN}})] | None = None
    name: str | None = None

    @property
    def is_of_client(self) -> bool:
        """Whether the client runs it: a function, or a tool that the vendor's models were trained on."""
        return self.type in (None, "custom") or self.type.startswith(CLIENT_TYPES)


def _kind_of_tool(tool: Any) -> str:
    kind = tool.get("type") if isinstance(tool, dict) else getattr(tool, "type", None)
    return "web_search" if isinstance(kind, str) and WEB_SEARCH.fullmatch(kind) else "tool"


Tool = Annotated[
    Annotated[AnthropicWebSearch, Tag("web_search")] | Annotated[AnthropicTool, Tag("tool")], Discriminator(_kind_of_tool)
]


class AnthropicToolChoice(BaseModel, extra="allow", frozen=True):
    """Which tool to call. A research run searches in any case."""

    type: Annotated[str, Field(max_length=100)]
    name: str | None = None


class AnthropicOutputConfig(BaseModel, extra="allow", frozen=True):
    """How to answer: `format` has a JSON Schema."""

    format: dict[str, Any] | None = None


class AnthropicTokensRequest(dialect.DialectBody, frozen=True):
    """A conversation. The model is a research run, or a configured language model."""

    model: ModelName
    messages: Annotated[tuple[AnthropicTurn, ...], Field(min_length=1, max_length=MAX_MESSAGES)]
    system: str | Annotated[tuple[ContentBlock, ...], Field(max_length=MAX_BLOCKS)] | None = None
    tools: Annotated[tuple[Tool, ...], Field(max_length=MAX_TOOLS)] | None = None

    @property
    def conversation(self) -> tuple[chat_completions.CompletionMessage, ...]:
        """The conversation with the system prompt before it."""
        turns = tuple(turn.completion_message(f"messages.{place}.content") for place, turn in enumerate(self.messages))
        if not self.system:
            return turns
        return (AnthropicTurn(role="system", content=self.system).completion_message("system"), *turns)


class AnthropicMessagesRequest(AnthropicTokensRequest, frozen=True):
    """A conversation that ends with a question."""

    max_tokens: int = Field(ge=1, strict=True)
    stream: bool | None = Field(default=None, strict=True)
    tool_choice: AnthropicToolChoice | None = None
    output_config: AnthropicOutputConfig | None = None
    output_format: dict[str, Any] | None = None

    @property
    def answer_format(self) -> tuple[dict[str, Any] | None, str]:
        """The format of the answer, and the name of its field, which the SDKs of another date send as `output_format`."""
        if self.output_config is not None and self.output_config.format is not None:
            return self.output_config.format, "output_config.format"
        return self.output_format, "output_format"

    def refuse_server_tools(self) -> None:
        """Raise for a tool of the vendor's own that a research run does not have."""
        for tool in self.tools or ():
            if isinstance(tool, AnthropicTool) and not tool.is_of_client and not WEB_FETCH.fullmatch(tool.type or ""):
                raise chat_completions.refused("tools", NO_SERVER_TOOLS)

    @property
    def sent_tools(self) -> list[dict[str, Any]]:
        """The tools, in their order; those of the server say so by their type."""
        return [tool.model_dump() for tool in self.tools or ()]

    @property
    def forcing_choice(self) -> dict[str, Any] | None:
        """The choice, unless it names a search, which a research run makes anyway."""
        choice = self.tool_choice
        if choice is None or (choice.type == "tool" and choice.name in SERVED_TOOLS):
            return None
        return choice.model_dump()

    @property
    def searches(self) -> tuple[AnthropicWebSearch, ...]:
        """The web searches among the tools."""
        return tuple(tool for tool in self.tools or () if isinstance(tool, AnthropicWebSearch))

    @property
    def domains(self) -> tuple[str, ...]:
        allowed = [domain for tool in self.searches for domain in tool.allowed_domains or ()]
        blocked = [f"-{domain}" for tool in self.searches for domain in tool.blocked_domains or ()]
        if allowed and blocked:
            raise chat_completions.refused("tools", "allowed_domains and blocked_domains cannot be used together")
        return tuple(allowed or blocked)[:MAX_SITES]

    @property
    def depth(self) -> Depth:
        """The depth of the model. A deep research that may search once or twice is a shallow one, which searches once."""
        uses = [tool.max_uses for tool in self.searches if tool.max_uses]
        return chat_completions.depth_within(DEPTHS[self.model], min(uses, default=None), DEEP_SEARCHES)

    def ignored_by_research(self, tool: client_tools.ForcedTool | None) -> Iterator[str]:
        """The names of the fields that do not change all that they ask for."""
        yield "max_tokens"
        if any(tool.max_uses for tool in self.searches) and self.depth != "shallow":
            yield "tools.max_uses"
        if any(tool.user_location for tool in self.searches):
            yield "tools.user_location"
        others = [other for other in self.tools or () if isinstance(other, AnthropicTool)]
        if any(not other.is_of_client for other in others):
            yield "tools.web_fetch"
        if sum(other.is_of_client for other in others) > (tool is not None):
            yield "tools"
        if tool is None:
            yield "tool_choice"
        else:
            yield "output_format"
        if self.output_config is not None and (tool or self.output_config.model_extra):
            yield "output_config"


class AnthropicMessage(BaseModel, extra="allow"):
    """A message. Its blocks of text together are the answer; those of cited sentences have the verified quotes."""

    id: str
    type: str
    role: str
    model: str
    content: list[dict[str, Any]]
    stop_reason: str | None
    stop_sequence: str | None
    usage: dict[str, Any]


class AnthropicTokens(BaseModel):
    """The number of tokens, as this server counts them."""

    input_tokens: int


@models.router.post(
    "/messages",
    **dialect.declaration(
        "Answer a question, for clients of Anthropic",
        AnthropicMessagesRequest,
        AnthropicMessage,
        ERROR_STATUSES,
        "The message; as a stream, the events message_start to message_stop.",
    ),
)
async def create_message(request: Request) -> Response:
    body = await read_body(request, AnthropicMessagesRequest)
    head = MessageHead(responses.request_id(request), body.model)
    return await (_research if body.model in DEPTHS else _chat)(request, body, head)


@models.router.post(
    "/messages/count_tokens",
    **dialect.declaration(
        "Count the tokens of a conversation, for clients of Anthropic",
        AnthropicTokensRequest,
        AnthropicTokens,
        ERROR_STATUSES,
    ),
)
async def count_message_tokens(request: Request) -> Response:
    body = await read_body(request, AnthropicTokensRequest)
    if body.model not in DEPTHS:
        find_llm(request, body.model)
    return dialect.json_answer({"input_tokens": sum(count_tokens(each.text) for each in body.conversation)}, body, "tools")


async def _research(request: Request, body: AnthropicMessagesRequest, head: MessageHead) -> Response:
    body.refuse_server_tools()
    tool = client_tools.forced_tool(request, body.sent_tools, body.forcing_choice)
    question = _question(request, body, tool)
    is_json, name = question.output_schema is not None, tool.name if tool else ""
    blocks = MessageBlocks(head.request_id, question.query, is_json=is_json, tool=name)
    ignored = tuple(body.ignored_by_research(tool))
    if body.stream:
        stream = await stream_research(request, question, ResearchStream(head, blocks))
        return dialect.report_ignored(stream, body, *ignored)
    content: list[dict[str, Any]] = []

    def note(event: ResearchEvent) -> None:
        content.extend(blocks.of(event))

    answer = await responses.run_research(request, question, note)
    content.extend(blocks.text(answer))
    return dialect.json_answer(head.message(content, research_end(answer, blocks.tool)), body, *ignored)


def _question(request: Request, body: AnthropicMessagesRequest, tool: client_tools.ForcedTool | None) -> ResearchRequest:
    conversation = body.conversation
    asked = chat_completions.length_up_to_question([turn.role for turn in conversation])
    place = ("messages", asked - 1 - (len(conversation) - len(body.messages)), "content")
    return chat_completions.research_request(
        conversation,
        body.depth,
        field=place,
        domains=body.domains,
        omit_raw=True,
        output_schema=tool.schema if tool else structured.schema_of(request, *body.answer_format),
    )


async def _chat(request: Request, body: AnthropicMessagesRequest, head: MessageHead) -> Response:
    model = find_llm(request, body.model)
    if body.tools:
        raise chat_completions.refused("tools", LLM_TOOLS)
    answer_format, field = body.answer_format
    if answer_format is not None:
        raise chat_completions.refused(field, LLM_FORMAT)
    prompt = llm_request(model, body.conversation, min(body.max_tokens, MAX_ANSWER_TOKENS))
    llm = responses.services(request).llm
    if body.stream:
        events = chat_events(llm, prompt, head.request_id)
        return dialect.report_ignored(await EventStream.start(request, events, ChatStream(head)), body, *LLM_IGNORED)
    answer = await responses.run_until_disconnect(request, llm.generate(prompt))
    content = [{"type": "text", "text": answer.content}]
    return dialect.json_answer(head.message(content, llm_end(answer)), body, *LLM_IGNORED)


def _format_error(error: AppException, problem: Mapping[str, Any]) -> tuple[int, Mapping[str, Any]]:
    return dialect.status_400(error), error_object(problem)


DIALECT: Final = dialect.Dialect(
    prefix="/anthropic",
    router=models.router,
    format_error=_format_error,
    request_id_header=b"request-id",
)
