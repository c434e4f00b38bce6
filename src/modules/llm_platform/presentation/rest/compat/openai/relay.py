"""Chat completions of a language model byte for byte, with the evidence of the gateway beside them.

Only what the mode `mark` marks is written anew: the text of a message, or of a chunk that ends a sentence.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final, Literal

from fastapi import Request, Response
from pydantic import BaseModel

from modules.llm_platform.application.services.llm_service import LLMService
from modules.llm_platform.domain.dtos.llm_dtos import LLMRequest, LLMResponse, LLMToken
from modules.llm_platform.presentation.rest.chat_routes import ChatDone, make_chat_event
from modules.llm_platform.presentation.rest.compat import chat_completions
from modules.llm_platform.presentation.rest.compat.dialect import JSON
from modules.llm_platform.presentation.rest.compat.verified_answers import VerifiedAnswer
from modules.llm_platform.presentation.rest.http.disconnect import CancelOnDisconnect
from modules.llm_platform.presentation.rest.http.request_scope import ANSWER, get_services, request_id
from modules.llm_platform.presentation.rest.http.sse import EventStream

Path = tuple[str | int, ...]  # of a value in JSON

_DONE: Final = re.compile(rb"(?:\A|[\r\n])(data:[ ]?\[DONE\])")
_DATA: Final = re.compile(r"(?:\A|(?<=[\r\n]))data:[ ]?([^\r\n]*)")
_EVENT: Final = re.compile(rb".*?(?:\r\n\r\n|\n\n|\r\r|\Z)", re.S)
_EVENT_ENDS: Final = (b"\n\n", b"\n\r\n", b"\r\r")
_BLANK: Final = b"\xef\xbb\xbf \t\r\n"
_CHOICES: Final = b'"choices"'
_CHUNK: Final = "chat.completion.chunk"
_TEXTS: Final = ("text", "output_text")
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
    if text:
        written = _find_texts(_find_first_choice(_read_json(_decode(raw)))[1], "message")
        answer.is_marked = answer.is_marked and len(written) == 1  # Several texts are read as one.
        marked = await answer.check_whole(text)
        raw = add_evidence(raw, answer, None if marked == text else marked)
    return Response(raw, media_type=JSON, headers=answer.headers())


async def relay_stream(
    request: Request, prompt: LLMRequest, answer: VerifiedAnswer, completion: chat_completions.Completion
) -> EventStream:
    events = _relay_events(get_services(request).llm, prompt, answer, request_id(request))
    return await EventStream.start_soon(request, events, RelayStream(completion))


async def _read_whole(request: Request, prompt: LLMRequest) -> tuple[bytes, str]:
    raw, text = [], []
    async with aclosing(get_services(request).llm.stream(prompt)) as parts:
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
    """Yield the bytes of the service up to its `[DONE]`, the evidence, and the rest. The evidence has a chunk of its own.

    A complete answer of a service that sends no `[DONE]` gets one: clients that wait for it would take the answer as cut.
    """
    last_chunk = rest = b""
    held = bytearray()  # an event that has no end yet
    async with aclosing(llm.stream(prompt)) as parts:
        async for part in parts:
            if isinstance(part, LLMResponse):
                done = make_chat_event(part, number)
                break
            if rest:
                rest += part.raw
                continue
            raw, rest = _split_done(_make_events(part.raw))
            last_chunk = raw if _CHOICES in raw else last_chunk
            if not answer.is_marked:
                await answer.add(part.text)
            async for events in _mark_events(raw, answer):
                held += events
                if held.endswith(_EVENT_ENDS):  # A heartbeat must not be inside an event.
                    yield RelayedPart(raw=bytes(held))
                    held.clear()
        else:
            return
    if not answer.is_finished and (marks := await answer.finish()):
        held += _end_event(held) + _make_chunk(last_chunk, {"content": marks})
    if answer.has_text:
        annotations = chat_completions.make_chat_annotations(answer.url_citations())
        delta = {"annotations": annotations} if annotations else {}
        held += _end_event(held) + _make_chunk(last_chunk, delta, **answer.fields())
    rest = rest or _end_event(held) + chat_completions.END_OF_STREAM
    yield RelayedPart(raw=bytes(held) + rest)
    yield done  # type: ignore[misc]  # A complete answer is always the last event.


async def _mark_events(raw: bytes, answer: VerifiedAnswer) -> AsyncGenerator[bytes, None]:
    """Yield the events of the service, in the mode `mark` with marks in the text of the first choice."""
    if not answer.is_marked:
        yield raw
        return
    for event in _split_events(raw):
        if _CHOICES not in event:
            yield event
            continue
        position, choice = _find_first_choice(_read_chunk(event))
        written = _find_texts(choice, "delta")
        shown = [await answer.add(text) for _, text in written]
        if (reason := choice.get("finish_reason")) and not answer.is_finished:
            marks = await answer.finish(calls_tools=reason == "tool_calls")
            if marks and shown:
                shown[-1] += marks
            elif marks:
                yield _make_chunk(event, {"content": marks})
        replaced = [
            (("choices", position, *path), marked)
            for (path, text), marked in zip(written, shown, strict=True)
            if marked != text
        ]
        yield _replace_texts(event, replaced) if replaced else event


def _replace_texts(event: bytes, replaced: Sequence[tuple[Path, str]]) -> bytes:
    """Return an event with other texts at these paths of its JSON. All other bytes stay, unless its data has several lines."""
    text = _decode(event)
    lines = list(_DATA.finditer(text))
    if len(lines) > 1:
        data = " ".join(line[1] for line in lines)
        text = f"{text[: lines[0].start()]}data: {data}{text[lines[-1].end() :]}"
    at = next(_DATA.finditer(text)).start(1)
    spans = [(*_find_value(text, *path, at=at), _encode_text(marked)) for path, marked in replaced]
    return _splice(text, spans)


def add_evidence(raw: bytes, answer: VerifiedAnswer, marked: str | None) -> bytes:
    """Return the object of the service with the evidence as its last fields, and the annotations in its message.

    All other bytes stay, unless `marked` replaces the text. An object that cannot be read is returned as it is.
    """
    text = _decode(raw)
    position, choice = _find_first_choice(_read_json(text))
    fields = b"".join(b"," + _encode(name) + b":" + _encode(value) for name, value in answer.fields().items())
    try:
        inserted = [(end := len(text.rstrip()) - 1, end, fields)]
        if isinstance(choice.get("message"), dict):
            message = _find_value(text, "choices", position, "message")
            inserted += _insert_annotations(
                text, message, chat_completions.make_chat_annotations(answer.url_citations())
            )
        if marked is not None:
            [(path, _)] = _find_texts(choice, "message")
            inserted.append((*_find_value(text, "choices", position, *path), _encode_text(marked)))
        return _splice(text, inserted)
    except (ValueError, LookupError, RecursionError):
        return raw


def _insert_annotations(
    text: str, message: tuple[int, int], annotations: Sequence[Mapping[str, Any]]
) -> list[tuple[int, int, bytes]]:
    """Return where annotations go: after the last field of the message, or instead of an empty list of the service."""
    known = _find_member(text, message[0], "annotations")
    if annotations and known is None:
        return [(message[1] - 1, message[1] - 1, b',"annotations":' + _encode(annotations))]
    if annotations and known is not None and not _DECODER.raw_decode(text, known)[0]:
        return [(known, _DECODER.raw_decode(text, known)[1], _encode(annotations))]
    return []


def _splice(text: str, inserted: Iterable[tuple[int, int, bytes]]) -> bytes:
    """Return the text with other bytes from the start to the end of each span."""
    parts, done = [], 0
    for start, end, value in sorted(inserted):
        parts += [_encode_as_read(text[done:start]), value]
        done = end
    return b"".join([*parts, _encode_as_read(text[done:])])


def _find_value(text: str, *path: str | int, at: int = 0) -> tuple[int, int]:
    """Return where the value at a path of the JSON at `at` begins and ends. Raises LookupError or ValueError."""
    at = _skip(text, at + text.startswith("\ufeff", at))
    for step in path:
        if (start := _find_member(text, at, step)) is None:
            raise LookupError(step)
        at = start
    return at, _DECODER.raw_decode(text, at)[1]


def _visit_members(text: str, at: int) -> Any:
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


def _find_member(text: str, at: int, name: str | int) -> int | None:
    """Return where a member begins, or None if there is none. Of equal names the last counts, as where JSON is read."""
    return next(iter(deque((start for key, start in _visit_members(text, at) if key == name), maxlen=1)), None)


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


def _end_event(sent: bytes | bytearray) -> bytes:
    """Return the line ends that the last event lacks, so that a further one may follow."""
    if not sent or sent.endswith(_EVENT_ENDS):
        return b""
    if sent.endswith(b"\r"):
        return b"\r"
    return b"\n" if sent.endswith(b"\n") else b"\n\n"


def _split_done(raw: bytes) -> tuple[bytes, bytes]:
    """Return the events before `[DONE]`, and its event with what follows."""
    found = _DONE.search(raw)
    if found is None:
        return raw, b""
    start = found.start(1)
    before = raw[:start].splitlines(keepends=True)
    while before and before[-1].startswith((b"event:", b"id:", b"retry:")):
        start -= len(before.pop())
    return raw[:start], raw[start:]


def _make_events(raw: bytes) -> bytes:
    """Return the events of the service. One JSON object instead of a stream becomes a chunk with all its fields."""
    start = raw.lstrip(_BLANK)
    if not start.startswith(b"{") or not (answer := _read_json(_decode(start))):
        return raw
    choices = [_make_delta(choice) for choice in answer.get("choices") or () if isinstance(choice, dict)]
    return b"data: " + _encode({**answer, "object": _CHUNK, "choices": choices}) + b"\n\ndata: [DONE]\n\n"


def _make_delta(choice: Mapping[str, Any]) -> dict[str, Any]:
    """Return the choice of an answer as the choice of a chunk. Calls of tools have their numbers there."""
    delta = choice.get("message")
    if not isinstance(delta, dict):
        return dict(choice)
    if isinstance(calls := delta.get("tool_calls"), list):
        calls = [{"index": number, **call} for number, call in enumerate(calls) if isinstance(call, dict)]
        delta = {**delta, "tool_calls": calls}
    return {name: value for name, value in choice.items() if name != "message"} | {"delta": delta}


def _read_chunk(event: bytes) -> dict[str, Any]:
    """Return the JSON object of an event, or an empty one."""
    text = _decode(event)
    return _read_json("\n".join(line[1] for line in _DATA.finditer(text)))


def _read_json(text: str) -> dict[str, Any]:
    """Return the object of JSON, or an empty one."""
    try:
        value = _DECODER.decode(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _find_first_choice(answer: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
    """Return the choice with the number 0, and its position in the list."""
    choices = answer.get("choices")
    known = enumerate(choices if isinstance(choices, list) else [])
    return next(((at, one) for at, one in known if isinstance(one, dict) and one.get("index") in (0, None)), (0, {}))


def _find_texts(choice: Mapping[str, Any], name: str) -> list[tuple[Path, str]]:
    """Return the texts of a choice with their paths: its content, a part of its content, or a text completion."""
    message = choice.get(name)
    content = message.get("content") if isinstance(message, dict) else choice.get("text")
    path: Path = (name, "content") if isinstance(message, dict) else ("text",)
    found: list[tuple[Path, Any]] = [(path, content)]
    if isinstance(content, list):
        parts = [(at, part) for at, part in enumerate(content) if isinstance(part, dict)]
        found = [((*path, at, "text"), part.get("text")) for at, part in parts if part.get("type", "text") in _TEXTS]
    return [(path, text) for path, text in found if isinstance(text, str) and text]


def _make_chunk(events: bytes, delta: Mapping[str, Any], **fields: Any) -> bytes:
    """Return a chunk of the gateway with the head, and in the form, of the last chunk of the service."""
    known = next((chunk for event in reversed(list(_split_events(events))) if (chunk := _read_chunk(event))), {})
    head: dict[str, Any] = {name: known[name] for name in _HEAD if name in known}
    last = _find_first_choice(known)[1]
    is_text = isinstance(last.get("text"), str) and "delta" not in last
    said = {"text": delta.get("content", "")} if is_text else {"delta": delta}
    choice = {"index": 0, **said, "finish_reason": None}
    return b"data: " + _encode({**head, "choices": [choice], **fields}) + b"\n\n"


def _decode(raw: bytes) -> str:
    """Return the text of bytes that may be invalid UTF-8. `_encode_as_read` returns the bytes again."""
    return raw.decode("utf-8", "surrogateescape")


def _encode_as_read(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _encode(value: Any) -> bytes:
    """Return JSON. Half of a surrogate pair, which UTF-8 cannot encode, is replaced."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


def _encode_text(text: str) -> bytes:
    """Return JSON of a text of the service. Half of a surrogate pair stays: the next chunk has the other half."""
    try:
        return json.dumps(text, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return json.dumps(text).encode()
