"""Read the JSON of chat answers, whole or in chunks, as services really send it.

Fields may be missing, null or of another type.
"""

import json
from contextlib import suppress
from typing import Any, Final, NamedTuple

from pydantic_core import from_json

from modules.llm_platform.domain.dtos import llm_dtos as dtos

MAX_USAGE_TOKENS: Final = 100_000_000  # Larger counts in `usage` are ignored as wrong.
BLANK: Final = b"\xef\xbb\xbf \t\r\n"  # A body may begin with a byte order mark and white space.
WEB_PAGE: Final = "a web page instead of JSON"
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
    body = body.lstrip(BLANK)
    if body.startswith(b"<"):
        raise InvalidAnswerError(WEB_PAGE)
    answer = _decode(body)
    if not isinstance(answer, dict):
        raise InvalidAnswerError("JSON that is not a chat completion")
    delta = _read_delta(answer, "message")
    if delta is EMPTY:
        raise InvalidAnswerError("a chat completion without choices")
    return delta


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


def read_chunk(chunk: object) -> Delta:
    """Return the content of one chunk that `decode_chunks` returned, or EMPTY if it has none. Raises ReportedError."""
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
