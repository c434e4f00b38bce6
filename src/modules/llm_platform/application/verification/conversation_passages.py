"""Read the messages of a conversation as passages that an answer may be checked against.

Turns of the assistant are left out, because a model cannot prove its own words. Of system instructions, only marked passages are
read. Of user text, marked passages and long texts are read. If a tool returns the model's own arguments, such as a file that the
model has just written, these are left out too.
"""

from __future__ import annotations

import json
from base64 import b64decode
from codecs import getincrementaldecoder
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from urllib.parse import unquote_to_bytes

from modules.llm_platform.application.verification.marked_passages import (
    MAX_TITLE_CHARS,
    PASTED_CHARS,
    Passage,
    decode_json,
    split_passages,
)
from modules.llm_platform.domain.dtos.llm_dtos import ChatMessage
from modules.llm_platform.domain.urls.canonical_url import MAX_URL_CHARS, is_web_url

MAX_READ_CHARS: Final = 2_000_000  # of the conversation, from its end
MIN_OWN_CHARS: Final = 20  # a shorter text of a call, such as a name, proves nothing about who wrote it
MAX_OWN_CHARS: Final = 100_000  # of all texts of calls
MAX_OWN_TEXTS: Final = 100  # the newest texts of calls, with which results are compared
MAX_DATA_HEAD_CHARS: Final = 200  # of a data URL, up to its comma


def read_newest_first(messages: Sequence[ChatMessage]) -> Iterator[Passage]:
    """Yield the passages of all messages, the last one first. At most MAX_READ_CHARS of the texts are read."""
    calls = {str(call.get("id")): call for message in messages for call in message.tool_calls}
    written = _read_own_texts(messages)
    left = MAX_READ_CHARS
    for position, message in reversed(list(enumerate(messages))):
        if message.role == "assistant":
            continue
        text = "\n".join([message.content, *_read_parts(message.parts, message.content)])[:left]
        left -= len(text)
        for passage in reversed(list(_read_files(message.parts, left))):
            left -= len(passage.text)
            yield passage
        if message.role == "tool":
            called = _describe_call(calls.get(message.tool_call_id or "", {}))
            called = replace(called, title=called.title or (message.name or ""))
            own = [own for place, own in written if place < position]
            yield from _read_result(text, called, own)
        else:
            yield from _read_turn(text, is_user=message.role == "user")
        if left <= 0:
            return


def _read_turn(text: str, *, is_user: bool) -> Iterator[Passage]:
    """Yield the marked passages of a system or user turn, the last one first, or a whole pasted text."""
    passages = list(split_passages(text, ends_with_question=is_user))
    if not passages and is_user and any(len(block) >= PASTED_CHARS for block in text.split("\n\n")):
        yield Passage(text)
    yield from (passage for passage in reversed(passages) if not passage.is_rest)


# --- results of tools


def _read_result(text: str, called: Passage, own: Sequence[str]) -> Iterator[Passage]:
    """Yield the passages of a tool's result, the last one first.

    - `called` has the name and the address of what was called. Text outside of marked passages gets these.
    - `own` are the texts that the model itself wrote. They are removed.
    """
    passages = list(split_passages(text, ends_with_question=False))
    if not passages:
        yield _remove_own(replace(called, text=text), own)
        return
    for passage in reversed(passages):
        if not passage.is_rest:
            yield _remove_own(replace(passage, is_foreign=True), own)
    for passage in reversed(passages):
        if passage.is_rest:
            yield _remove_own(replace(called, text=passage.text, is_rest=True), own)


def _describe_call(call: Mapping[str, Any]) -> Passage:
    """Return a passage without text, named after what a call reads: its only text argument, else the tool."""
    arguments = _read_arguments(call)
    texts = [value for value in arguments.values() if isinstance(value, str)] if isinstance(arguments, dict) else []
    name = texts[0].strip() if len(texts) == 1 and "\n" not in texts[0] else ""
    url = name if is_web_url(name) and len(name) <= MAX_URL_CHARS else ""
    return Passage("", "" if url else (name or str(_read_function(call).get("name") or ""))[:MAX_TITLE_CHARS], url)


def _read_function(call: Mapping[str, Any]) -> Mapping[str, Any]:
    function = call.get("function")
    return function if isinstance(function, dict) else {}


def _read_arguments(call: Mapping[str, Any]) -> Any:
    """Return the arguments of a call; None if they are not valid JSON."""
    return decode_json(str(_read_function(call).get("arguments") or ""))


# --- texts that the model itself wrote


def _read_own_texts(messages: Sequence[ChatMessage]) -> list[tuple[int, str]]:
    """Return the longer texts among the arguments of calls, as they are and escaped, each with the position of its message."""
    found: list[tuple[int, str]] = []
    left = MAX_OWN_CHARS
    for position, text in _walk_own_texts(messages):
        if left <= 0 or len(found) >= MAX_OWN_TEXTS:
            break
        own = text.strip()
        if len(own) < MIN_OWN_CHARS or len(own.split(None, 1)) == 1:
            continue
        own = own[:left]
        left -= len(own)
        escaped = json.dumps(own, ensure_ascii=False)[1:-1]
        found += [(position, form) for form in dict.fromkeys((own, escaped))]
    return found


def _walk_own_texts(messages: Sequence[ChatMessage]) -> Iterator[tuple[int, str]]:
    """Yield every text in the arguments of calls with the position of its message, the last message first."""
    for position, message in reversed(list(enumerate(messages))):
        for call in message.tool_calls:
            waiting = [_read_arguments(call)]
            while waiting:
                node = waiting.pop()
                if isinstance(node, str):
                    yield position, node
                elif isinstance(node, dict | list):
                    waiting.extend(node.values() if isinstance(node, dict) else node)


def _remove_own(passage: Passage, written: Sequence[str]) -> Passage:
    """Return the passage without the texts that the model itself wrote."""
    text = passage.text
    if len(bare := text.strip()) >= MIN_OWN_CHARS and any(bare in own for own in written):
        return replace(passage, text="")
    for own in written:
        text = text.replace(own, " ")
    return passage if text == passage.text else replace(passage, text=text)


# --- parts and files of a message


def _read_parts(parts: Iterable[Mapping[str, Any]], content: str) -> Iterator[str]:
    """Yield the texts of parts that the content of the message does not repeat."""
    for part in parts:
        text = part.get("text")
        if isinstance(text, str) and text not in content:
            yield text


def _read_files(parts: Iterable[Mapping[str, Any]], chars: int) -> Iterator[Passage]:
    """Yield the files of a message that are texts, such as Markdown or CSV, under their names. At most `chars` are read."""
    for part in parts:
        file = part.get("file")
        if part.get("type") != "file" or not isinstance(file, dict) or chars <= 0:
            continue
        text = _decode_file(str(file.get("file_data") or ""), chars)
        chars -= len(text)
        yield Passage(text, str(file.get("filename") or "")[:MAX_TITLE_CHARS])


def _decode_file(data: str, chars: int) -> str:
    """Return the beginning of a file in base64 or in a data URL; empty if it is not UTF-8 text, such as a PDF."""
    head, comma, _ = data[:MAX_DATA_HEAD_CHARS].partition(",")
    is_base64 = not comma or head.lower().endswith(";base64")
    begin, limit = len(head) + 1 if comma else 0, 4 * (chars // 3)
    sent = data[begin : begin + limit]
    try:
        content = b64decode(sent[: len(sent) // 4 * 4]) if is_base64 else unquote_to_bytes(sent)
        text = getincrementaldecoder("utf-8-sig")().decode(content, final=len(data) <= begin + limit)
    except ValueError:
        return ""
    return "" if "\x00" in text or text.startswith("%PDF") else text
