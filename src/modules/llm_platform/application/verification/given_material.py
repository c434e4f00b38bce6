"""Collect what a model was given to answer from: the results of tools, and the documents and passages in a conversation.

The turns of the assistant are not material: a model cannot prove its own words. Instructions of the system count only for the
passages that they mark, and text of the user also if it is long. What a tool returns of the model's own arguments, such as a
file that the model has just written, is none either.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from codecs import getincrementaldecoder
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final
from urllib.parse import unquote_to_bytes

from pydantic_core import from_json

from modules.llm_platform.domain.citations.forms.cited_text import GivenSource
from modules.llm_platform.domain.citations.forms.source_lists import MAX_NUMBER, add_scheme, find_addresses, find_url
from modules.llm_platform.domain.dtos.llm_dtos import ChatMessage
from modules.llm_platform.domain.urls.canonical_url import MAX_URL_CHARS, canonical_url, is_web_url

MAX_GIVEN_SOURCES: Final = 100
MAX_GIVEN_CHARS: Final = 500_000  # of all sources; the last ones count, because an agent sends its whole conversation
MAX_READ_CHARS: Final = 2_000_000  # of the conversation, from its end
MAX_PASSAGES: Final = 1000  # of the conversation, from its end: each is compared with what the model itself wrote
MAX_SOURCE_CHARS: Final = 200_000
MAX_TITLE_CHARS: Final = 300
PASTED_CHARS: Final = 400  # a paragraph of the user with so many characters is a pasted text
HEAD_CHARS: Final = 600  # the address of a passage is searched here
MAX_BLOCKS: Final = 1000  # numbered blocks of one text, the last ones
MAX_JSON_NODES: Final = 20_000
MIN_OWN_CHARS: Final = 20  # a shorter text of a call, such as a name, proves nothing about who wrote it
MAX_OWN_CHARS: Final = 100_000  # of all these texts
MAX_OWN_TEXTS: Final = 100  # texts of calls that results are compared with, the newest
MAX_DATA_HEAD_CHARS: Final = 200  # of a data URL, up to its comma
MAX_LINKED: Final = 20  # addresses of an answer that are only inside a given text

_TAGS: Final = "document|doc|source|result|search_result|passage|chunk|file|context"
_OPEN_TAG: Final = re.compile(rf"<({_TAGS})(\s[^<>]{{0,1000}})?>", re.I)
_ATTRIBUTE: Final = re.compile(
    r"(?<![a-z_])([a-z_]{1,30})\s*=\s*(?:\"([^\"]{0,1000})\"|'([^']{0,1000})'|([^\s\"'>]{1,300}))", re.I
)
_INNER: Final = re.compile(r"\s*<(source|title|name|url|index|id)>([^<]{0,1000})</\1>", re.I)
_CONTENT: Final = re.compile(r"</?(?:document_content(?:s)?|content|text)>", re.I)
_NUMBERED: Final = re.compile(
    r"^[ \t]{0,3}(?:\[\^?|【|(?:source|document|passage|result)[ ]#?\[?)(\d{1,3})(?:\]|】|(?=[ ]{0,3}[:.—–-]))",
    re.I | re.M,
)
_SEPARATORS: Final = (":", ".", "—", "–", "-")  # between the number of a passage and its title
_ANY_TAG: Final = re.compile(r"</?[a-z_]{1,30}>", re.I)
_NUMBER_NAMES: Final = ("index", "id", "number", "n", "position", "rank", "citation_id")
_TITLE_NAMES: Final = ("title", "name", "source", "file_name", "filename", "file", "path", "doc_title")
_URL_NAMES: Final = ("url", "link", "href", "uri", "source", "permalink")
_TEXT_NAMES: Final = (
    "raw_content",
    "page_content",
    "content",
    "text",
    "markdown",
    "body",
    "passage",
    "snippet",
    "summary",
    "description",
)


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of the material.

    - `number` is the number by which the material itself names it, or None.
    - `is_foreign` is True if whoever wrote the result of a tool chose its number and its address. Such a passage takes neither
      from another source.
    - `is_rest` is True for what is outside the marked passages of a result.
    """

    text: str
    title: str = ""
    url: str = ""
    number: int | None = None
    is_foreign: bool = False
    is_rest: bool = False


def collect_given(messages: Sequence[ChatMessage]) -> tuple[GivenSource, ...]:
    """Return the material of a conversation as sources, oldest first. The newest MAX_GIVEN_CHARS are kept.

    A source has the number of its passage (`[2] Title`, `<document index="2">`) if the material numbers it, and else the next
    free one. If two passages have the same number, the newer one keeps it, and one of the user or the system before one out of
    the result of a tool.
    """
    kept: list[Passage] = []
    chars, seen = 0, set[str]()
    for passage in islice(_read_newest_first(messages), MAX_PASSAGES):
        text = passage.text.replace("\x00", "")[:MAX_SOURCE_CHARS]
        if not any(map(str.isalnum, text)) or text in seen:
            continue
        if len(kept) == MAX_GIVEN_SOURCES or chars + len(text) > MAX_GIVEN_CHARS:
            if passage.is_rest:
                continue
            break
        seen.add(text)
        chars += len(text)
        kept.append(replace(passage, text=text))
    kept.reverse()
    passages = _keep_addresses(sorted(kept, key=lambda passage: passage.is_rest))
    numbers = _assign_numbers(passages)
    return tuple(
        GivenSource(number, passage.url, passage.title, passage.text, is_numbered=number == passage.number)
        for number, passage in zip(numbers, passages, strict=True)
    )


def _keep_addresses(passages: Sequence[Passage]) -> list[Passage]:
    """Return the passages, where a foreign one has no address that another source has."""
    known = {canonical_url(passage.url) for passage in passages if passage.url and not passage.is_foreign}
    kept = []
    for passage in passages:
        if passage.is_foreign and passage.url:
            key = canonical_url(passage.url)
            passage = replace(passage, url="") if key in known else passage
            known.add(key)
        kept.append(passage)
    return kept


def _assign_numbers(passages: Sequence[Passage]) -> list[int]:
    """Return the number of each passage. The passages are in the order of the conversation."""
    positions: dict[int, int] = {}  # by number
    newest_first = sorted(range(len(passages)), key=lambda position: (passages[position].is_foreign, -position))
    for position in newest_first:
        if (number := passages[position].number) is not None:
            positions.setdefault(number, position)
    numbers = {position: number for number, position in positions.items()}
    free = (number for number in range(1, MAX_NUMBER + 1) if number not in positions)
    return [numbers[position] if position in numbers else next(free) for position in range(len(passages))]


def link_named_addresses(answer: str, given: Sequence[GivenSource]) -> tuple[GivenSource, ...]:
    """Return further sources for addresses that the answer cites and that are inside a given text: the text is theirs."""
    by_address: dict[str, GivenSource] | None = None
    known = {canonical_url(source.url) for source in given if source.url}
    linked: list[GivenSource] = []
    number = max((source.index for source in given), default=0)
    for start, end in find_addresses(answer):
        url = add_scheme(answer[start:end])
        if len(linked) == MAX_LINKED or number >= MAX_NUMBER:
            break
        if not is_web_url(url) or canonical_url(url) in known:
            continue
        known.add(canonical_url(url))
        if by_address is None:
            by_address = _map_addresses(given)
        if source := by_address.get(canonical_url(url)):
            number += 1
            linked.append(replace(source, index=number, url=url, title="", is_numbered=False))
    return tuple(linked)


def _map_addresses(given: Sequence[GivenSource]) -> dict[str, GivenSource]:
    """Return the first source in whose text each address stands, by the address in canonical form."""
    found: dict[str, GivenSource] = {}
    for source in given:
        for url in dict.fromkeys(source.text[start:end] for start, end in find_addresses(source.text)):
            found.setdefault(canonical_url(add_scheme(url)), source)
    return found


def _read_newest_first(messages: Sequence[ChatMessage]) -> Iterator[Passage]:
    """Yield the passages of all messages, the last one first. At most MAX_READ_CHARS of the texts are read.

    The result of a tool has the name of what the tool read, such as a path.
    """
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
        passages = list(split_passages(text, ends_with_question=message.role == "user"))
        if message.role == "tool":
            called = _describe_call(calls.get(message.tool_call_id or "", {}))
            called = replace(called, title=called.title or (message.name or ""))
            own = [own for place, own in written if place < position]
            passages = list(_complete(passages, text, called))
            yield from (_remove_own(passage, own) for passage in reversed(passages))
        elif message.role == "user" and any(len(block) >= PASTED_CHARS for block in text.split("\n\n")):
            passages = passages or [Passage(text)]
        if message.role != "tool":
            yield from (passage for passage in reversed(passages) if not passage.is_rest)
        if left <= 0:
            return


def _describe_call(call: Mapping[str, Any]) -> Passage:
    """Return a passage without text that has the name of what a call reads: its only text argument, or else the tool."""
    function = call.get("function")
    function = function if isinstance(function, dict) else {}
    arguments = _decode(str(function.get("arguments") or ""))
    texts = [value for value in arguments.values() if isinstance(value, str)] if isinstance(arguments, dict) else []
    name = texts[0].strip() if len(texts) == 1 and "\n" not in texts[0] else ""
    url = name if is_web_url(name) and len(name) <= MAX_URL_CHARS else ""
    return Passage("", "" if url else (name or str(function.get("name") or ""))[:MAX_TITLE_CHARS], url)


def _complete(passages: Sequence[Passage], text: str, called: Passage) -> Iterator[Passage]:
    """Yield what a tool returned: the rest under the name of what was called, and the passages marked in it."""
    if not passages:
        yield replace(called, text=text)
        return
    for passage in sorted(passages, key=lambda passage: not passage.is_rest):
        yield replace(called, text=passage.text, is_rest=True) if passage.is_rest else replace(passage, is_foreign=True)


def _read_own_texts(messages: Sequence[ChatMessage]) -> list[tuple[int, str]]:
    """Return the longer texts among the arguments of calls, each with the position of its message."""
    found: list[tuple[int, str]] = []
    left = MAX_OWN_CHARS
    for position, message in reversed(list(enumerate(messages))):
        for call in message.tool_calls:
            function = call.get("function")
            waiting = [_decode(str(function.get("arguments") or ""))] if isinstance(function, dict) else []
            while waiting and left > 0 and len(found) < MAX_OWN_TEXTS:
                node = waiting.pop()
                if isinstance(node, dict | list):
                    waiting.extend(node.values() if isinstance(node, dict) else node)
                elif (
                    isinstance(node, str) and len(own := node.strip()) >= MIN_OWN_CHARS and len(own.split(None, 1)) > 1
                ):
                    own = own[:left]
                    left -= len(own)
                    escaped = json.dumps(own, ensure_ascii=False)[1:-1]
                    found += [(position, form) for form in dict.fromkeys((own, escaped))]
    return found


def _remove_own(passage: Passage, written: Sequence[str]) -> Passage:
    """Return the passage without the texts that the model itself wrote."""
    text = passage.text
    if len(bare := text.strip()) >= MIN_OWN_CHARS and any(bare in own for own in written):
        return replace(passage, text="")
    for own in written:
        text = text.replace(own, " ")
    return passage if text == passage.text else replace(passage, text=text)


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
    """Return the beginning of a file in base64 or of a data URL, or an empty text if it is not UTF-8, such as a PDF."""
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


def split_passages(text: str, *, ends_with_question: bool) -> Iterator[Passage]:
    """Yield the passages that a text marks: elements such as `<document>`, blocks that begin with `[n]`, or JSON objects.

    The rest of the text follows as one passage; for JSON that is the whole object, if it has other values.
    """
    if text.lstrip()[:1] in ("{", "["):
        value = _decode(text)
        found = list(_read_json(value))
        if found:
            yield from found
            if _has_other_values(value):
                yield Passage(text, is_rest=True)
            return
    yield from list(_read_elements(text)) or _read_blocks(text, ends_with_question)


def _read_elements(text: str) -> Iterator[Passage]:
    at, unclosed, outside, done = 0, set[str](), list[str](), 0
    folded = text.lower() if len(text.lower()) == len(text) else text
    while (opening := _OPEN_TAG.search(text, at)) is not None:
        tag = opening[1].lower()
        end = -1 if tag in unclosed else folded.find(f"</{tag}>", opening.end())
        if end < 0:
            unclosed.add(tag)
            at = opening.end()
            continue
        inner, values = text[opening.end() : end], {}
        for name, *quoted in _ATTRIBUTE.findall(opening[2] or ""):
            values[name.lower()] = next(filter(None, quoted), "")
        begin = 0
        while (child := _INNER.match(inner, begin)) is not None:
            values.setdefault(child[1].lower(), child[2])
            begin = child.end()
        outside.append(text[done : opening.start()])
        at = done = end + len(opening[1]) + 3
        yield _make_passage(_CONTENT.sub("", inner[begin:]).strip(), values)
    if done:
        yield Passage(_ANY_TAG.sub(" ", "\n".join([*outside, text[done:]])).strip(), is_rest=True)


def _read_blocks(text: str, ends_with_question: bool) -> Iterator[Passage]:
    """Yield the blocks that begin with a line `[n] Title`. A marker after a sentence begins none."""
    heads = list(deque(_NUMBERED.finditer(text), maxlen=MAX_BLOCKS))
    for head, following in zip(heads, [*heads[1:], None], strict=False):
        end = following.start() if following else len(text)
        line_end = text.find("\n", head.end(), end)
        line_end = end if line_end < 0 else line_end
        line, body = text[head.end() : line_end].strip(" \t"), text[line_end:end]
        line = line[1:].lstrip(" \t") if line.startswith(_SEPARATORS) else line
        if following is None and ends_with_question:
            # The question is after the last passage, in a paragraph of its own.
            before, _, last = body.rstrip().rpartition("\n\n")
            body = before if len(last) < PASTED_CHARS and "\n\n" in body.rstrip() else body
        url = find_url(f"{line}{body[:HEAD_CHARS]}"[:HEAD_CHARS])
        title = line[:HEAD_CHARS]
        title = title.replace(url, "").strip(" ()<>-–—:|*#") if url else title.strip(" *#:")
        yield Passage(f"{line}\n{body}".strip(), title[:MAX_TITLE_CHARS], url, int(head[1]) or None)
    if heads:
        yield Passage(text[: heads[0].start()].strip(), is_rest=True)


def _read_json(value: Any) -> Iterator[Passage]:
    """Yield the objects of JSON that have a text, such as the results of a search."""
    for node in _walk(value):
        if isinstance(node, dict) and (texts := _read_texts(node)):
            yield _make_passage("\n".join(dict.fromkeys(texts)), node)


def _has_other_values(value: Any) -> bool:
    """Return whether JSON states more than the texts, titles, addresses and numbers of its passages."""
    named = {*_TEXT_NAMES, *_TITLE_NAMES, *_URL_NAMES, *_NUMBER_NAMES}
    for node in _walk(value):
        if isinstance(node, dict):
            known = named if _read_texts(node) else ()
            members: Iterable[Any] = (member for name, member in node.items() if name not in known)
        else:
            members = node
        if any(isinstance(member, str | int | float) and not isinstance(member, bool) for member in members):
            return True
    return False


def _walk(value: Any) -> Iterator[dict[str, Any] | list[Any]]:
    """Yield the objects and lists of JSON in their order, and at most MAX_JSON_NODES."""
    waiting, left = [value], MAX_JSON_NODES
    while waiting and left > 0:
        node = waiting.pop()
        left -= 1
        if isinstance(node, dict | list):
            yield node
            members = node.values() if isinstance(node, dict) else node
            waiting.extend(member for member in reversed(members) if isinstance(member, list | dict))


def _read_texts(node: Mapping[str, Any]) -> list[str]:
    return [node[name] for name in _TEXT_NAMES if isinstance(node.get(name), str) and node[name].strip()]


def _make_passage(text: str, values: Mapping[str, Any]) -> Passage:
    """Return a passage with what its attributes, or the fields of its object, say of it."""
    url = next((values[name] for name in _URL_NAMES if _is_address(values.get(name))), "")
    titles = (values.get(name) for name in _TITLE_NAMES)
    title = next((title.strip() for title in titles if isinstance(title, str) and title.strip() != url and title), "")
    numbers = (_read_number(values.get(name)) for name in _NUMBER_NAMES)
    return Passage(text, title[:MAX_TITLE_CHARS], url, next(filter(None, numbers), None))


def _read_number(value: object) -> int | None:
    """Return the number of a passage, or None for anything else. Python refuses to convert very long numbers."""
    if isinstance(value, str) and len(value) <= 4 and value.isdecimal():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MAX_NUMBER else None


def _is_address(value: object) -> bool:
    return isinstance(value, str) and len(value) <= MAX_URL_CHARS and is_web_url(value)


def _decode(text: str) -> Any:
    try:
        return from_json(text)
    except ValueError:
        return None
