"""Chat completions of a language model byte for byte, with the evidence of the gateway beside them.

Only what the mode `mark` marks is written anew: the text of a message, or of a chunk that ends a sentence.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from typing import Any, Final, Literal

from fastapi import Request, Response
from pydantic import BaseModel

from modules.llm_platform.application.services.llm_service import LLMService
from modules.llm_platform.domain.dtos.llm_dtos import LLMRequest, LLMResponse, LLMToken
from modules.llm_platform.presentation.rest.chat_routes import ChatDone, chat_event
from modules.llm_platform.presentation.rest.compat import chat_completions
from modules.llm_platform.presentation.rest.compat.dialect import JSON
from modules.llm_platform.presentation.rest.compat.verified_answers import VerifiedAnswer
from modules.llm_platform.presentation.rest.http.disconnect import CancelOnDisconnect
from modules.llm_platform.presentation.rest.http.request_scope import ANSWER, request_id, services
from modules.llm_platform.presentation.rest.http.sse import EventStream

_DONE: Final = re.compile(rb"^data:[ ]?\[DONE\]", re.M)
_EVENT: Final = re.compile(rb".*?(?:\r\n\r\n|\n\n|\r\r|\Z)", re.S)
_EVENT_ENDS: Final = (b"\n\n", b"\n\r\n", b"\r\r")
_HEAD: Final = ("id", "object", "created", "model", "system_fingerprint")
_SPACE: Final = re.compile(r"[ \t\n\r]*")
_DECODER: Final = json.JSONDecoder(strict=False)


class RelayedPart(BaseModel, frozen=True):
    """Bytes of the service, or of the gateway."""

    type: Literal["part"] = "part"
    raw: bytes


class RelayStream(chat_completions.CompletionStream):
    """Sends the bytes as they are. An error after the first of them ends the stream as the other streams of this API end."""

    def encode(self, event: RelayedPart | ChatDone) -> bytes:  # type: ignore[override]  # Another kind of events.
        return event.raw if isinstance(event, RelayedPart) else b""


async def relay_whole(request: Request, prompt: LLMRequest, answer: VerifiedAnswer) -> Response:
    async with CancelOnDisconnect(request.receive):
        raw, text = await _read_whole(request, prompt)
    marked = await answer.check_whole(text) if text else text
    body = add_evidence(raw, answer, None if marked == text else marked) if text else raw
    return Response(body, media_type=JSON, headers=answer.headers())


async def relay_stream(
    request: Request, prompt: LLMRequest, answer: VerifiedAnswer, completion: chat_completions.Completion
) -> EventStream:
    events = _relay_events(services(request).llm, prompt, answer, request_id(request))
    return await EventStream.start_soon(request, events, RelayStream(completion))


async def _read_whole(request: Request, prompt: LLMRequest) -> tuple[bytes, str]:
    raw, text = [], []
    async with aclosing(services(request).llm.stream(prompt)) as parts:
        async for part in parts:
            if isinstance(part, LLMToken):
                raw.append(part.raw)
                text.append(part.text)
            else:
                request.scope[ANSWER] = part
    return b"".join(raw), "".join(text)


async def _relay_events(
    llm: LLMService, prompt: LLMRequest, answer: VerifiedAnswer, number: str
) -> AsyncGenerator[RelayedPart | ChatDone, None]:
    """Yield the bytes of the service up to its `[DONE]`, the evidence, and the rest. The evidence has a chunk of its own."""
    rest = last_chunk = sent = b""
    async with aclosing(llm.stream(prompt)) as parts:
        async for part in parts:
            if isinstance(part, LLMResponse):
                done = chat_event(part, number)
                break
            raw = part.raw
            if (end := _DONE.search(raw)) is not None:
                raw, rest = raw[: end.start()], raw[end.start() :]
            last_chunk, sent = raw if b'"choices"' in raw else last_chunk, raw or sent
            if answer.is_marked:
                async for event in _mark_events(raw, answer):
                    yield RelayedPart(raw=event)
            else:
                await answer.add(part.text)
                if raw:
                    yield RelayedPart(raw=raw)
        else:
            return
    if not answer.is_finished:
        marks = await answer.finish()
        if marks:
            yield RelayedPart(raw=_end_event(sent) + _make_chunk(last_chunk, {"content": marks}))
            sent = b""
    evidence = b""
    if answer.has_text:
        annotations = chat_completions.chat_annotations(answer.url_citations())
        delta = {"annotations": annotations} if annotations else {}
        evidence = _end_event(sent) + _make_chunk(last_chunk, delta, **answer.fields())
    yield RelayedPart(raw=evidence + rest)
    yield done  # type: ignore[misc]  # A complete answer is always the last event.


async def _mark_events(raw: bytes, answer: VerifiedAnswer) -> AsyncGenerator[bytes, None]:
    """Yield the events of the service, with marks in the text of the first choice."""
    for event in _split_events(raw):
        chunk = _read_chunk(event)
        choice = _first_choice(chunk)
        delta = choice.get("delta")
        text = delta.get("content") if isinstance(delta, dict) else None
        marked = text
        if isinstance(text, str) and text:
            marked = await answer.add(text)
        if (reason := choice.get("finish_reason")) and not answer.is_finished:
            marks = await answer.finish(calls_tools=reason == "tool_calls")
            if marks and text:
                marked = f"{marked}{marks}"
            elif marks:
                yield _make_chunk(event, {"content": marks})
        if marked == text:
            yield event
        else:
            delta["content"] = marked  # type: ignore[index]  # It has a text.
            yield b"data: " + _encode_chunk(chunk) + b"\n\n"


def add_evidence(raw: bytes, answer: VerifiedAnswer, marked: str | None) -> bytes:
    """Return the object of the service with the evidence as its last fields, and the annotations in its message.

    All other bytes stay, unless `marked` replaces the text. An object that cannot be read is returned as it is.
    """
    try:
        text = raw.decode()
        message = _find_value(text, "choices", 0, "message")
        inserted = []
        annotations = chat_completions.chat_annotations(answer.url_citations())
        known = _find_member(text, message, "annotations")
        if annotations and known is None:
            inserted.append((message[1] - 1, message[1] - 1, b',"annotations":' + _encode(annotations)))
        elif annotations and known is not None and not _DECODER.raw_decode(text, known)[0]:
            inserted.append((known, _DECODER.raw_decode(text, known)[1], _encode(annotations)))
        if marked is not None:
            start, end = _find_value(text, "choices", 0, "message", "content")
            inserted.append((start, end, _encode(marked)))
        end = len(text.rstrip()) - 1
        inserted.append(
            (
                end,
                end,
                b"".join(b"," + _encode(name) + b":" + _encode(value) for name, value in answer.fields().items()),
            )
        )
    except (ValueError, LookupError, RecursionError):
        return raw
    parts, done = [], 0
    for start, end, value in sorted(inserted):
        parts += [text[done:start].encode(), value]
        done = end
    return b"".join([*parts, text[done:].encode()])


def _find_value(text: str, *path: str | int) -> tuple[int, int]:
    """Return where the value at a path of JSON begins and ends. Raises LookupError or ValueError."""
    at = _skip(text, 1 if text.startswith("\ufeff") else 0)
    for step in path:
        for key, start in _each_member(text, at):
            if key == step:
                at = start
                break
        else:
            raise LookupError(step)
    return at, _DECODER.raw_decode(text, at)[1]


def _each_member(text: str, at: int) -> Any:
    """Yield the key, or the number, and the start of each value of the object or list that begins here."""
    is_object = text[at] == "{"
    at, number = _skip(text, at + 1), 0
    while text[at] not in "}]":
        key: str | int = number
        if is_object:
            key, at = _DECODER.raw_decode(text, at)
            at = _skip(text, _skip(text, at) + 1)
        yield key, at
        _, at = _DECODER.raw_decode(text, at)
        at, number = _skip(text, at), number + 1
        if text[at] == ",":
            at = _skip(text, at + 1)


def _find_member(text: str, span: tuple[int, int], name: str) -> int | None:
    """Return where the value of a member begins, or None if the object has no such member."""
    return next((start for key, start in _each_member(text, span[0]) if key == name), None)


def _skip(text: str, at: int) -> int:
    return _SPACE.match(text, at).end()  # type: ignore[union-attr]  # The pattern matches an empty text.


def _split_events(raw: bytes) -> Iterator[bytes]:
    """Yield the events, and the lines of an event whose service omits the blank lines."""
    for event in filter(None, _EVENT.findall(raw)):
        lines = event.splitlines(keepends=True)
        if sum(line.startswith(b"data:") for line in lines) > 1 and not _read_chunk(event):
            yield from lines
        else:
            yield event


def _end_event(sent: bytes) -> bytes:
    """Return the line ends that the last event lacks, so that a further one may follow."""
    if not sent or sent.endswith(_EVENT_ENDS):
        return b""
    if sent.endswith(b"\r"):
        return b"\r"
    return b"\n" if sent.endswith(b"\n") else b"\n\n"


def _read_chunk(event: bytes) -> dict[str, Any]:
    """Return the JSON object of an event, or an empty one."""
    lines = (line[5:] for line in event.splitlines() if line.startswith(b"data:"))
    try:
        chunk = json.loads(b"\n".join(lines))
    except (ValueError, RecursionError):
        return {}
    return chunk if isinstance(chunk, dict) else {}


def _first_choice(chunk: Mapping[str, Any]) -> dict[str, Any]:
    choices = chunk.get("choices")
    known = choices if isinstance(choices, list) else []
    return next((one for one in known if isinstance(one, dict) and one.get("index") in (0, None)), {})


def _make_chunk(events: bytes, delta: Mapping[str, Any], **fields: Any) -> bytes:
    """Return a chunk of the gateway with the head of the last chunk of the service."""
    known = next((chunk for event in reversed(list(_split_events(events))) if (chunk := _read_chunk(event))), {})
    head: dict[str, Any] = {name: known[name] for name in _HEAD if name in known}
    choice = {"index": 0, "delta": delta, "finish_reason": None}
    return b"data: " + _encode({**head, "choices": [choice], **fields}) + b"\n\n"


def _encode(value: Any) -> bytes:
    """Return JSON. Half of a surrogate pair, which UTF-8 cannot encode, is replaced."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


def _encode_chunk(chunk: Mapping[str, Any]) -> bytes:
    """Return the JSON of a chunk of the service. Half of a surrogate pair stays: the next chunk has the other half."""
    try:
        return json.dumps(chunk, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return json.dumps(chunk).encode()
