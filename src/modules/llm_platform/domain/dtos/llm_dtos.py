"""A request to a language model and its answer."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.sent import SentKind

MAX_MESSAGES = 200
MAX_ANSWER_TOKENS = 131_072


class ConfiguredModel(NamedTuple):
    """A language model that requests can select: `provider` and `model` of an LLMRequest."""

    provider: str
    model: str


class ChatMessage(BaseModel):
    """One turn of a conversation."""

    model_config = ConfigDict(frozen=True)

    role: Literal["system", "user", "assistant"]
    content: str = Field(min_length=1)


class LLMRequest(BaseModel):
    """A prompt. `provider` and `model` select a configured model; they cannot name an address or a key.

    `max_tries` limits the calls, with retries and failover. `temperature` None: that of the service; LLM_TEMPERATURE replaces
    any other. `data_kind` is the kind of data for the egress log. `json_schema` is that of the answer, for services that write
    by one; others answer as the prompt says.
    """

    model_config = ConfigDict(frozen=True)

    messages: tuple[ChatMessage, ...] = Field(min_length=1, max_length=MAX_MESSAGES)
    provider: Annotated[str, StringConstraints(min_length=1, max_length=100)] | None = None
    model: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    max_tokens: int | None = Field(default=None, ge=1, le=MAX_ANSWER_TOKENS, strict=True)
    max_tries: int | None = Field(default=None, ge=1)
    # That of our own prompts. A chat of a user has none unless the user names one: see LLMService.
    temperature: float | None = Field(default=0.0, ge=0.0, le=2.0, strict=True, json_schema_extra={"default": None})
    data_kind: SentKind = "query"
    json_schema: dict[str, Any] | None = None


class Usage(BaseModel):
    """Tokens of one call, as the provider counted them (or as we count them if it does not report them)."""

    model_config = ConfigDict(frozen=True)

    prompt_tokens: int = 0
    completion_tokens: int = 0


class Spending(BaseModel):
    """The cost of several calls, with failed ones. `cost_usd` is None if one price is unknown."""

    model_config = ConfigDict(frozen=True)

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


NOTHING_SPENT = Spending()


class LLMResponse(BaseModel):
    """A complete answer: never empty, without reasoning blocks. `spent` counts all tries, `usage` the one that answered."""

    model_config = ConfigDict(frozen=True)

    content: str
    provider: str
    model: str
    finish_reason: str = "stop"
    usage: Usage = Usage()
    spent: Spending = NOTHING_SPENT
    degraded: tuple[Degraded, ...] = ()

    def after(self, spent: Spending, degraded: tuple[Degraded, ...]) -> Self:
        """The answer with the spending and the failures before it added."""
        return self.model_copy(update={"spent": spent + self.spent, "degraded": (*degraded, *self.degraded)})


class LLMToken(BaseModel):
    """The next part of a streamed answer."""

    model_config = ConfigDict(frozen=True)

    text: str


class LLMReset(BaseModel):
    """A model failed: all tokens so far are void, the next model starts. `error` is the reason."""

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)

    error: Exception


LLMStreamPart = LLMToken | LLMReset | LLMResponse
