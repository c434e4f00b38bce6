"""Reads chat answers as services really send them: whole or in chunks, with fields missing, null or of another shape.

Nothing of a service's own words leaves this module but the answer's text.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from pydantic_core import from_json

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
