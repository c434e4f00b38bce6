"""The request of Anthropic's Messages API.

Reference of the vendor: https://docs.anthropic.com/en/api/messages
"""

import re
from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, Discriminator, Field, Tag

from modules.llm_platform.domain.dtos.llm_dtos import MAX_MESSAGES, MAX_TOOLS
from modules.llm_platform.domain.dtos.request_dtos import Depth
from modules.llm_platform.domain.urls.site_names import MAX_SITES
from modules.llm_platform.presentation.rest.compat import chat_completions, client_tools, dialect
from modules.llm_platform.presentation.rest.compat.openai.models import ModelName

MAX_STOPS: Final = 16
MAX_BLOCKS: Final = 1000  # blocks of one message: an answer of ours has one for each cited sentence
DEEP_SEARCHES: Final = 3
CLIENT_TYPES: Final = ("bash_", "computer_", "memory_", "text_editor_")
SERVED_TOOLS: Final = ("web_search", "web_fetch")
WEB_SEARCH_PATTERN: Final = r"^web_search_\d{8}$"  # written as JSON Schema does
WEB_SEARCH: Final = re.compile(r"web_search_\d{8}\Z")
WEB_FETCH: Final = re.compile(r"web_fetch_\d{8}\Z")  # a research run reads the pages that it finds


class ContentBlock(BaseModel, extra="allow", frozen=True):
    """A part of a message. A research run reads the text alone."""

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
        if self.role != "assistant" and any(block.type not in ("text", "tool_result") for block in self.content):
            raise chat_completions.make_refusal(
                field, "only blocks of text are read: put the content of files into the text"
            )
        texts = [block.text or "" for block in self.content if block.type == "text"]
        if self.role == "user" and self.content and not texts:
            return chat_completions.OpenaiMessage(role=chat_completions.TOOL)
        # The blocks of an answer of ours are one text.
        return chat_completions.CompletionMessage(
            role=self.role, content=("" if self.role == "assistant" else "\n").join(texts)
        )


class AnthropicWebSearch(BaseModel, extra="allow", frozen=True):
    """The tool `web_search` of any version. A research run searches in any case, and the options restrict the search."""

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
        """True if the client runs the tool: a function, or a tool that the vendor's models were trained on."""
        return self.type in (None, "custom") or self.type.startswith(CLIENT_TYPES)


def _find_kind_of_tool(tool: Any) -> str:
    kind = tool.get("type") if isinstance(tool, dict) else getattr(tool, "type", None)
    return "web_search" if isinstance(kind, str) and WEB_SEARCH.fullmatch(kind) else "tool"


Tool = Annotated[
    Annotated[AnthropicWebSearch, Tag("web_search")] | Annotated[AnthropicTool, Tag("tool")],
    Discriminator(_find_kind_of_tool),
]


class AnthropicToolChoice(BaseModel, extra="allow", frozen=True):
    """Names the tool to call. A research run searches in any case."""

    type: Annotated[str, Field(max_length=100)]
    name: str | None = None


class AnthropicOutputConfig(BaseModel, extra="allow", frozen=True):
    """The form of the answer. `format` has a JSON Schema."""

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
        turns = tuple(
            turn.completion_message(f"messages.{position}.content") for position, turn in enumerate(self.messages)
        )
        if not self.system:
            return turns
        return (AnthropicTurn(role="system", content=self.system).completion_message("system"), *turns)


class AnthropicMessagesRequest(AnthropicTokensRequest, frozen=True):
    """A conversation that ends with a question."""

    max_tokens: int = Field(ge=1, strict=True)
    stop_sequences: Annotated[tuple[str, ...], Field(max_length=MAX_STOPS)] | None = None
    temperature: float | None = Field(default=None, ge=0, le=1, strict=True)
    top_p: float | None = Field(default=None, ge=0, le=1, strict=True)
    top_k: int | None = Field(default=None, ge=0, strict=True)
    thinking: dict[str, Any] | None = None
    stream: bool | None = Field(default=None, strict=True)
    tool_choice: AnthropicToolChoice | None = None
    output_config: AnthropicOutputConfig | None = None
    output_format: dict[str, Any] | None = None

    @property
    def ignored_by_llm(self) -> Iterator[str]:
        """Yield the fields that a language model ignores. It thinks as it is set up: with no budget and no effort of the
        client.
        """
        if not self.tools:
            yield "tool_choice"
        if self.shows_thinking:
            yield "thinking"
        if self.output_config is not None and self.output_config.model_extra:
            yield "output_config"

    @property
    def shows_thinking(self) -> bool:
        """True if the client reads blocks of thinking."""
        return bool((self.thinking or {}).get("type", "disabled") != "disabled")

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
                raise chat_completions.make_refusal(
                    "tools", "a research model has no such tool: it searches and reads by itself. Leave it out"
                )

    @property
    def sent_tools(self) -> list[dict[str, Any]]:
        """The tools in their order. The type shows whether the server runs a tool."""
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
            raise chat_completions.make_refusal("tools", "allowed_domains and blocked_domains cannot be used together")
        return tuple(allowed or blocked)[:MAX_SITES]

    def depth_within(self, depth: Depth) -> Depth:
        """Return the depth of a run of a model of this depth. A deep one that may search once or twice is a shallow one,
        which searches once.
        """
        uses = [tool.max_uses for tool in self.searches if tool.max_uses]
        return chat_completions.depth_within(depth, min(uses, default=None), DEEP_SEARCHES)

    def list_ignored_fields(self, depth: Depth, tool: client_tools.ForcedTool | None) -> Iterator[str]:
        """Yield the names of the fields that do not change all that they ask for in a research run of this depth."""
        yield "max_tokens"
        if any(tool.max_uses for tool in self.searches) and depth != "shallow":
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
        yield from ("temperature", "top_p", "top_k", "stop_sequences", "thinking")
        if self.output_config is not None and (tool or self.output_config.model_extra):
            yield "output_config"
