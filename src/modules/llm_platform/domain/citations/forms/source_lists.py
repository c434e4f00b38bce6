"""Find the sources that a text lists: numbered lists, footnotes, link definitions and bibliographies.

A list is below a heading such as "Sources", or its lines begin with `[1]`. Each line is read once.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from modules.llm_platform.domain.citations.forms.list_entries import (
    ListedSource,
    is_item,
    is_reference,
    read_bracketed_source,
    read_bullet,
    read_defined_source,
    read_numbered_address,
    split_label,
)
from modules.llm_platform.domain.citations.forms.written_addresses import find_url, is_address_alone
from modules.llm_platform.domain.markdown.blocks import BlockTracker, LineKind, expand_tabs
from modules.llm_platform.domain.markdown.markers import LINE
from modules.llm_platform.domain.markdown.unwrapping import SOURCE_LIST_NAMES

MAX_ENTRY_CHARS: Final = 2000  # the rest of a longer entry is not read
MAX_HEADING_WORDS: Final = 7  # a longer line is not the heading of a list
MAX_HEADING_CHARS: Final = 60

_NAMES = (
    rf"(?:{SOURCE_LIST_NAMES}|notes|footnotes|endnotes|further reading|learn more|fußnoten|notas|примечания|脚注|注释)"
)
_PLAIN_HEADING = re.compile(rf"\s{{0,3}}{_NAMES}\s*[:：]?\s*\Z", re.I)
_MARKED_HEADING = re.compile(r"\s{0,3}(?:#{1,6}\s+|(?=\*\*|__))(.{1,120}?)\s*#*\s*\Z")
_NAME_INSIDE = re.compile(rf"(?<!\w){_NAMES}(?!\w)", re.I)
_BOLD_LINE = re.compile(r"\s{0,3}(\*\*|__).{1,120}\1:?\s*\Z")


@dataclass(frozen=True, slots=True)
class TextLine:
    """A line of a text, without its line end. `start` is its offset in the text, and `kind` the kind of its Markdown block."""

    start: int
    text: str
    kind: LineKind


@dataclass(slots=True)
class SourceLists:
    """The entries of all lists, in order, and the positions of their lines, headings included."""

    entries: list[ListedSource] = field(default_factory=list)
    lines: set[int] = field(default_factory=set)


def read_text_lines(text: str) -> list[TextLine]:
    """Return the lines of a Markdown or plain text, each with its kind."""
    blocks = BlockTracker()
    return [
        TextLine(found.start(), line := found[0].removesuffix("\n"), blocks.take(expand_tabs(line)).kind)
        for found in LINE.finditer(text)
        if found[0]
    ]


def find_source_lists(lines: Sequence[TextLine]) -> SourceLists:
    """Return the lists of sources among the lines of a text."""
    return _ListReader(lines).read()


def is_list_heading(line: TextLine) -> bool:
    """Return whether a line is the heading of a list of sources, such as "Sources:" or "**Works cited**"."""
    if _PLAIN_HEADING.match(line.text[:80]):
        return True
    marked = _MARKED_HEADING.match(line.text) if len(line.text) <= 140 else None
    if marked is None:
        return False
    words = marked[1].strip("*_: ")
    is_bold_line = line.kind == "heading" or _BOLD_LINE.match(line.text) is not None
    return is_bold_line and len(words.split()) <= MAX_HEADING_WORDS and _NAME_INSIDE.search(words) is not None


class _ListReader:
    """Reads the lines of a text in order, and collects its lists of sources."""

    def __init__(self, lines: Sequence[TextLine]) -> None:
        self._lines = lines
        self._found = SourceLists()
        self._entry: tuple[str, str] | None = None  # the label and the text of the entry that may continue
        self._heading: int | None = None  # the position of the heading of the open list
        self._is_numbered = False  # True if an entry of the open list has a number
        self._is_after_blank = True

    def read(self) -> SourceLists:
        for number, line in enumerate(self._lines):
            if line.kind in ("code", "fence"):
                self._end_list()
            elif line.kind == "blank" or not line.text.strip():
                self._is_after_blank = True
                continue
            elif is_list_heading(line) or (self._is_after_blank and self._is_heading_by_what_follows(number)):
                self._end_list()
                self._heading, self._is_numbered = number, False
            elif self._take_line(number, line):
                self._found.lines.add(number)
            self._is_after_blank = False
        self._end_entry()
        return self._found

    def _is_heading_by_what_follows(self, number: int) -> bool:
        """Return whether a short line that contains a name such as "Sources" is above an entry with an address."""
        words = self._lines[number].text.strip(" *_#:：")
        if not 0 < len(words) <= MAX_HEADING_CHARS or words[-1] in ".,;!?。" or not _NAME_INSIDE.search(words):
            return False
        below = next((line.text for line in self._lines[number + 1 : number + 3] if line.text.strip()), "")
        is_entry = split_label(below) or read_bullet(below) is not None or is_address_alone(below)
        return bool(is_entry and find_url(below[:MAX_ENTRY_CHARS]))

    # --- lines of a list. Each method returns False if the line belongs to no list.

    def _take_line(self, number: int, line: TextLine) -> bool:
        text = line.text[:MAX_ENTRY_CHARS]
        if (defined := read_defined_source(text)) is not None:
            self._begin(*defined)
            return True
        if self._heading is None:
            following = self._lines[number + 1].text if number + 1 < len(self._lines) else ""
            return self._take_without_heading(text, following)
        if line.kind == "rule":
            return False
        ends_list = line.kind == "heading" or (_BOLD_LINE.match(text) and not find_url(text))
        if ends_list or not self._take_below_heading(text):
            self._end_list()
            return False
        self._found.lines.add(self._heading)
        return True

    def _take_below_heading(self, text: str) -> bool:
        """Begin an entry with the line, or continue the entry above it."""
        if (labelled := split_label(text)) is not None:
            self._is_numbered = True
            self._begin(*labelled)
            return True
        has_address, lacks_address = bool(find_url(text)), self._lacks_address()
        is_below_entry = self._entry is not None and (text[:2].isspace() or not self._is_after_blank)
        has_one_at_most = lacks_address or not has_address  # entry and line together have at most one address
        if is_below_entry and has_one_at_most and self._is_wrapped(text, has_address):
            self._continue(text)
        elif (bullet := read_bullet(text)) is not None:
            self._begin("", bullet)
        elif has_address and lacks_address and not is_reference(text):
            self._continue(text)
        elif has_address or is_reference(text):
            self._begin("", text)
        elif is_below_entry:
            self._continue(text)
        else:
            return False
        return True

    def _is_wrapped(self, text: str, has_address: bool) -> bool:
        """Return whether a line continues the entry above it. Otherwise it begins a new entry."""
        if text[:2].isspace():
            return True
        return not is_item(text) and (self._is_numbered or (has_address and not is_reference(text)))

    def _take_without_heading(self, text: str, following: str) -> bool:
        """Take `[1] Title https://…`, or a line that continues such an entry."""
        if (bracketed := read_bracketed_source(text, following)) is not None:
            self._begin(*bracketed)
        elif not self._is_after_blank and self._is_rest_of_entry(text):
            self._continue(text)
        elif (numbered := read_numbered_address(text)) is not None:
            self._begin(*numbered)
        else:
            self._end_entry()
            return False
        return True

    def _is_rest_of_entry(self, text: str) -> bool:
        """Return whether a line is indented below an entry, or is the address that the entry lacks."""
        is_indented = self._entry is not None and text[:2].isspace()
        return is_indented or (self._lacks_address() and is_address_alone(text))

    # --- the entry that may continue

    def _lacks_address(self) -> bool:
        """Return whether there is an entry that has no address yet."""
        return self._entry is not None and not find_url(self._entry[1])

    def _begin(self, label: str, text: str) -> None:
        self._end_entry()
        self._entry = (label, text)

    def _continue(self, text: str) -> None:
        if self._entry is not None:
            label, before = self._entry
            self._entry = (label, f"{before} {text.strip()}"[:MAX_ENTRY_CHARS])

    def _end_entry(self) -> None:
        if self._entry is not None:
            self._found.entries.append(ListedSource(self._entry[0], self._entry[1].strip()))
        self._entry = None

    def _end_list(self) -> None:
        self._end_entry()
        self._heading = None
