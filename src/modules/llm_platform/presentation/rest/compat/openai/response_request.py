"""The request of OpenAI's Responses API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import BaseModel, Field, StringConstraints

from modules.llm_platform.domain.dtos.llm_dtos import MAX_ANSWER_TOKENS
from modules.llm_platform.domain.dtos.request_dtos import Depth, PreviousId
from modules.llm_platform.domain.urls.site_names import MAX_SITES
from modules.llm_platform.presentation.rest.compat import chat_completions, dialect
from modules.llm_platform.presentation.rest.compat.client_tools import ForcedTool
from modules.llm_platform.presentation.rest.compat.openai.models import ModelName
from modules.llm_platform.presentation.rest.compat.openai.response_writer import SOURCES
from modules.llm_platform.presentation.rest.compat.responses import inputs

MAX_TOOL_CALLS: Final = 1_000_000
MAX_METADATA: Final = 16  # the vendor's limits
MAX_METADATA_KEY_CHARS: Final = 64
MAX_METADATA_CHARS: Final = 512
MAX_INCLUDES: Final = 20
DEEP_SEARCHES: Final = 6  # a deep research run makes at most this many
SEARCHES: Final = ("web_search", "web_search_2025_08_26", "web_search_preview", "web_search_preview_2025_03_11")
SERVED_OPTIONS: Final = {"type", "filters"}  # options of a search
CODE_INTERPRETER: Final = "code_interpreter"  # examples of deep research send it along; a research run computes nothing
# Options of a language model.
SAMPLING: Final = ("temperature", "top_p", "tool_choice", "parallel_tool_calls", "reasoning")
FUNCTION: Final[dict[str, Any]] = {"type": "function", "description": None, "parameters": None, "strict": False}


class WebSearchFilters(BaseModel, frozen=True):
    """The only domains to search."""

    allowed_domains: dialect.Sites | None = None


class WebSearchTool(BaseModel, frozen=True):
    """A web search. A research run searches in any case, and only the domains have an effect."""

    filters: WebSearchFilters | None = None


Metadata = Annotated[
    dict[
        Annotated[str, StringConstraints(max_length=MAX_METADATA_KEY_CHARS)],
        Annotated[str, StringConstraints(max_length=MAX_METADATA_CHARS)],
    ],
    Field(max_length=MAX_METADATA),
]


class OpenaiResponsesRequest(dialect.DialectBody, frozen=True):
    """A question, or a conversation that ends with one."""

    model: ModelName
    input: inputs.Input
    instructions: str | None = None
    previous_response_id: PreviousId | None = None
    background: bool | None = Field(default=None, strict=True)
    store: bool | None = Field(default=None, strict=True)
    stream: bool | None = Field(default=None, strict=True)
    include: Annotated[tuple[str, ...], Field(max_length=MAX_INCLUDES)] | None = None
    max_output_tokens: int | None = Field(default=None, ge=1, le=MAX_ANSWER_TOKENS, strict=True)
    max_tool_calls: int | None = Field(default=None, ge=1, le=MAX_TOOL_CALLS, strict=True)
    metadata: Metadata | None = None
    tools: inputs.Tools | None = None
    text: dict[str, Any] | None = None
    response_format: dict[str, Any] | None = None
    temperature: float | None = Field(default=None, ge=0, le=2, strict=True)
    top_p: float | None = Field(default=None, ge=0, le=1, strict=True)
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = Field(default=None, strict=True)
    reasoning: dict[str, Any] | None = None

    @property
    def text_format(self) -> Mapping[str, Any] | None:
        """The format of the text, which some clients send as chat completions have it."""
        text_format = (self.text or {}).get("format")
        return text_format if isinstance(text_format, dict) else self.response_format

    @property
    def format_field(self) -> str:
        return "text.format" if isinstance((self.text or {}).get("format"), dict) else "response_format"

    @property
    def echo(self) -> dict[str, Any]:
        """The fields that the response repeats."""
        return {
            "instructions": self.instructions,
            "max_output_tokens": self.max_output_tokens,
            "max_tool_calls": self.max_tool_calls,
            "metadata": self.metadata or {},
            "previous_response_id": self.previous_response_id,
            "text": {"format": self.text_format or {"type": "text"}},
            "tools": [FUNCTION | tool if tool.get("type") == "function" else tool for tool in self.tools or ()],
            **self.model_dump(
                include={"temperature", "top_p", "tool_choice", "parallel_tool_calls"}, exclude_none=True
            ),
        }

    @property
    def domains(self) -> tuple[str, ...]:
        """The only domains to search. Raises InvalidRequestError for a tool that a research run does not have."""
        known = dict.fromkeys(SEARCHES, WebSearchTool)
        searches = inputs.read_served_tools(self.tools or (), known, frozenset({CODE_INTERPRETER}))
        filters = [tool.filters for tool in searches if isinstance(tool, WebSearchTool) and tool.filters]
        return tuple(domain for tool_filter in filters for domain in tool_filter.allowed_domains or ())[:MAX_SITES]

    def depth_within(self, depth: Depth) -> Depth:
        """Return the depth of a run of a model of this depth that makes no more searches than `max_tool_calls`."""
        return chat_completions.depth_within(depth, self.max_tool_calls, DEEP_SEARCHES)

    def list_ignored_fields(self, depth: Depth, tool: ForcedTool | None) -> tuple[str, ...]:
        """Return the names of the fields that do not change all that they ask for in a research run of this depth."""
        others = [other for other in self.tools or () if tool is None or other.get("name") != tool.name]
        partly = {
            "tools": any(not other.keys() <= SERVED_OPTIONS or other["type"] == CODE_INTERPRETER for other in others),
            "max_tool_calls": self.max_tool_calls is not None and depth == "report",
            "include": bool(set(self.include or ()) - {SOURCES}),
        }
        names = ("max_output_tokens", *SAMPLING, *(name for name, is_partly in partly.items() if is_partly))
        return names if tool is None else (*(name for name in names if name != "tool_choice"), "text")
