"""From the bytes of a streamed answer to its pieces. Pure: the caller reads the network and keeps the time."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from pydantic_core import from_json

from modules.llm_platform.domain.dtos.llm_dtos import (
    LLMRequest,
    LLMReset,
    LLMResponse,
    LLMStreamPart,
    LLMToken,
    Spending,
    Usage,
)
from modules.llm_platform.domain.exceptions import LLMProviderException
from modules.llm_platform.domain.redaction import Redactor
from modules.llm_platform.domain.text.tokens import count_tokens
from modules.llm_platform.infrastructure.http.sse import EventDecoder
from modules.llm_platform.infrastructure.llm.kinds import LLMConnection
from modules.llm_platform.infrastructure.llm.reasoning import ReadableText

# Reads chat answers as services really send them: whole or in chunks, with fields missing, null or of another shape.
# Nothing of a service's own words leaves this module but the answer's text.


MAX_TOKENS_BELIEVED: Final = 100_000_000  # a larger count in `usage` is nonsense
LENGTH: Final = "length"
FILTERED: Final = "content_filter"
FAILED: Final = "error"
_FINISH = {
    "length": LENGTH,
    "max_tokens": LENGTH,
    "content_filter": FILTERED,
    "tool_calls": "tool_calls",
    "error": FAILED,
}
_REASONING_FIELDS = ("reasoning_content", "reasoning")


class UnreadableAnswer(Exception):  # noqa: N818  it names what came, as its text does: "a web page instead of JSON"
    """What came is no answer; the text says what it is instead."""


class ReportedError(Exception):
    """The service reports an error inside an answer that looks like success; `body` is what it says."""

    def __init__(self, body: object) -> None:
        super().__init__("an error inside an answer")
        self.body = body


@dataclass(frozen=True, slots=True)
class Piece:
    """What one answer, or one chunk of a streamed answer, says. None and empty: nothing about it."""

    text: str = ""
    reasoning: str = ""
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    refused: bool = False


NOTHING: Final = Piece()


def read_answer(body: bytes) -> Piece:
    """A whole answer. Raises UnreadableAnswer when it is none, ReportedError when it is an error."""
    body = body.lstrip(b"\xef\xbb\xbf \t\r\n")
    if body.startswith(b"<"):
        raise UnreadableAnswer("a web page instead of JSON")
    answer = _decoded(body)
    if not isinstance(answer, dict):
        raise UnreadableAnswer("JSON that is no chat completion")
    piece = _piece(answer, "message")
    if piece is NOTHING:
        raise UnreadableAnswer("a chat completion without choices")
    return piece


def read_chunk(payload: bytes) -> Piece:
    """One event of a streamed answer; NOTHING for one that tells nothing. Errors as in `read_answer`."""
    chunk = _decoded(payload)
    return _piece(chunk, "delta") if isinstance(chunk, dict) else NOTHING


def _decoded(body: bytes) -> Any:
    try:
        return from_json(body)
    except ValueError:
        return _decoded_slowly(body)


def _decoded_slowly(body: bytes) -> Any:
    """For what the fast parser refuses: bytes that are not UTF-8, and half characters, whose other half may follow."""
    try:
        return json.loads(body.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        raise UnreadableAnswer("broken JSON") from None


def _piece(answer: dict[str, Any], place: str) -> Piece:
    if answer.get("error"):
        raise ReportedError(answer["error"])
    choices, usage = answer.get("choices"), answer.get("usage")
    choice = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, dict) or choice.get("index") not in (0, None):
        return Piece(**_usage(usage)) if usage and place == "delta" else NOTHING
    message = choice.get(place)
    if not isinstance(message, dict):
        message = {"content": choice.get("text")}  # completions of old
    return Piece(
        text=_text(message.get("content")),
        reasoning=next((_text(message[name]) for name in _REASONING_FIELDS if message.get(name)), ""),
        finish_reason=_finish(choice.get("finish_reason")),
        refused=bool(message.get("refusal")),
        **(_usage(usage) if usage else {}),
    )


def _text(content: object) -> str:
    """The text of a content that is a string or a list of parts; parts that are reasoning or no text are left out."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = (part for part in content if isinstance(part, dict) and part.get("type", "text") in ("text", "output_text"))
    return "".join(part["text"] for part in parts if isinstance(part.get("text"), str))


def _finish(reason: object) -> str | None:
    """One of our own words: stop, length, content_filter, tool_calls, error; None while the answer goes on."""
    return _FINISH.get(reason, "stop") if isinstance(reason, str) and reason else None


def _usage(usage: object) -> dict[str, Any]:
    if not isinstance(usage, dict):
        return {}
    return {name: _count(usage.get(name)) for name in ("prompt_tokens", "completion_tokens")}


def _count(value: object) -> int | None:
    believed = isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MAX_TOKENS_BELIEVED
    return value if believed and isinstance(value, int) else None


MAX_BODY_BYTES: Final = 8 * 1024 * 1024  # a million characters, each written as an escape of six
MAX_STREAM_BYTES: Final = 48 * 1024 * 1024  # 131,072 chunks of one token with the protocol's words around each
_BLANK: Final = b"\xef\xbb\xbf \t\r\n"
_DONE: Final = b"[DONE]"


class StreamReader:
    """Feed it what comes, tell it of the `end`. A service that answers with one plain JSON body is understood too.

    `done`: the service said that nothing follows. All methods raise what `read_answer` raises.
    """

    def __init__(self) -> None:
        self.done = False
        self._events = EventDecoder()
        self._bytes = 0
        self._told = False
        self._begun = False
        self._plain: bytearray | None = None

    def feed(self, received: bytes) -> list[Piece]:
        """The pieces that these bytes complete."""
        self._bytes += len(received)
        if self._bytes > (MAX_STREAM_BYTES if self._plain is None else MAX_BODY_BYTES):
            raise UnreadableAnswer("more bytes than any answer takes")
        if not self._begun:
            received = self._begin(received)
        if self._plain is not None:
            self._plain += received
            return []
        return self._pieces(self._events.feed(received)) if received else []

    def end(self) -> list[Piece]:
        """The pieces that only the end of the body completes; half an event is left out."""
        if self._plain is not None:
            self.done = True
            return [read_answer(bytes(self._plain))]
        try:
            pieces = self._pieces(self._events.finish())
        except UnreadableAnswer:
            pieces = []
        if not self._told:
            raise UnreadableAnswer("an empty stream")
        return pieces

    def _begin(self, received: bytes) -> bytes:
        """The bytes without leading blanks; the first that is none tells whether this is a stream or a plain body."""
        received = received.lstrip(_BLANK)
        self._begun = bool(received)
        if received.startswith((b"{", b"<", b"[")):
            self._plain = bytearray()
        return received

    def _pieces(self, payloads: list[bytes]) -> list[Piece]:
        pieces: list[Piece] = []
        for payload in payloads:
            if payload.startswith(_DONE):
                self.done = self._told = True
            if self.done:
                break
            if not payload or payload.isspace():
                continue
            self._told = True
            pieces += (piece for piece in _read(payload) if piece is not NOTHING)
        return pieces


def _read(payload: bytes) -> list[Piece]:
    """One chunk; several where a service forgets the blank line between its events."""
    try:
        return [read_chunk(payload)]
    except UnreadableAnswer:
        if b"\n" not in payload:
            raise
        return [read_chunk(line) for line in payload.split(b"\n")]


# One answer as it grows: its readable text, what it cost so far, and at the end the response or why there is none.


MAX_ANSWER_CHARS: Final = 1_000_000  # above what the longest answer that may be asked for takes


class GrowingAnswer:
    """Add the pieces as they come, then `finish`, then take the `response`. A stream asks for its `news` in between."""

    def __init__(self, connection: LLMConnection, request: LLMRequest, redactor: Redactor) -> None:
        self.finish_reason: str | None = None
        self._connection = connection
        self._request = request
        self._readable = ReadableText(redactor, connection.api_key)
        self._words: list[str] = []
        self._told = 0  # how many of them a reader of the stream has got
        self._voided = 0
        self._take_back = False
        self._received: list[str] = []  # with the reasoning: it is paid for
        self._chars = 0
        self._prompt_tokens: int | None = None
        self._completion_tokens: int | None = None
        self._refused = False

    def add(self, piece: Piece) -> None:
        """Raises UnreadableAnswer when the answer grows beyond measure."""
        self.finish_reason = piece.finish_reason or self.finish_reason
        self._prompt_tokens = piece.prompt_tokens or self._prompt_tokens
        self._completion_tokens = piece.completion_tokens or self._completion_tokens
        self._refused = self._refused or piece.refused
        if piece.reasoning:
            self._receive(piece.reasoning)
        if piece.text:
            self._receive(piece.text)
            self._keep(self._readable.feed(piece.text))

    def finish(self) -> None:
        """No piece follows: what was held back is words."""
        self._keep(self._readable.finish())

    def news(self) -> list[LLMStreamPart]:
        """What a reader of the stream has to be told since the last call."""
        told: list[LLMStreamPart] = []
        if self._take_back:
            told.append(LLMReset(error=LLMProviderException(f"{self._connection.name} showed its reasoning unmarked")))
            self._take_back = False
        words = "".join(self._words[self._told :])
        self._told = len(self._words)
        if words:
            told.append(LLMToken(text=words))
        return told

    def _receive(self, text: str) -> None:
        self._chars += len(text)
        if self._chars > MAX_ANSWER_CHARS:
            raise UnreadableAnswer("more text than any request asks for")
        self._received.append(text)

    def _keep(self, words: str) -> None:
        if self._readable.voided > self._voided:
            self._voided = self._readable.voided
            self._take_back = self._take_back or self._told > 0
            self._words.clear()
            self._told = 0
        if words:
            self._words.append(words)

    def usage(self) -> Usage:
        """The service's own count; ours where it says nothing."""
        asked = self._prompt_tokens or sum(count_tokens(message.content) for message in self._request.messages)
        written = self._completion_tokens or count_tokens("".join(self._received))
        return Usage(prompt_tokens=asked, completion_tokens=written)

    def spent(self) -> Spending:
        """What the call cost so far: one without a word costs nothing but the call."""
        if not self._received and not self._completion_tokens:
            return Spending(calls=1)
        return self._spending(self.usage())

    def _spending(self, usage: Usage) -> Spending:
        cost = self._connection.cost_usd(usage.prompt_tokens, usage.completion_tokens)
        return Spending(
            calls=1, prompt_tokens=usage.prompt_tokens, completion_tokens=usage.completion_tokens, cost_usd=cost
        )

    def response(self) -> LLMResponse:
        """The whole answer. Raises LLMProviderException when it is none: empty, all reasoning, filtered, refused."""
        content = "".join(self._words)
        reason = self._failure(content)
        if reason:
            raise LLMProviderException(f"{self._connection.name} {reason}")
        usage = self.usage()
        return LLMResponse(
            content=content,
            provider=self._connection.name,
            model=self._connection.model,
            finish_reason=self.finish_reason or "stop",
            usage=usage,
            spent=self._spending(usage),
        )

    def _failure(self, content: str) -> str | None:
        if self.finish_reason == FILTERED:
            return "withheld the answer (content_filter): ask differently, or another model"
        if self.finish_reason == FAILED:
            return "broke off with an error of its own"
        if content.strip():
            return None
        if self._refused:
            return "refused to answer: ask differently, or another model"
        if self.finish_reason == LENGTH:
            return "spent all its tokens before the first word of the answer: raise LLM_MAX_TOKENS"
        return "gave reasoning but no answer: ask another model" if self._received else "gave an empty answer"
