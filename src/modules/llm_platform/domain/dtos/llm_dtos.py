"""A request to a language model and its answer."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import BaseModel, Field, StringConstraints, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError, to_json

from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.sent import SentKind

MAX_MESSAGES = 200
MAX_ANSWER_TOKENS = 131_072
MAX_TOOLS = 512  # of a request, and calls of them in a message
MAX_EXTRA_BYTES = 262_144  # of the fields for the service, as JSON
# What a caller may send to the service as it is. None of them names an address, a key or a model.
EXTRA_FIELDS = frozenset(
    {
        "frequency_penalty", "parallel_tool_calls", "presence_penalty", "reasoning_effort", "response_format", "seed", "stop",
        "tool_choice", "tools", "top_p",
    }
)


class ConfiguredModel(NamedTuple):
    """A language model that requests can select: `provider` and `model` of an LLMRequest.

    `ignored_fields` are those of a request that its service is never sent. `is_complete`: no setting is missing, so that it
    can be called.
    """

    provider: str
    model: str
    ignored_fields: tuple[str, ...] = ()
    is_complete: bool = True

    @property
    def full_name(self) -> str:
        return f"{self.provider}/{self.model}"


class ChatMessage(BaseModel, frozen=True):
    """One turn of a conversation. A turn of the assistant may call tools of the caller (`tool_calls`, in OpenAI's form); the
    result of each call is a turn of a `tool`, with the id of the call. Only a turn with calls may have no content.
    """

    role: Literal["system", "user", "assistant", "tool"]
    tool_calls: tuple[dict[str, Any], ...] = Field(default=(), max_length=MAX_TOOLS)
    tool_call_id: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    content: str

    @field_validator("content")
    @classmethod
    def _says_something(cls, content: str, info: ValidationInfo) -> str:
        if not content and not info.data.get("tool_calls"):
            raise PydanticCustomError("string_too_short", "must have at least 1 character")
        return content


class LLMRequest(BaseModel, frozen=True):
    """A prompt. `provider` and `model` select a configured model; they cannot name an address or a key.

    `max_tries` limits the calls, with retries and failover. `temperature` None: that of the service; LLM_TEMPERATURE replaces
    any other. `data_kind` is the kind of data for the egress log. `json_schema` is that of the answer, for services that write
    by one; others answer as the prompt says. `is_callers_schema`: it is none of ours, so a service that refuses it may take
    others. `extra` are EXTRA_FIELDS of a caller for the service, which gets them as they are.
    """

    messages: tuple[ChatMessage, ...] = Field(min_length=1, max_length=MAX_MESSAGES)
    provider: Annotated[str, StringConstraints(min_length=1, max_length=100)] | None = None
    model: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    max_tokens: int | None = Field(default=None, ge=1, le=MAX_ANSWER_TOKENS, strict=True)
    max_tries: int | None = Field(default=None, ge=1)
    # That of our own prompts. A chat of a user has none unless the user names one: see LLMService.
    temperature: float | None = Field(default=0.0, ge=0.0, le=2.0, strict=True, json_schema_extra={"default": None})
    data_kind: SentKind = "query"
    json_schema: dict[str, Any] | None = None
    is_callers_schema: bool = False
    extra: dict[str, Any] = Field(default_factory=dict)

    @field_validator("extra")
    @classmethod
    def _is_allowed(cls, extra: dict[str, Any]) -> dict[str, Any]:
        if not extra.keys() <= EXTRA_FIELDS:
            raise PydanticCustomError("extra_forbidden", "has a field that is not forwarded")
        if extra and len(to_json(extra)) > MAX_EXTRA_BYTES:
            raise PydanticCustomError("too_long", "must have at most 256 KiB")
        return extra


class Usage(BaseModel, frozen=True):
    """Tokens of one call, as the provider counted them (or as we count them if it does not report them)."""

    prompt_tokens: int = 0
    completion_tokens: int = 0


class Spending(BaseModel, frozen=True):
    """The cost of several calls, with failed ones. `cost_usd` is None if one price is unknown."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = 0.0

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens

    def __add__(self, other: Spending) -> Spending:
        unknown = self.cost_usd is None or other.cost_usd is None
        return Spending(
            calls=self.calls + other.calls,
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            cost_usd=None if unknown else (self.cost_usd or 0.0) + (other.cost_usd or 0.0),
        )

    def metadata(self) -> dict[str, Any]:
        """The fields of ResearchMetadata that say the same."""
        return {"tokens_used": self.tokens, "llm_calls": self.calls, **self.model_dump(exclude={"calls"})}


NOTHING_SPENT = Spending()


class LLMResponse(BaseModel, frozen=True):
    """A complete answer without reasoning blocks: it has content, or `tool_calls` of the caller's tools in OpenAI's form.

    `spent` counts all tries, `usage` the one that answered.
    """

    content: str
    provider: str
    model: str
    tool_calls: tuple[dict[str, Any], ...] = ()
    finish_reason: str = "stop"
    usage: Usage = Usage()
    spent: Spending = NOTHING_SPENT
    degraded: tuple[Degraded, ...] = ()

    def after(self, spent: Spending, degraded: tuple[Degraded, ...]) -> Self:
        """The answer with the spending and the failures before it added."""
        return self.model_copy(update={"spent": spent + self.spent, "degraded": (*degraded, *self.degraded)})


class LLMToken(BaseModel, frozen=True):
    """The next part of a streamed answer: text, or parts of `tool_calls`, which each name the `index` of their call."""

    text: str
    tool_calls: tuple[dict[str, Any], ...] = ()


class LLMReset(BaseModel, arbitrary_types_allowed=True, frozen=True):
    """A model failed: all tokens so far are void, the next model starts. `error` is the reason."""

    error: Exception


LLMStreamPart = LLMToken | LLMReset | LLMResponse
