"""Split a text that was given to a model into the passages that it marks, with their titles, addresses and numbers.

Clients mark passages by elements such as `<document index="2">`, by lines such as `[2] Title`, or by JSON objects.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Final

from pydantic_core import from_json

from modules.llm_platform.domain.citations.forms.cited_text import MAX_NUMBER
from modules.llm_platform.domain.citations.forms.written_addresses import find_url
from modules.llm_platform.domain.urls.canonical_url import MAX_URL_CHARS, is_web_url

MAX_TITLE_CHARS: Final = 300
PASTED_CHARS: Final = 400  # a paragraph of the user with at least this many characters is a pasted text
HEAD_CHARS: Final = 600  # the address of a passage is searched here
MAX_BLOCKS: Final = 1000  # numbered blocks of one text, the last ones
MAX_JSON_NODES: Final = 20_000

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

    - `number` is the number that the material gives it, or None.
    - `is_foreign` is True if the author of a tool's result chose its number and its address. Such a passage cannot take either
      from another source.
    - `is_rest` is True for the text outside of the marked passages.
    """

    text: str
    title: str = ""
    url: str = ""
    number: int | None = None
    is_foreign: bool = False
    is_rest: bool = False


def split_passages(text: str, *, ends_with_question: bool) -> Iterator[Passage]:
    """Yield the passages that a text marks: elements such as `<document>`, blocks that begin with `[n]`, or JSON objects.

    The rest of the text follows as one passage. For JSON, this is the whole text if it has other values.
    """
    if text.lstrip()[:1] in ("{", "["):
        value = decode_json(text)
        found = list(_read_json(value))
        if found:
            yield from found
            if _has_other_values(value):
                yield Passage(text, is_rest=True)
            return
    yield from list(_read_elements(text)) or _read_blocks(text, ends_with_question)


def _read_elements(text: str) -> Iterator[Passage]:
    """Yield the elements such as `<document>`, then the text outside them as the rest."""
    outside, done = list[str](), 0
    for opening, close in _find_elements(text):
        outside.append(text[done : opening.start()])
        done = close + len(f"</{opening[1]}>")
        yield _read_element(opening[2] or "", text[opening.end() : close])
    if done:
        yield Passage(_ANY_TAG.sub(" ", "\n".join([*outside, text[done:]])).strip(), is_rest=True)


def _find_elements(text: str) -> Iterator[tuple[re.Match[str], int]]:
    """Yield the opening tag of each element and the offset of its closing tag, without nested elements."""
    folded = text.lower() if len(text.lower()) == len(text) else text
    at, unclosed = 0, set[str]()
    while (opening := _OPEN_TAG.search(text, at)) is not None:
        tag = opening[1].lower()
        close = -1 if tag in unclosed else folded.find(f"</{tag}>", opening.end())
        if close < 0:
            unclosed.add(tag)  # not searched again, because each search reads the rest of the text
            at = opening.end()
        else:
            yield opening, close
            at = close + len(f"</{tag}>")


def _read_element(attributes: str, inner: str) -> Passage:
    """Return the content of an element, described by its attributes and by the elements before the content."""
    values = {name.lower(): next(filter(None, quoted), "") for name, *quoted in _ATTRIBUTE.findall(attributes)}
    begin = 0
    while (child := _INNER.match(inner, begin)) is not None:
        values.setdefault(child[1].lower(), child[2])
        begin = child.end()
    return _make_passage(_CONTENT.sub("", inner[begin:]).strip(), values)


def _read_blocks(text: str, ends_with_question: bool) -> Iterator[Passage]:
    """Yield the blocks that begin with a line `[n] Title`, then the text before them.

    A marker after a sentence begins no block.
    """
    heads = list(deque(_NUMBERED.finditer(text), maxlen=MAX_BLOCKS))
    for head, following in zip_longest(heads, heads[1:]):
        block = text[head.end() : following.start() if following else len(text)]
        has_question = ends_with_question and following is None
        yield _read_block(int(head[1]) or None, _remove_question(block) if has_question else block)
    if heads:
        yield Passage(text[: heads[0].start()].strip(), is_rest=True)


def _read_block(number: int | None, block: str) -> Passage:
    """Return a block without its number. The title is in its first line, and the address there or soon after it."""
    line, line_end, body = block.partition("\n")
    line = line.strip(" \t")
    line = line[1:].lstrip(" \t") if line.startswith(_SEPARATORS) else line
    url = find_url(f"{line}{line_end}{body[:HEAD_CHARS]}"[:HEAD_CHARS])
    title = line[:HEAD_CHARS]
    title = title.replace(url, "").strip(" ()<>-–—:|*#") if url else title.strip(" *#:")
    return Passage(f"{line}\n{line_end}{body}".strip(), title[:MAX_TITLE_CHARS], url, number)


def _remove_question(block: str) -> str:
    """Return the last block without the question, which is in a paragraph of its own below the block."""
    line, line_end, body = block.partition("\n")
    before, paragraph_end, last = f"{line_end}{body}".rstrip().rpartition("\n\n")
    return f"{line}{before}" if paragraph_end and len(last) < PASTED_CHARS else block


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
    """Yield the objects and lists of JSON in their order, at most MAX_JSON_NODES of them."""
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
    """Return a passage, described by its attributes or by the fields of its object."""
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


def decode_json(text: str) -> Any:
    """Return the value of a JSON text; None if it is not valid."""
    try:
        return from_json(text)
    except ValueError:
        return None
