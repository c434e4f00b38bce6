"""Parse chat answers as services really send them: complete or streamed, with fields missing, null or of another type.

Nothing here does I/O: the caller reads the network and enforces the timeouts. What is passed on is the text of an answer, the
calls of tools, token counts, and the reasoning and the probabilities of tokens if the request asks for them.
"""

import json
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain
from typing import Any, Final, Generic, NamedTuple, TypeVar

from pydantic_core import from_json

from modules.llm_platform.domain.dtos import llm_dtos as dtos
from modules.llm_platform.domain.exceptions import LLMProviderException
from modules.llm_platform.domain.llm.model_progress import ModelProgress
from modules.llm_platform.domain.privacy.redaction import MIN_SECRET_CHARS, Redactor
from modules.llm_platform.domain.text.repetition import RepetitionDetector
from modules.llm_platform.domain.text.tokens import count_tokens
from modules.llm_platform.infrastructure.models.kinds import LLMConnection
from modules.llm_platform.infrastructure.models.openai.reasoning import ReasoningFilter, ReasoningText

MAX_USAGE_TOKENS: Final = 100_000_000  # larger counts in `usage` are ignored as wrong
# Values of `finish_reason`. No service sends "repetition": the platform sets it when it stops a model that repeats itself.
LENGTH: Final = "length"
FILTERED: Final = "content_filter"
FAILED: Final = "error"
REPETITION: Final = "repetition"
_FINISH = {
    "length": LENGTH,
    "max_tokens": LENGTH,
    "content_filter": FILTERED,
    "tool_calls": "tool_calls",
    "error": FAILED,
}
_BLANK: Final = b"\xef\xbb\xbf \t\r\n"


class InvalidAnswerError(Exception):
    """The body is not a chat answer. The message says what it is instead, such as "a web page instead of JSON"."""


class ReportedError(Exception):
    """The service reports an error in a body with status 200. `body` is the value of its field `error`."""

    def __init__(self, body: object) -> None:
        super().__init__("an error inside an answer")
        self.body = body


class Delta(NamedTuple):
    """The content of one answer, or of one chunk of a streamed answer.

    A field that is None or empty was not sent.

    - `finish_reason` is one of stop, length, content_filter, tool_calls and error.
    - `prompt_tokens`, `completion_tokens`, `cached_tokens` and `reasoning_tokens` are the counts of the service.
    - `refused` is True if the service marks the answer as a refusal.
    - `tool_calls` are calls of tools, or parts of them, in the form of OpenAI's API.
    - `logprobs` are the probabilities of the tokens, as the service sends them.
    - `choice` is the number of the answer, from 0. A request may ask for several.
    - `others` are the deltas of further answers in the same chunk.
    """

    text: str = ""
    reasoning: str = ""
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    refused: bool = False
    tool_calls: tuple[dict[str, Any], ...] = ()
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    logprobs: tuple[dict[str, Any], ...] = ()
    choice: int = 0
    others: tuple["Delta", ...] = ()


EMPTY: Final = Delta()


def read_answer(body: bytes) -> Delta:
    """Return the content of the body of a complete answer.

    Raises ReportedError for an error that the service reports, and InvalidAnswerError for any other body.
    """
    body = body.lstrip(_BLANK)
    if body.startswith(b"<"):
        raise InvalidAnswerError("a web page instead of JSON")
    answer = _decode(body)
    if not isinstance(answer, dict):
        raise InvalidAnswerError("JSON that is no chat completion")
    delta = _read_delta(answer, "message")
    if delta is EMPTY:
        raise InvalidAnswerError("a chat completion without choices")
    return delta


def read_chunk(payload: bytes) -> Delta:
    """Return the content of one event of a streamed answer, or EMPTY if it has none. Raises the errors of `read_answer`."""
    return _read_chunk_delta(_decode(payload))


def decode_chunks(payload: bytes) -> list[Any]:
    """Return the JSON of one event: several values if the service omits the blank lines between events.

    Raises InvalidAnswerError.
    """
    try:
        return [_decode(payload)]
    except InvalidAnswerError:
        if b"\n" not in payload:
            raise
        return [_decode(line) for line in payload.split(b"\n")]


def _read_chunk_delta(chunk: Any) -> Delta:
    return _read_delta(chunk, "delta") if isinstance(chunk, dict) else EMPTY


def _decode(body: bytes) -> Any:
    """Decode JSON. Raises InvalidAnswerError.

    Invalid UTF-8 is replaced. Lone surrogates are accepted, since the other half of a pair may follow in the next chunk.
    """
    with suppress(ValueError):
        return from_json(body)
    try:
        return json.loads(body.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        raise InvalidAnswerError("broken JSON") from None


def _read_delta(answer: dict[str, Any], name: str) -> Delta:
    """Return the content of an answer or a chunk. `name` is the field of a choice that holds it: "message" or "delta"."""
    if answer.get("error"):
        raise ReportedError(answer["error"])
    choices, usage = answer.get("choices"), answer.get("usage")
    listed = choices[: dtos.MAX_CHOICES] if isinstance(choices, list) else []
    known = [choice for choice in listed if isinstance(choice, dict)]
    first = next((choice for choice in known if choice.get("index") in (0, None)), None)
    numbers = range(1, dtos.MAX_CHOICES)
    further = [choice for choice in known if type(choice.get("index")) is int and choice["index"] in numbers]
    others = tuple(_read_choice(choice, name) for choice in further)
    counted = _read_usage(usage) if usage else {}
    if first is None:
        return Delta(**counted, others=others) if others or (usage and name == "delta") else EMPTY
    return _read_choice(first, name, others, **counted)


def _read_choice(choice: dict[str, Any], name: str, others: tuple[Delta, ...] = (), **counted: int | None) -> Delta:
    """Return the content of one choice. `others` and the counts of tokens belong to the first choice."""
    message = choice.get(name)
    if not isinstance(message, dict):
        # Some services answer in the form of the legacy completions API.
        message = {"content": choice.get("text")}
    reason = choice.get("finish_reason")  # null while the answer continues
    return Delta(
        text=_read_text(message.get("content")),
        reasoning=next(
            (_read_text(message[name]) for name in ("reasoning_content", "reasoning") if message.get(name)), ""
        ),
        finish_reason=_FINISH.get(reason, "stop") if isinstance(reason, str) and reason else None,
        refused=bool(message.get("refusal")),
        tool_calls=_read_tool_calls(message.get("tool_calls")),
        logprobs=_read_logprobs(choice.get("logprobs")),
        choice=choice.get("index") or 0,
        others=others,
        **counted,
    )


def _read_logprobs(logprobs: object) -> tuple[dict[str, Any], ...]:
    """Return the probabilities of the tokens, as the service sends them."""
    content = logprobs.get("content") if isinstance(logprobs, dict) else None
    if not isinstance(content, list):
        return ()
    return tuple(entry for entry in content if isinstance(entry, dict) and isinstance(entry.get("token"), str))


def _read_text(content: object) -> str:
    """Return the text of a message's content: a string, or the text parts of a list."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = (part for part in content if isinstance(part, dict) and part.get("type", "text") in ("text", "output_text"))
    return "".join(part["text"] for part in parts if isinstance(part.get("text"), str))


def _read_tool_calls(calls: object) -> tuple[dict[str, Any], ...]:
    """Return the calls of tools, or their parts, with the fields of OpenAI's API alone.

    Some services send the arguments as an object where the API has a string of JSON.
    """
    if not isinstance(calls, list):
        return ()
    found = []
    for position, call in enumerate(calls[: dtos.MAX_TOOLS]):
        if not isinstance(call, dict):
            continue
        function: dict[str, Any] = call["function"] if isinstance(call.get("function"), dict) else {}
        arguments = function.get("arguments")
        texts = {
            "name": function.get("name"),
            "arguments": json.dumps(arguments) if isinstance(arguments, dict) else arguments,
        }
        index = call["index"] if type(call.get("index")) is int and 0 <= call["index"] < dtos.MAX_TOOLS else position
        head = {name: call[name] for name in ("id", "type") if isinstance(call.get(name), str) and call[name]}
        function_texts = {name: text for name, text in texts.items() if isinstance(text, str)}
        found.append({"index": index, **head, "function": function_texts})
    return tuple(found)


def _read_usage(usage: object) -> dict[str, Any]:
    if not isinstance(usage, dict):
        return {}
    counted = {name: _count(usage.get(name)) for name in ("prompt_tokens", "completion_tokens")}
    details = {"cached_tokens": "prompt_tokens_details", "reasoning_tokens": "completion_tokens_details"}
    for name, level in details.items():
        inner = usage.get(level)
        counted[name] = _count(inner.get(name)) if isinstance(inner, dict) else None
    return counted


def _count(value: object) -> int | None:
    return value if type(value) is int and 0 < value <= MAX_USAGE_TOKENS else None


class EventDecoder:
    """Decoder of server-sent events (WHATWG HTML), which returns the data of each event as soon as it is complete.

    Lines may end in LF, CR or CRLF, and chunks may end anywhere.
    """

    def __init__(self) -> None:
        self._line = bytearray()
        self._data: list[bytes] = []
        self._after_cr = False

    def feed(self, received: bytes) -> list[bytes]:
        """Return the data of the events that these bytes complete, in order."""
        if b"\n" not in received and b"\r" not in received:
            # A line that comes in many small chunks costs time in proportion to its length, because it is not copied.
            self._line += received
            return []
        lines = (bytes(self._line) + received).splitlines(keepends=True)
        self._line.clear()
        if not lines[-1].endswith((b"\n", b"\r")):
            self._line += lines.pop()
        return self._split_events(lines)

    def finish(self) -> list[bytes]:
        """Return the data of a last event that no blank line has ended."""
        lines = [bytes(self._line), b"\n"] if self._line else [b"\n"]
        return self._split_events(lines)

    def _split_events(self, lines: list[bytes]) -> list[bytes]:
        events = []
        for raw in lines:
            if raw == b"\n" and self._after_cr:
                # This is the second half of a CRLF that two chunks have parted, and not an empty line.
                self._after_cr = False
                continue
            self._after_cr = raw.endswith(b"\r")
            line = raw.rstrip(b"\r\n")
            if line.startswith(b"data:"):
                self._data.append(line[6:] if line[5:6] == b" " else line[5:])
            elif not line and self._data:
                events.append(b"\n".join(self._data))
                self._data.clear()
        return events


MAX_BODY_BYTES: Final = 8 * 1024 * 1024  # a million characters, each written as an escape of six
MAX_STREAM_BYTES: Final = 48 * 1024 * 1024  # 131,072 chunks of one token with the protocol's fields around each


class StreamReader:
    """Parser of a streamed body, chunk by chunk.

    A service that ignores the wish for a stream sends a plain JSON body, which is accepted. `done` is True when the service
    has declared the end of the stream. All methods raise the errors of `read_answer`.
    """

    def __init__(self) -> None:
        self.done = False
        self._events = EventDecoder()
        self._bytes = 0
        self._has_events = False
        self._has_begun = False
        self._plain: bytearray | None = None

    def feed(self, received: bytes) -> Iterator[Delta]:
        """Yield the deltas of the events that these bytes complete. Events before an error are yielded, too."""
        self._bytes += len(received)
        if self._bytes > (MAX_STREAM_BYTES if self._plain is None else MAX_BODY_BYTES):
            raise InvalidAnswerError("more bytes than the limit for an answer")
        if not self._has_begun:
            # The first byte after white space tells a plain body from a stream.
            received = received.lstrip(_BLANK)
            self._has_begun = bool(received)
            if received.startswith((b"{", b"<", b"[")):
                self._plain = bytearray()
        if self._plain is not None:
            self._plain += received
        elif received:
            yield from self._read_deltas(self._events.feed(received))

    def end(self) -> Iterator[Delta]:
        """Yield the remaining deltas at the end of the body. An incomplete event is dropped."""
        if self._plain is not None:
            self.done = True
            yield read_answer(bytes(self._plain))
            return
        with suppress(InvalidAnswerError):
            yield from self._read_deltas(self._events.finish())
        if not self._has_events:
            raise InvalidAnswerError("an empty stream")

    def _read_deltas(self, payloads: list[bytes]) -> Iterator[Delta]:
        for payload in payloads:
            if payload.startswith(b"[DONE]"):
                self.done = self._has_events = True
            if self.done:
                break
            if not payload or payload.isspace():
                continue
            self._has_events = True
            yield from (delta for delta in map(_read_chunk_delta, decode_chunks(payload)) if delta is not EMPTY)


KEY_TOKENS: Final = 200  # more tokens than an API key has
MAX_ANSWER_CHARS: Final = 1_000_000  # more characters than the longest answer that a request may ask for


T = TypeVar("T")


class Untaken(Generic[T]):
    """Parts in their order. `take` returns the parts that were added since its last call."""

    def __init__(self) -> None:
        self.parts: list[T] = []
        self._taken = 0

    def take(self) -> list[T]:
        new = self.parts[self._taken :]
        self._taken = len(self.parts)
        return new

    def clear(self) -> bool:
        """Remove all parts, and return whether `take` has returned some of them."""
        was_taken, self._taken = self._taken > 0, 0
        self.parts.clear()
        return was_taken


class Meter:
    """What one answer takes: characters, tokens, time and money.

    Tokens that the service does not count are counted by us. Reasoning is paid for as well.
    """

    def __init__(self, connection: LLMConnection, request: dtos.LLMRequest) -> None:
        self.chars = 0
        self.received: list[str] = []  # the text, the reasoning and the calls of tools
        self._connection, self._request = connection, request
        self._reported: dict[str, int] = {}  # the counts that the service sent last
        self._began = time.monotonic()
        self._first_at: float | None = None
        self._own_prompt_tokens = 0

    def report(self, delta: Delta) -> None:
        counts = {name: getattr(delta, name) for name in dtos.Usage.model_fields}
        self._reported |= {name: count for name, count in counts.items() if count}

    def count(self, text: str) -> None:
        self._first_at = self._first_at or time.monotonic()
        self.count_chars(len(text))
        self.received.append(text)

    def count_chars(self, chars: int) -> None:
        """Raises InvalidAnswerError when the answer is longer than MAX_ANSWER_CHARS."""
        self.chars += chars
        if self.chars > MAX_ANSWER_CHARS:
            raise InvalidAnswerError("more text than the limit for an answer")

    def progress(self) -> ModelProgress:
        """Return how far the model is. Tokens are counted by us, since services report theirs at the end."""
        now, tokens = time.monotonic(), count_tokens("".join(self.received))
        writing_s = now - self._first_at if self._first_at else 0.0
        return ModelProgress(
            model=self._connection.model,
            prompt_tokens=self._count_prompt(),
            completion_tokens=tokens,
            elapsed_s=now - self._began,
            tokens_per_s=tokens / writing_s if writing_s > 0 else None,
        )

    def usage(self, others: Iterable["Meter"] = ()) -> dtos.Usage:
        """Return the tokens of this answer and of the `others` of the same call."""
        received = "".join(chain(self.received, *(other.received for other in others)))
        own = {"prompt_tokens": 0, "completion_tokens": 0, **self._reported}
        return dtos.Usage(
            **own
            | {
                "prompt_tokens": own["prompt_tokens"] or self._count_prompt(),
                "completion_tokens": own["completion_tokens"] or count_tokens(received),
            }
        )

    @property
    def has_received(self) -> bool:
        return bool(self.received or self._reported.get("completion_tokens"))

    def price(self, usage: dtos.Usage) -> dtos.Spending:
        cost = self._connection.cost_usd(usage.prompt_tokens, usage.completion_tokens)
        counted = usage.model_dump(include={"prompt_tokens", "completion_tokens"})
        return dtos.Spending(calls=1, cost_usd=cost, **counted)

    def _count_prompt(self) -> int:
        if not self._own_prompt_tokens:
            self._own_prompt_tokens = sum(count_tokens(message.content) for message in self._request.messages)
        return self._own_prompt_tokens


class FilteredText:
    """The text of an answer without the reasoning in it.

    `is_taken_back` is True if a part that was passed on has turned out to be reasoning.
    """

    def __init__(self, redactor: Redactor, api_key: str) -> None:
        self.pieces: Untaken[str] = Untaken()
        self.is_taken_back = False
        self._filter = ReasoningFilter(redactor, api_key)
        self._retractions = 0

    def feed(self, text: str) -> None:
        self._add(self._filter.feed(text))

    def finish(self) -> None:
        self._add(self._filter.finish())

    def _add(self, text: str) -> None:
        if self._filter.retractions > self._retractions:
            self._retractions = self._filter.retractions
            self.is_taken_back = self.pieces.clear() or self.is_taken_back
        if text:
            self.pieces.parts.append(text)


class AnswerBuilder:
    """Builder of one answer from its deltas: call `add` for each, then `finish`, and take the `response`.

    A caller who passes the answer on as a stream takes `new_parts` after each `add`.

    - `finish_reason` is the last reason that the service has sent.
    - `meter` counts the characters and tokens received, with the reasoning.
    - `is_looping` is True if the model repeats itself without end. The rest of the stream is then of no use.
    """

    def __init__(self, connection: LLMConnection, request: dtos.LLMRequest, redactor: Redactor) -> None:
        self.finish_reason: str | None = None
        self.is_looping = False
        self.meter = Meter(connection, request)
        self._connection, self._request, self._redactor = connection, request, redactor
        self._text = FilteredText(redactor, connection.api_key)
        self._reasoning = ReasoningText(redactor, connection.api_key) if request.as_it_comes else None
        self._calls: Untaken[dict[str, Any]] = Untaken()
        self._logprobs: Untaken[dict[str, Any]] = Untaken()
        self._others: dict[int, AnswerBuilder] = {}  # the further answers, by their numbers
        self._repetition = RepetitionDetector()
        self._refused = False

    def receive(self, received: bytes) -> bool:
        """Take bytes of the body before their deltas, empty at its end. Returns whether they are a part for the reader."""
        return False

    def add(self, delta: Delta) -> None:
        """Add a delta. Raises InvalidAnswerError when the answer is longer than MAX_ANSWER_CHARS."""
        self.finish_reason = delta.finish_reason or self.finish_reason
        self.meter.report(delta)
        self._refused = self._refused or delta.refused
        for other in delta.others:
            if other.choice < self._request.choices:
                self._get_other(other.choice).add(other)
                self.meter.count_chars(len(other.text) + len(other.reasoning))
        if delta.logprobs and self._request.extra.get("logprobs"):
            self._add_logprobs(delta.logprobs)
        if delta.tool_calls and "tools" in self._request.extra:  # without tools, nobody could answer a call
            self._calls.parts += delta.tool_calls
            for call in delta.tool_calls:
                self.meter.count("".join(call["function"].values()) + call.get("id", " "))
        if delta.reasoning:
            self._receive(delta.reasoning)
            if self._reasoning:
                self._reasoning.feed(delta.reasoning)
        if delta.text:
            self._receive(delta.text)
            self._text.feed(delta.text)

    def finish(self) -> None:
        """Add the buffered rest of the text to the answer. No delta may follow."""
        self._text.finish()
        if self._reasoning:
            self._reasoning.finish()
        for other in self._others.values():
            other.finish()

    @property
    def has_ended(self) -> bool:
        """True if all answers that began have ended, so that only the usage may follow."""
        ends = [self.finish_reason, *(other.finish_reason for other in self._others.values())]
        return None not in ends and len(ends) >= self._request.choices

    def new_parts(self) -> list[dtos.LLMStreamPart]:
        """Return the parts of the stream since the last call."""
        parts: list[dtos.LLMStreamPart] = []
        if self._text.is_taken_back:
            error = LLMProviderException(f"{self._connection.name} sent its reasoning as part of the answer")
            parts.append(dtos.LLMReset(error=error))
            self._text.is_taken_back = False
        token = dtos.LLMToken(
            text="".join(self._text.pieces.take()),
            tool_calls=tuple(self._calls.take()),
            reasoning=self._reasoning.new() if self._reasoning else "",
            logprobs=tuple(self._logprobs.take()),
        )
        if token.text or token.tool_calls or token.reasoning or token.logprobs:
            parts.append(token)
        for number, other in self._others.items():
            tokens = (part for part in other.new_parts() if isinstance(part, dtos.LLMToken))
            parts.extend(token.model_copy(update={"choice": number}) for token in tokens)
        return parts

    def spent(self) -> dtos.Spending:
        """Return the spending so far. A call that returned nothing counts as a call without tokens."""
        return self.meter.price(self._read_usage()) if self.meter.has_received else dtos.Spending(calls=1)

    def response(self) -> dtos.LLMResponse:
        """Return the complete answer.

        Raises LLMProviderException if the answer is empty, filtered, refused, or consists of reasoning alone.
        """
        content, calls = "".join(self._text.pieces.parts), _join_calls(self._calls.parts)
        if problem := self._find_problem(content, has_calls=bool(calls)):
            raise LLMProviderException(f"{self._connection.name} {problem}")
        reason = self.finish_reason or "stop"
        if self.is_looping:
            reason = REPETITION
        elif calls and reason == "stop":
            reason = "tool_calls"
        usage = self._read_usage()
        return dtos.LLMResponse(
            content=content,
            provider=self._connection.name,
            model=self._connection.model,
            tool_calls=calls,
            reasoning=self._reasoning.text if self._reasoning else "",
            logprobs=tuple(self._logprobs.parts),
            others=tuple(self._others[number].response() for number in sorted(self._others)),
            finish_reason=reason,
            usage=usage,
            spent=self.meter.price(usage),
        )

    def _get_other(self, number: int) -> "AnswerBuilder":
        """Return the builder of a further answer, which is made at its first delta."""
        if number not in self._others:
            self._others[number] = AnswerBuilder(self._connection, self._request, self._redactor)
        return self._others[number]

    def _receive(self, text: str) -> None:
        self.is_looping = self.is_looping or self._repetition.feed(text)
        self.meter.count(text)

    def _add_logprobs(self, logprobs: tuple[dict[str, Any], ...]) -> None:
        """Collect the probabilities of the tokens of a delta, unless these complete the API key.

        A redactor finds a key in a whole text but not in its tokens, so the tokens are joined and searched here.
        """
        tail = "".join(entry["token"] for entry in self._logprobs.parts[-KEY_TOKENS:])
        key = self._connection.api_key
        if not (len(key) >= MIN_SECRET_CHARS and key in tail + "".join(entry["token"] for entry in logprobs)):
            self._logprobs.parts += logprobs

    def _read_usage(self) -> dtos.Usage:
        return self.meter.usage(other.meter for other in self._others.values())

    def _find_problem(self, content: str, *, has_calls: bool) -> str | None:
        if self._request.as_it_comes and self.finish_reason != FAILED and not self._refused:
            return None  # such a caller gets the answer of the service unchanged, even an empty one
        if self.finish_reason == FILTERED:
            return "withheld the answer (content_filter): rephrase the question, or use another model"
        if self.finish_reason == FAILED:
            return "stopped with an error of its own"
        if content.strip() or has_calls:
            return None
        if self._refused:
            return "refused to answer: rephrase the question, or use another model"
        if self.finish_reason == LENGTH:
            return "used all its tokens before the answer began: raise LLM_MAX_TOKENS"
        return (
            "returned reasoning but no answer: use another model" if self.meter.received else "returned an empty answer"
        )


def _join_calls(parts: list[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
    """Return the calls of tools that the parts make up, in the order of their indexes."""
    calls: dict[int, dict[str, Any]] = {}
    for part in parts:
        call = calls.setdefault(
            part["index"], {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
        )
        call |= {name: part[name] for name in ("id", "type") if name in part}
        for name, text in part["function"].items():
            call["function"][name] += text
    return tuple(calls[index] for index in sorted(calls))
