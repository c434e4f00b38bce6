"""Read one line of a list of sources: where an entry begins, its label, its address and its title."""

import re
from dataclasses import dataclass
from typing import Final

from modules.llm_platform.domain.citations.forms.written_addresses import (
    ADDRESS_START,
    LINK_TEXT,
    LINK_URL,
    find_addresses,
    find_url,
    is_address_alone,
)

MAX_TITLE_CHARS: Final = 300
MAX_WORDS_AFTER_ADDRESS: Final = 12  # a line with more words after its address is prose
MAX_FILE_NAME_WORDS: Final = 6

_FOOTNOTE = re.compile(r"\s{0,3}\[\^([^\]\[\s]{1,60})\]:\s*(.*)")
_DEFINITION = re.compile(
    r"""\s{0,3}\[([^\]\[^][^\]\[]{0,80})\]:\s*<?([^\s<>]{4,2000})>?(?:\s+["'(](.{0,500})["')])?\s*\Z"""
)
_BULLET = r"(?:[-*+•]\s+)?"
_BRACKETED = re.compile(rf"[\s>]{{0,8}}{_BULLET}(?:\\?\[\^?(\d{{1,4}})\\?\]|【(\d{{1,4}})】)(?!\()\s*[:.—–-]?\s*(.*)")
_LINKED_LABEL = re.compile(rf"[\s>]{{0,8}}{_BULLET}(\[\\?\[?(\d{{1,4}})\\?\]?\]\({LINK_URL}\).*)")
_NUMBERED = re.compile(r"[\s>]{0,8}(?:\((\d{1,4})\)|(\d{1,4})[.)](?=\s)|(\d{1,4})\s*(?=[\^↑]))\s*(.*)")
_BACKLINK = re.compile(r"[\^↑]\s*(?:Jump up to:?\s*)?(?:(?:[a-z]{1,2}\s+){1,12}(?=[A-Z\"“]))?")
_ITEM = re.compile(r"[\s>]{0,8}[-*+•]\s+(.*)")
_DATED = re.compile(r"[^\W\d_].{0,400}[(\[,. ](?:1[5-9]|20|21)\d\d[a-z]?\b|.{0,400}\(n\.\s?d\.\)")
_LINK = re.compile(rf"\[({LINK_TEXT})\]\(({LINK_URL})")
_FILE_NAME = re.compile(
    r"[^.!?]{1,200}\.(?:md|txt|rst|pdf|docx?|html?|csv|tsv|xlsx|pptx|epub|json|jsonl|ipynb)", re.IGNORECASE
)
_DECORATION = re.compile(r"[*_`]+")
_AROUND = " \t\"'“”„»«.,;:|–—-<>()[]{}"
_ACCESSED = re.compile(
    r"[,.]? ?(?:accessed|retrieved|abgerufen|consulté|consultado)(?: on| am| le| el)?\b.{0,60}\Z", re.I
)


@dataclass(frozen=True, slots=True)
class ListedSource:
    """An entry of a list of sources.

    - `label` is the number of the entry, `^name` for a footnote, the name of a link definition, or empty.
    - `text` is the entry without its label.
    """

    label: str
    text: str

    @property
    def url(self) -> str:
        """The first address in the entry; empty without one."""
        return find_url(self.text)

    @property
    def title(self) -> str:
        return _extract_title(self.text)


def read_defined_source(line: str) -> tuple[str, str] | None:
    """Return the label and the text of a footnote (`[^1]: …`) or a link definition (`[name]: https://… "Title"`)."""
    if "]:" not in line:
        return None  # most lines, without a search
    if found := _FOOTNOTE.match(line):
        return f"^{found[1]}", found[2]
    if (found := _DEFINITION.match(line)) and (address := find_url(found[2])):
        return found[1].strip(), f"{found[3] or ''} {address}"
    return None


def split_label(text: str) -> tuple[str, str] | None:
    """Return the number that a line begins with, and the rest of the line; None without a number."""
    if found := _BRACKETED.match(text):
        return found[1] or found[2], _BACKLINK.sub("", found[3], count=1) if found[3][:1] in "^↑" else found[3]
    if found := _LINKED_LABEL.match(text):
        return found[2], found[1]
    if found := _NUMBERED.match(text):
        rest = found[4]
        return found[1] or found[2] or found[3], rest[back.end() :] if (back := _BACKLINK.match(rest)) else rest
    return None


def read_bullet(line: str) -> str | None:
    """Return the text after the bullet of a list item, or after the arrow that begins a reference in Wikipedia."""
    if item := _ITEM.match(line):
        return item[1]
    bare = line.lstrip()
    backlink = _BACKLINK.match(bare)
    return bare[backlink.end() :] if backlink else None


def is_item(line: str) -> bool:
    return _ITEM.match(line) is not None


def is_reference(line: str) -> bool:
    """Return whether a line looks like a reference with a year: "Smith, J. (2020). Title"."""
    return _DATED.match(line) is not None


def read_bracketed_source(line: str, following: str) -> tuple[str, str] | None:
    """Return the label and the text of `[1] Title https://…` or `[1] minutes.md`.

    `[1] Title` counts too if the line `following` is an address. A line with many words after its address is prose: None.
    """
    found = _BRACKETED.match(line)
    if found is None:
        return None
    text = found[3]
    address = next(find_addresses(text), None)
    if address and len(text[address[1] :].split()) > MAX_WORDS_AFTER_ADDRESS:
        return None
    is_source = find_url(text) or is_address_alone(following) or _is_file_name(text.strip())
    return (found[1] or found[2], text) if is_source else None


def _is_file_name(text: str) -> bool:
    return _FILE_NAME.fullmatch(text) is not None and len(text.split()) <= MAX_FILE_NAME_WORDS


def read_numbered_address(line: str) -> tuple[str, str] | None:
    """Return the number and the address of a line such as `1. https://…` that has nothing else."""
    found = _NUMBERED.match(line)
    return (found[1] or found[2] or found[3], found[4]) if found and is_address_alone(found[4]) else None


def _extract_title(text: str) -> str:
    """Return the title in an entry: the text of its link, or the entry without its address."""
    link = _LINK.search(text)
    if link and not ADDRESS_START.match(link[1]) and not link[1].strip("[]\\ ").isdigit():
        before = text[: link.start()].strip(_AROUND)
        title = link[1] if len(before) < len(link[1]) else before
    else:
        parts, done = [], 0
        without_links = _LINK.sub(" ", text)
        for start, end in find_addresses(without_links):
            parts.append(without_links[done:start])
            done = end
        title = "".join([*parts, without_links[done:]])
    title = _ACCESSED.sub("", " ".join(_DECORATION.sub("", title).split()).strip(_AROUND))
    return title.strip(_AROUND)[:MAX_TITLE_CHARS]
