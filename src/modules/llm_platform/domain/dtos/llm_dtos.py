"""A request to a language model and its answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import BaseModel, Field, StringConstraints, field_validator
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import PydanticCustomError, to_json

from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.sent import SentKind

MAX_MESSAGES = 2000  # an agent sends its whole conversation with each call; the bytes of a request bound them too
MAX_PARTS = 1000  # parts of the content of a message
MAX_SCHEME_CHARS = 20  # longest scheme of an address, up to its ://
MAX_KEPT_CHARS = 524_288  # a kept conversation, as JSON
MAX_CHOICES = 8  # answers to one request
MAX_ANSWER_TOKENS = 131_072
MAX_TOOLS = 512  # tools of a request, and calls of them in a message
MAX_EXTRA_BYTES = 1 << 20  # JSON of the extra fields for the service
READER_STEP_S = 0.04  # A reader sees 25 steps a second. To pass on each token would cost a dozen layers of calls.
# What a caller may send to the service as it is. None of them names an address, a key or a model.
EXTRA_FIELDS = frozenset(
    {
        "chat_template_kwargs",
        "enable_thinking",
        "frequency_penalty",
        "logit_bias",
        "logprobs",
        "min_p",
        "min_tokens",
        "n",
        "parallel_tool_calls",
        "presence_penalty",
        "prompt_cache_key",
        "reasoning_effort",
        "repetition_penalty",
        "response_format",
        "seed",
        "stop",
        "thinking",
        "tool_choice",
        "tools",
        "top_k",
        "top_logprobs",
        "top_p",
        "verbosity",
    }
)


class ConfiguredModel(NamedTuple):
    """A language model that requests can select by `provider` and `model` of an LLMRequest.

    - `ignored_fields` are the fields of a request that are never sent to its service.
    - `is_complete` is True if no setting is missing, so that it can be called.
    """

    provider: str
    model: str
    ignored_fields: tuple[str, ...] = ()
    is_complete: bool = True

    @property
    def full_name(self) -> str:
        return f"{self.provider}/{self.model}"


class ChatMessage(BaseModel, frozen=True):
    """One turn of a conversation. Any content may be empty.

    - `tool_calls` are calls of the caller's tools by the assistant, in OpenAI's form. The result of each call is a turn of a
      `tool`, with the id of the call.
    - `parts` are a content that also has images or files, in OpenAI's form. The service gets them instead of `content`,
      which is their text. They contain their data: an address would be fetched from where the service runs.
    - `reasoning` is what the assistant thought before, for models that want it back.
    """

    role: Literal["system", "user", "assistant", "tool"]
    tool_calls: tuple[dict[str, Any], ...] = Field(default=(), max_length=MAX_TOOLS)
    tool_call_id: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    name: Annotated[str, StringConstraints(max_length=200)] | None = None
    reasoning: str = ""
    parts: tuple[dict[str, Any], ...] = Field(default=(), max_length=MAX_PARTS)
    content: str

    @field_validator("parts")
    @classmethod
    def _bring_their_data(cls, parts: tuple[dict[str, Any], ...]) -> tuple[dict[str, Any], ...]:
        for part in parts:
            kind = part.get("type")
            if not isinstance(kind, str) or kind not in _DATA_OF_PART:
                raise PydanticCustomError("unsupported", "must have the type text, image_url, input_audio or file")
            if not _brings_data(part):
                raise PydanticCustomError(
                    "unsupported", "must contain its data: send a data: URL or base64, not an address"
                )
        return parts


# The kinds of parts: where each has its data, and whether it must be a data: URL.
_DATA_OF_PART: Mapping[str, tuple[str, str, bool] | None] = {
    "text": None,
    "image_url": ("image_url", "url", True),
    "input_audio": ("input_audio", "data", False),
    "file": ("file", "file_data", False),
}


def _brings_data(part: Mapping[str, Any]) -> bool:
    """Return whether a part has its data and nothing that refers to other data."""
    position = _DATA_OF_PART[part["type"]]
    if position is None:
        return isinstance(part.get("text"), str)
    level, name, is_url = position
    inner = part.get(level)
    data = inner.get(name) if isinstance(inner, dict) else None
    if not isinstance(data, str) or not isinstance(inner, dict) or "file_id" in inner:
        return False
    return data[:5].lower() == "data:" if is_url else "://" not in data[:MAX_SCHEME_CHARS]


class Relay(NamedTuple):
    """What a caller reads who gets the bytes of the service's answer: a stream or one JSON object, with a chunk of usage."""

    streams: bool = False
    includes_usage: bool = False


class LLMRequest(BaseModel, frozen=True):
    """A prompt for a language model.

    - `provider` and `model` select a configured model; they cannot name an address or a key.
    - `max_tries` limits the calls, with retries and failover.
    - `temperature` None leaves the choice to the service; LLM_TEMPERATURE replaces any other.
    - `data_kind` is the kind of data for the egress log.
    - `json_schema` is the schema of the answer, for services that write by one; others answer as the prompt says.
    - `is_callers_schema` is True if the schema is not ours, so that a service that refuses it may accept others.
    - `extra` are EXTRA_FIELDS of a caller for the service, which gets them unchanged.
    - `as_it_comes` is True for a program that reads the answer as the service writes it, with its reasoning, even if it is
      empty.
    - `step_s` is the time in seconds for which the parts of a stream are gathered before they are passed on.
    - `relay` asks for the bytes of the service's answer, in `LLMToken.raw`. The service then gets no wish of ours: it streams,
      and counts its tokens, only if the caller wants that.
    """

    messages: tuple[ChatMessage, ...] = Field(min_length=1, max_length=MAX_MESSAGES)
    provider: Annotated[str, StringConstraints(min_length=1, max_length=100)] | None = None
    model: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    max_tokens: int | None = Field(default=None, ge=1, le=MAX_ANSWER_TOKENS, strict=True)
    max_tries: int | None = Field(default=None, ge=1)
    # The default is for our own prompts. A user's chat has no temperature unless the user names one: see LLMService.
    temperature: float | None = Field(default=0.0, ge=0.0, le=2.0, strict=True, json_schema_extra={"default": None})
    data_kind: SentKind = "query"
    json_schema: dict[str, Any] | None = None
    is_callers_schema: bool = False
    extra: dict[str, Any] = Field(default_factory=dict)
    as_it_comes: bool = False
    step_s: float = Field(default=READER_STEP_S, exclude=True)  # equal requests of other steps are the same request
    relay: SkipJsonSchema[Relay | None] = None

    @property
    def choices(self) -> int:
        """The number of answers that the caller asks for."""
        wished = self.extra.get("n")
        return wished if isinstance(wished, int) and 1 <= wished <= MAX_CHOICES else 1

    @field_validator("extra")
    @classmethod
    def _refuse_other_fields(cls, extra: dict[str, Any]) -> dict[str, Any]:
        if not extra.keys() <= EXTRA_FIELDS:
            raise PydanticCustomError("extra_forbidden", "has a field that is not forwarded")
        if extra and len(to_json(extra)) > MAX_EXTRA_BYTES:
            raise PydanticCustomError("too_long", "must have at most 1 MiB")
        return extra


class Usage(BaseModel, frozen=True):
    """Tokens of one call, as the provider counted them (or as we count them if it does not report them).

    `cached_tokens` are those of the prompt that it did not read again, `reasoning_tokens` those of the answer that are not
    shown; None: not reported. Only the compatible interfaces tell them.
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: SkipJsonSchema[int | None] = Field(default=None, exclude=True)
    reasoning_tokens: SkipJsonSchema[int | None] = Field(default=None, exclude=True)


class Spending(BaseModel, frozen=True):
    """The cost of several calls, with failed ones.

    `cost_usd` is None if the price of a call is unknown, or if a call was cut off: nobody counted its tokens. If that is the
    only reason, `is_cost_cut_off` is True. This field is not part of the JSON.
    """

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = 0.0
    is_cost_cut_off: SkipJsonSchema[bool] = Field(default=False, exclude=True, repr=False)

    @classmethod
    def of_unfinished_call(cls, *, is_free: bool) -> Spending:
        """Return a call that ended without an answer. Its tokens are unknown, and so is its cost unless the model is free."""
        return cls(calls=1, cost_usd=0.0 if is_free else None, is_cost_cut_off=not is_free)

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens

    def __add__(self, other: Spending) -> Spending:
        unknown = [spent for spent in (self, other) if spent.cost_usd is None]
        return Spending(
            calls=self.calls + other.calls,
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            cost_usd=None if unknown else (self.cost_usd or 0.0) + (other.cost_usd or 0.0),
            is_cost_cut_off=bool(unknown) and all(spent.is_cost_cut_off for spent in unknown),
        )

    def metadata(self) -> dict[str, Any]:
        """Return the fields of ResearchMetadata that say the same."""
        return {
            "tokens_used": self.tokens,
            "llm_calls": self.calls,
            "is_cost_cut_off": self.is_cost_cut_off,
            **self.model_dump(exclude={"calls"}),
        }


NOTHING_SPENT = Spending()


class LLMResponse(BaseModel, frozen=True):
    """A complete answer without reasoning blocks: it has content, or `tool_calls` of the caller's tools in OpenAI's form.

    - `spent` counts all tries, and `usage` the try that answered.
    - `reasoning` is set if the caller reads the answer unchanged; such an answer may be empty.
    - `others`: the remaining choices when `n > 1`.
    - `logprobs`: as requested by the client.
    """

    content: str
    provider: str
    model: str
    tool_calls: tuple[dict[str, Any], ...] = ()
    reasoning: str = ""
    logprobs: tuple[dict[str, Any], ...] = ()
    others: tuple[LLMResponse, ...] = ()
    finish_reason: str = "stop"
    usage: Usage = Usage()
    spent: Spending = NOTHING_SPENT
    degraded: tuple[Degraded, ...] = ()

    def after(self, spent: Spending, degraded: tuple[Degraded, ...]) -> Self:
        """Return the answer with the spending and the failures before it added."""
        return self.model_copy(update={"spent": spent + self.spent, "degraded": (*degraded, *self.degraded)})


class KeptTurns(BaseModel, frozen=True):
    """A conversation with a language model, up to its last answer."""

    turns: tuple[ChatMessage, ...]


class LLMToken(BaseModel, frozen=True):
    """The next part of a streamed answer: text, or parts of `tool_calls`, which each name the `index` of their call.

    Of an answer as it comes also `reasoning` and `logprobs`; `choice` is its number where the caller asks for several.
    A relayed token has in `raw` the whole events of the service, or its whole JSON object, and in `text` the text of its first
    choice as the service wrote it.
    """

    text: str
    tool_calls: tuple[dict[str, Any], ...] = ()
    reasoning: str = ""
    logprobs: tuple[dict[str, Any], ...] = ()
    choice: int = 0
    raw: bytes = b""


class LLMReset(BaseModel, arbitrary_types_allowed=True, frozen=True):
    """A model failed: all tokens so far are void, the next model starts. `error` is the reason."""

    error: Exception


LLMStreamPart = LLMToken | LLMReset | LLMResponse
