"""Write messages of Anthropic's API, whole or as a stream of events, and its errors.

The vendor documents the stream at https://docs.anthropic.com/en/docs/build-with-claude/streaming
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, assert_never

from pydantic_core import from_json, to_json
from starlette.types import Scope

from modules.llm_platform.application.research.events import Done, Failed, ResearchEvent, Token
from modules.llm_platform.domain.dtos.answer_dtos import ResearchResponse
from modules.llm_platform.domain.dtos.llm_dtos import LLMResponse
from modules.llm_platform.domain.exceptions import OutputError
from modules.llm_platform.presentation.rest.chat_routes import ChatDone, ChatEvent, ModelPart
from modules.llm_platform.presentation.rest.compat import chat_completions, dialect
from modules.llm_platform.presentation.rest.compat.anthropic.blocks import (
    Block,
    MessageBlocks,
    call_block,
    list_checked_citations,
)
from modules.llm_platform.presentation.rest.compat.verified_answers import VerifiedAnswer
from modules.llm_platform.presentation.rest.http.problems import OverloadedError, make_problem
from shared.exceptions import AppException

# Keyed by status; any other below 500 is an invalid request, from there on an API error.
ERROR_TYPES: Final[Mapping[int, str]] = {
    HTTPStatus.UNAUTHORIZED: "authentication_error",
    HTTPStatus.FORBIDDEN: "permission_error",
    HTTPStatus.NOT_FOUND: "not_found_error",
    HTTPStatus.REQUEST_TIMEOUT: "timeout_error",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "request_too_large",
    HTTPStatus.TOO_MANY_REQUESTS: "rate_limit_error",
    HTTPStatus.GATEWAY_TIMEOUT: "timeout_error",
}
STOP_REASONS: Final[Mapping[str, str]] = {  # Keyed by what a language model reports.
    "length": "max_tokens",
    "content_filter": "refusal",
    "tool_calls": "tool_use",
}


@dataclass(frozen=True, slots=True)
class MessageEnd:
    """The end of a message. `extension` has the values that the format has no field for."""

    stop_reason: str
    usage: Mapping[str, Any]
    extension: Mapping[str, Any]


def research_end(answer: ResearchResponse, tool: str = "") -> MessageEnd:
    """Return the end of an answer. Its tokens are the tokens of all model calls of the research run."""
    metadata = answer.metadata
    usage = {
        "input_tokens": metadata.prompt_tokens,
        "output_tokens": metadata.completion_tokens,
        "server_tool_use": {"web_search_requests": metadata.searches, "web_fetch_requests": metadata.pages_read},
    }
    stop_reason = "tool_use" if tool else "end_turn"
    return MessageEnd(stop_reason, usage, chat_completions.make_extension(answer, has_citations=False))


def make_llm_end(answer: LLMResponse, checked: VerifiedAnswer | None = None) -> MessageEnd:
    counted = answer.usage
    cached = counted.cached_tokens or 0  # The vendor does not count them as input.
    usage = {"input_tokens": max(0, counted.prompt_tokens - cached), "output_tokens": counted.completion_tokens}
    if cached:
        usage["cache_read_input_tokens"] = cached
    extension = checked.fields() if checked is not None and checked.has_text else {}
    return MessageEnd(STOP_REASONS.get(answer.finish_reason, "end_turn"), usage, extension)


@dataclass(frozen=True, slots=True)
class MessageHead:
    """The values of a message that are known before it is written."""

    request_id: str
    model: str

    def message(self, content: Sequence[Block] = (), end: MessageEnd | None = None) -> dict[str, Any]:
        return {
            "id": f"msg_{self.request_id}",
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": list(content),
            "stop_reason": end.stop_reason if end else None,
            "stop_sequence": None,
            "usage": end.usage if end else {"input_tokens": 0, "output_tokens": 0},
            **(end.extension if end else {}),
        }


class _MessageStream:
    """Encodes a message as events: its head, its blocks one after the other, its end."""

    def __init__(self, head: MessageHead) -> None:
        self._head = head
        self._has_begun = False
        self._blocks = 0

    def fail(self, error: AppException, scope: Scope) -> bytes:
        return self.error(make_problem(error, scope))

    def error(self, problem: Mapping[str, Any]) -> bytes:
        return _encode_event("error", **make_error_object(problem))

    def begin(self) -> bytes:
        """Return the first event, once."""
        if self._has_begun:
            return b""
        self._has_begun = True
        return _encode_event("message_start", message=self._head.message()) + PING

    def block(self, block: Block) -> bytes:
        """Return a block that is complete."""
        empty, deltas = _split_block(block)
        return self.open(empty) + b"".join(map(self.delta, deltas)) + self.close()

    def open(self, block: Block) -> bytes:
        return self.begin() + _encode_event("content_block_start", index=self._blocks, content_block=block)

    def delta(self, delta: Mapping[str, Any]) -> bytes:
        return _encode_event("content_block_delta", index=self._blocks, delta=delta)

    def close(self) -> bytes:
        self._blocks += 1
        return _encode_event("content_block_stop", index=self._blocks - 1)

    def end(self, end: MessageEnd) -> bytes:
        delta = {"stop_reason": end.stop_reason, "stop_sequence": None}
        return (
            self.begin()
            + _encode_event("message_delta", delta=delta, usage=end.usage, **end.extension)
            + _encode_event("message_stop")
        )


class ResearchStream(_MessageStream):
    """Encodes searches as they come, and the text when its citations are verified. Other events are sent as a ping.

    A block of text is not sent earlier, because its citations belong inside it, and the vendor's SDKs expect it to end before
    the next one.
    """

    def __init__(self, head: MessageHead, blocks: MessageBlocks) -> None:
        super().__init__(head)
        self._message = blocks

    def encode(self, event: ResearchEvent) -> bytes:
        if isinstance(event, Failed):
            return self.begin() + self.error(event.problem)
        if isinstance(event, Token):
            return self.begin()
        if isinstance(event, Done):
            return self._encode_done(event)
        return self.begin() + b"".join(map(self.block, self._message.of(event))) or PING

    def _encode_done(self, event: Done) -> bytes:
        try:
            blocks = b"".join(map(self.block, self._message.of(event)))
        except OutputError as error:
            problem = error.problem(instance=f"/research/{event.request_id}", request_id=event.request_id)
            return self.begin() + self.error(problem)
        return blocks + self.end(research_end(event.response, self._message.tool))


class ChatStream(_MessageStream):
    """Encodes the answer of a language model as it is written: thinking, text and calls of tools, in blocks.

    A block ends before the next one begins. A service may send the parts of several calls by turns, and text between the parts
    of a call. Therefore what begins while a call is incomplete is sent at the end: first text and thinking, then the calls.
    """

    def __init__(
        self, head: MessageHead, *, shows_thinking: bool = False, checked: VerifiedAnswer | None = None
    ) -> None:
        super().__init__(head)
        self._shows_thinking = shows_thinking
        self._checked = checked
        self._kind = ""  # Kind of the open block.
        self._call = -1  # The number of the open call.
        self._arguments = ""  # Arguments of the open call.
        self._late: list[tuple[str, str]] = []  # Thinking and text that are sent at the end, with their kinds.
        self._waiting: dict[int, dict[str, Any]] = {}  # Calls that are sent at the end, by their number.

    def encode(self, event: ChatEvent) -> bytes:
        match event:
            case Token():
                return self._encode_text(event.text)
            case ModelPart():
                part = event.part
                thinking = self._encode_thinking(part.reasoning) if part.reasoning and self._shows_thinking else b""
                text = self._encode_text(part.text) if part.text else b""
                return thinking + text + b"".join(map(self._call_part, part.tool_calls))
            case ChatDone():
                sent = self._close() if self._late else b""
                for kind, late in self._late:
                    sent += self._encode_thinking(late) if kind == "thinking" else self._encode_text(late)
                sent += self._cite() + self._close()
                for number, call in sorted(self._waiting.items()):
                    opened = self._open_call(number, call["id"], call["name"])
                    sent += opened + self._fill(call["arguments"]) + self._close()
                return sent + self.end(make_llm_end(event.response, self._checked))
            case _:
                assert_never(event)

    def _encode_text(self, text: str) -> bytes:
        if self._is_call_incomplete:
            self._late.append(("text", text))
            return b""
        return self._open("text", {"type": "text", "text": ""}) + self.delta({"type": "text_delta", "text": text})

    def _encode_thinking(self, text: str) -> bytes:
        if self._is_call_incomplete:
            self._late.append(("thinking", text))
            return b""
        opened = self._open("thinking", {"type": "thinking", "thinking": "", "signature": ""})
        return opened + self.delta({"type": "thinking_delta", "thinking": text})

    @property
    def _is_call_incomplete(self) -> bool:
        return self._call >= 0 and not _is_complete(self._arguments)

    def _cite(self) -> bytes:
        """Return the citations of a text that was checked. They are in its last block, while that is open."""
        citations = list_checked_citations(self._checked, self._head.request_id) if self._kind == "text" else ()
        return b"".join(self.delta({"type": "citations_delta", "citation": citation}) for citation in citations)

    def _call_part(self, part: Mapping[str, Any]) -> bytes:
        number, function = part["index"], part["function"]
        if number == self._call:
            return self._fill(function.get("arguments", ""))
        if number in self._waiting or self._is_call_incomplete:
            known = self._waiting.setdefault(number, {"id": part.get("id"), "name": "", "arguments": ""})
            for name in ("name", "arguments"):
                known[name] += function.get(name, "")
            return b""
        opened = self._open_call(number, part.get("id"), function.get("name", ""))
        return opened + self._fill(function.get("arguments", ""))

    def _open_call(self, number: int, call_id: str | None, name: str) -> bytes:
        closed = self._close()
        self._kind, self._call, self._arguments = "call", number, ""
        return closed + self.open(call_block(self._head.request_id, number, call_id, name))

    def _fill(self, arguments: str) -> bytes:
        self._arguments += arguments
        return self.delta({"type": "input_json_delta", "partial_json": arguments}) if arguments else b""

    def _open(self, kind: str, block: Block) -> bytes:
        if self._kind == kind:
            return b""
        closed = self._close()
        self._kind = kind
        return closed + self.open(block)

    def _close(self) -> bytes:
        if not self._kind:
            return b""
        signature = self.delta({"type": "signature_delta", "signature": ""}) if self._kind == "thinking" else b""
        self._kind, self._call = "", -1
        return signature + self.close()


def _is_complete(arguments: str) -> bool:
    try:
        from_json(arguments)
    except ValueError:
        return False
    return True


def _split_block(block: Block) -> tuple[Block, list[dict[str, Any]]]:
    if block["type"] in ("server_tool_use", "tool_use"):
        filled = {"type": "input_json_delta", "partial_json": to_json(block["input"]).decode()}
        return {**block, "input": {}}, [filled]
    if block["type"] == "thinking":
        thought = {"type": "thinking_delta", "thinking": block["thinking"]}
        return {**block, "thinking": ""}, [thought, {"type": "signature_delta", "signature": block["signature"]}]
    if block["type"] != "text":
        return block, []
    citations = block.get("citations", ())
    deltas: list[dict[str, Any]] = [{"type": "citations_delta", "citation": citation} for citation in citations]
    empty = {**block, "text": "", **({"citations": []} if citations else {})}
    return empty, [*deltas, {"type": "text_delta", "text": block["text"]}]


def make_error_object(problem: Mapping[str, Any]) -> dict[str, Any]:
    """Return an error as the clients read it. `message` names the invalid fields."""
    status = problem["status"]
    kind = "overloaded_error" if problem["code"] == OverloadedError.code else ERROR_TYPES.get(status)
    kind = kind or ("api_error" if status >= HTTPStatus.INTERNAL_SERVER_ERROR else "invalid_request_error")
    described = {"type": kind, "message": dialect.format_message(problem)}
    return {"type": "error", "error": described, "request_id": problem["request_id"]}


def _encode_event(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\ndata: ".encode() + to_json({"type": kind, **fields}) + b"\n\n"


PING: Final = _encode_event("ping")
