"""Collect what a model was given to answer from: the results of tools, and the documents and passages in a conversation.

The turns of the assistant are not material: a model cannot prove its own words. Instructions of the system count only for the
passages that they mark, and text of the user also if it is long.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from pydantic_core import from_json

from modules.llm_platform.domain.citations.forms.citation_forms import GivenSource
from modules.llm_platform.domain.citations.forms.source_lists import MAX_NUMBER, find_addresses, find_url
from modules.llm_platform.domain.dtos.llm_dtos import ChatMessage
from modules.llm_platform.domain.urls.canonical_url import MAX_URL_CHARS, canonical_url, is_web_url

MAX_GIVEN_SOURCES: Final = 100
MAX_GIVEN_CHARS: Final = 500_000  # of all sources; the last ones count, because an agent sends its whole conversation
MAX_READ_CHARS: Final = 2_000_000  # of the conversation, from its end
MAX_SOURCE_CHARS: Final = 200_000
MAX_TITLE_CHARS: Final = 300
PASTED_CHARS: Final = 400  # a paragraph of the user with so many characters is a pasted text
HEAD_CHARS: Final = 600  # the address of a passage is searched here
MAX_JSON_NODES: Final = 20_000
MAX_LINKED: Final = 20  # addresses of an answer that only stand inside a given text

_TAGS: Final = "document|doc|source|result|search_result|passage|chunk|file|context"
_OPEN_TAG: Final = re.compile(rf"<({_TAGS})(\s[^<>]{{0,1000}})?>", re.I)
_ATTRIBUTE: Final = re.compile(
    r"([a-z_]{1,30})\s*=\s*(?:\"([^\"]{0,1000})\"|'([^']{0,1000})'|([^\s\"'>]{1,300}))", re.I
)
_INNER: Final = re.compile(r"\s*<(source|title|name|url|index|id)>([^<]{0,1000})</\1>", re.I)
_CONTENT: Final = re.compile(r"</?(?:document_content(?:s)?|content|text)>", re.I)
_NUMBERED: Final = re.compile(
    r"^[ \t]{0,3}(?:\[\^?|【|(?:source|document|passage|result)[ ]#?\[?)(\d{1,3})(?:\]|】|(?=[ ]*[:.—–-]))"
    r"[ \t]*[:.—–-]?[ \t]*([^\n]{0,500})$",
    re.I | re.M,
)
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
    """A part of the material. `number` is the number by which the material itself names it, or None."""

    text: str
    title: str = ""
    url: str = ""
    number: int | None = None


def collect_given(messages: Sequence[ChatMessage]) -> tuple[GivenSource, ...]:
    """Return the material of a conversation as sources, oldest first. The newest MAX_GIVEN_CHARS are kept.

    A source has the number of its passage (`[2] Title`, `<document index="2">`) if the material numbers it, and else the next
    free one. If two passages have the same number, the newer one keeps it.
    """
    kept: list[Passage] = []
    chars, seen = 0, set[str]()
    for passage in _read_newest_first(messages):
        text = passage.text.replace("\x00", "")[:MAX_SOURCE_CHARS]
        if not any(map(str.isalnum, text)) or text in seen:
            continue
        if len(kept) == MAX_GIVEN_SOURCES or chars + len(text) > MAX_GIVEN_CHARS:
            break
        seen.add(text)
        chars += len(text)
        kept.append(replace(passage, text=text))
    numbers: dict[int, int] = {}  # by position in `kept`
    for position, passage in enumerate(kept):
        if passage.number is not None and passage.number not in numbers.values():
            numbers[position] = passage.number
    taken = set(numbers.values())
    free = (number for number in range(1, MAX_NUMBER + 1) if number not in taken)
    for position in reversed(range(len(kept))):
        if position not in numbers:
            numbers[position] = next(free)
    return tuple(
        GivenSource(numbers[position], passage.url, passage.title, passage.text)
        for position, passage in reversed(list(enumerate(kept)))
    )


def link_named_addresses(answer: str, given: Sequence[GivenSource]) -> tuple[GivenSource, ...]:
    """Return further sources for addresses that the answer cites and that stand inside a given text: the text is theirs."""
    known = {canonical_url(source.url) for source in given if source.url}
    linked: list[GivenSource] = []
    number = max((source.index for source in given), default=0)
    for start, end in find_addresses(answer):
        url = answer[start:end]
        if len(linked) == MAX_LINKED or number >= MAX_NUMBER:
            break
        if not is_web_url(url) or canonical_url(url) in known:
            continue
        known.add(canonical_url(url))
        bare = url.partition("#")[0].rstrip("/")
        if source := next((source for source in given if bare in source.text), None):
            number += 1
            linked.append(replace(source, index=number, url=url, title=""))
    return tuple(linked)


def _read_newest_first(messages: Sequence[ChatMessage]) -> Iterator[Passage]:
    """Yield the passages of all messages, the last one first. At most MAX_READ_CHARS of the texts are read.

    The result of a tool has the name of what the tool read, such as a path.
    """
    calls = {str(call.get("id")): call for message in messages for call in message.tool_calls}
    left = MAX_READ_CHARS
    for message in reversed(messages):
        if message.role == "assistant":
            continue
        text = "\n".join([message.content, *_read_parts(message.parts, message.content)])[:left]
        left -= len(text)
        passages = list(split_passages(text))
        if message.role == "tool" and not passages:
            called = _describe_call(calls.get(message.tool_call_id or "", {}))
            passages = [replace(called, text=text, title=called.title or (message.name or ""))]
        elif message.role == "user" and any(len(block) >= PASTED_CHARS for block in text.split("\n\n")):
            passages = passages or [Passage(text)]
        yield from reversed(passages)
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


def _read_parts(parts: Iterable[Mapping[str, Any]], content: str) -> Iterator[str]:
    """Yield the texts of parts that the content of the message does not repeat."""
    for part in parts:
        text = part.get("text")
        if isinstance(text, str) and text not in content:
            yield text


def split_passages(text: str) -> Iterator[Passage]:
    """Yield the passages that a text marks: elements such as `<document>`, blocks that begin with `[n]`, or JSON objects."""
    if text.lstrip()[:1] in ("{", "["):
        found = list(_read_json(_decode(text)))
        if found:
            yield from found
            return
    elements = list(_read_elements(text))
    yield from elements or _read_blocks(text)


def _read_elements(text: str) -> Iterator[Passage]:
    at, unclosed = 0, set[str]()
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
        while (child := _INNER.match(inner)) is not None:
            values.setdefault(child[1].lower(), child[2])
            inner = inner[child.end() :]
        at = end + len(opening[1]) + 3
        yield _make_passage(_CONTENT.sub("", inner).strip(), values)


def _read_blocks(text: str) -> Iterator[Passage]:
    """Yield the blocks that begin with a line `[n] Title`. A marker behind a sentence begins none."""
    heads = list(_NUMBERED.finditer(text))
    for head, following in zip(heads, [*heads[1:], None], strict=False):
        body = text[head.end() : following.start() if following else len(text)]
        if following is None and "\n\n" in body.strip():
            # The question stands behind the last passage, in a paragraph of its own.
            body = (
                body.rstrip().rpartition("\n\n")[0] if len(body.rstrip().rpartition("\n\n")[2]) < PASTED_CHARS else body
            )
        url = find_url((head[2] + body)[:HEAD_CHARS])
        title = head[2].replace(url, "").strip(" ()<>-–—:|*#") if url else head[2].strip(" *#:")
        yield Passage(f"{head[2]}\n{body}".strip(), title[:MAX_TITLE_CHARS], url, int(head[1]) or None)


def _read_json(value: Any) -> Iterator[Passage]:
    """Yield the objects of JSON that have a text, such as the results of a search."""
    waiting, left = [value], MAX_JSON_NODES
    while waiting and left > 0:
        node = waiting.pop()
        left -= 1
        if isinstance(node, list):
            waiting.extend(reversed(node))
        elif isinstance(node, dict):
            texts = [node[name] for name in _TEXT_NAMES if isinstance(node.get(name), str) and node[name].strip()]
            if texts:
                yield _make_passage("\n".join(dict.fromkeys(texts)), node)
            waiting.extend(member for member in reversed(node.values()) if isinstance(member, list | dict))


def _make_passage(text: str, values: Mapping[str, Any]) -> Passage:
    """Return a passage with what its attributes, or the fields of its object, say of it."""
    url = next((values[name] for name in _URL_NAMES if _is_address(values.get(name))), "")
    titles = (values.get(name) for name in _TITLE_NAMES)
    title = next((title.strip() for title in titles if isinstance(title, str) and title.strip() != url and title), "")
    numbers = (str(values.get(name, "")) for name in _NUMBER_NAMES)
    number = next((int(found) for found in numbers if found.isdecimal() and 0 < int(found[:6]) <= MAX_NUMBER), None)
    return Passage(text, title[:MAX_TITLE_CHARS], url, number)


def _is_address(value: object) -> bool:
    return isinstance(value, str) and len(value) <= MAX_URL_CHARS and is_web_url(value)


def _decode(text: str) -> Any:
    try:
        return from_json(text)
    except ValueError:
        return None
