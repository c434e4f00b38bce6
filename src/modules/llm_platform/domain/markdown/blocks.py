"""CommonMark's block structure, line by line: which lines are code, and which begin a block.

Containers (quotes, list items), fences and paragraphs are tracked; the inside of lines is not read. HTML blocks are not
supported: callers escape `<` first.
"""

import re
from dataclasses import dataclass
from typing import Literal

LineKind = Literal["fence", "code", "indented", "blank", "heading", "rule", "text"]

MAX_DEPTH = 24  # nested containers; further markers are text
CODE_INDENT = 4  # columns from which on a line is indented code, or continues a paragraph
TAB_COLUMNS = 4

_QUOTE = 0  # stands for a quote in the list of open containers; a list item is the width of its marker
_FENCE = re.compile(r"(`{3,})[^`|]*\Z|(~{3,})[^|]*\Z")  # a line with a bar is the head of a table to some renderers
_ITEM = re.compile(r"([-+*]|([0-9]{1,9})[.)])( +|\Z)")
_HEADING = re.compile(r"#{1,6}(?:[ \t]|\Z)")
_RULE = re.compile(r"(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})\Z")
_UNDERLINE = re.compile(r"(?:=+|-+)[ \t]*\Z")
_MARKERS = re.compile(r"[ \t>*+\-0-9.)]*")


@dataclass(frozen=True, slots=True)
class Fence:
    """An open fence: its characters, the number of containers around it, and the prefix of its closing line."""

    run: str
    depth: int = 0
    prefix: str = ""

    def is_closed_by(self, text: str) -> bool:
        """Return whether a line, without the markers of the containers, closes the fence."""
        rest = text.lstrip(" ")
        run = rest.rstrip(" \t")
        return len(text) - len(rest) < CODE_INDENT and len(run) >= len(self.run) and run == self.run[0] * len(run)


@dataclass(frozen=True, slots=True)
class Line:
    """The kind of a line, where its own text begins, and whether a list item or quote begins on it."""

    kind: LineKind
    offset: int = 0
    starts_container: bool = False


_BLANK = Line("blank")


def expand_tabs(text: str) -> str:
    """Return the line with the tabs among its quote and list markers expanded to spaces."""
    if "\t" not in text:
        return text
    end = _MARKERS.match(text).end()  # type: ignore[union-attr]  # matches the empty text too
    return text[:end].expandtabs(TAB_COLUMNS) + text[end:]


class BlockTracker:
    """Takes the lines of a text in order, without their ends, and classifies each."""

    def __init__(self) -> None:
        self._containers: list[int] = []
        self._empty_item = False  # the innermost item began with an empty line: a blank line ends it
        self._paragraph = False
        self.fence: Fence | None = None

    def opens_fence(self, text: str) -> bool:
        """Return whether this line, as the next one, would open a fence. Does not change the state."""
        if "```" not in text and "~~~" not in text:
            return False
        return _Reading(self._containers, self._paragraph, self._empty_item, text).opens_fence

    def is_indented_code(self, text: str) -> bool:
        """Return whether this line, as the next one, would be indented code for every renderer. Does not change the state."""
        if CODE_INDENT * " " not in text:
            return False
        reading = _Reading(self._containers, self._paragraph, self._empty_item, text)
        return reading.kind == "indented" and len(reading.containers) < MAX_DEPTH

    def is_code(self, text: str) -> bool:
        """Return whether this line, as the next one, would belong to the open fence or close it. Does not change the state."""
        fence = self.fence
        if fence is None:
            return False
        return not fence.depth or _match(self._containers, self._empty_item, text)[1] >= fence.depth

    def take(self, text: str) -> Line:
        """Read the next line; tabs among its markers are expanded (`expand_tabs`)."""
        if self.fence is not None and self.is_code(text):
            at, _ = _match(self._containers[: self.fence.depth], self._empty_item, text)
            if not self.fence.is_closed_by(text[at:]):
                return Line("code", at)
            self.fence = None
            return Line("fence", at)
        self.fence = None
        if not text and not self._containers:
            self._paragraph = False
            return _BLANK
        reading = _Reading(self._containers, self._paragraph, self._empty_item, text)
        self._containers = reading.containers
        self._paragraph = reading.paragraph
        self._empty_item = reading.empty_item
        if reading.opens_fence:
            self.fence = reading.fence()
        return Line(reading.kind, reading.at, reading.started)


class _Reading:
    """One line read against the open containers; the attributes are the state after it."""

    def __init__(self, containers: list[int], paragraph: bool, empty_item: bool, text: str) -> None:
        self._text = text
        self.at, matched = _match(containers, empty_item, text)
        self._tip_is_paragraph = paragraph
        self._all_matched = matched == len(containers)
        self.containers = containers[:matched]
        self.started = False
        self.empty_item = False
        self._run = ""
        while len(self.containers) < MAX_DEPTH and self._start_container():
            self.started, self._tip_is_paragraph, self._all_matched = True, False, True
        self.kind = self._leaf()
        self.paragraph = self.kind == "text"
        if self.paragraph and self._tip_is_paragraph and not self._all_matched:
            self.containers = containers  # a lazy continuation line

    @property
    def opens_fence(self) -> bool:
        return bool(self._run)

    def fence(self) -> Fence:
        prefix = "".join("> " if width == _QUOTE else " " * width for width in self.containers)
        return Fence(self._run, len(self.containers), prefix)

    def _start_container(self) -> bool:
        text, start = self._text, _skip_blanks(self._text, self.at)
        if start - self.at >= CODE_INDENT or start == len(text):
            return False
        if text[start] == ">":
            self.at = start + 1 + text.startswith(" ", start + 1)
            self.containers = [*self.containers, _QUOTE]
            return True
        item = _ITEM.match(text, start)
        if item is None or _RULE.match(text, start):
            return False
        return self._start_item(item, start - self.at)

    def _start_item(self, item: re.Match[str], indent: int) -> bool:
        is_empty = item.end() == len(self._text)
        if self._tip_is_paragraph and self._all_matched and (is_empty or int(item[2] or 1) != 1):
            return False  # such an item cannot interrupt a paragraph
        blanks = len(item[3])
        if is_empty or blanks > CODE_INDENT:
            blanks = 1
        marker = len(item[1])
        self.at = min(self.at + indent + marker + blanks, len(self._text))
        self.containers = [*self.containers, indent + marker + blanks]
        self.empty_item = is_empty
        return True

    def _leaf(self) -> LineKind:
        text, start = self._text, _skip_blanks(self._text, self.at)
        if start == len(text):
            return "blank"
        self.empty_item = False
        if start - self.at >= CODE_INDENT:
            return "text" if self._tip_is_paragraph else "indented"
        fence = _FENCE.match(text, start)
        if fence is not None and len(self.containers) < MAX_DEPTH:
            self._run = fence[1] or fence[2]
            return "fence"
        if _HEADING.match(text, start):
            return "heading"
        if _RULE.match(text, start):
            return "rule"
        if self._tip_is_paragraph and self._all_matched and _UNDERLINE.match(text, start):
            return "rule"
        return "text"


def _match(containers: list[int], empty_item: bool, text: str) -> tuple[int, int]:
    """Return the offset after the markers of the open containers, and how many of them continue in the line."""
    at = 0
    last = len(containers) - 1
    for number, width in enumerate(containers):
        start = _skip_blanks(text, at)
        if width == _QUOTE:
            if start - at >= CODE_INDENT or not text.startswith(">", start):
                return at, number
            at = start + 1 + text.startswith(" ", start + 1)
        elif start == len(text):
            if empty_item and number == last:
                return at, number
            at = len(text)
        elif start - at >= width:
            at += width
        else:
            return at, number
    return at, len(containers)


def _skip_blanks(text: str, at: int) -> int:
    while text.startswith((" ", "\t"), at):
        at += 1
    return at
