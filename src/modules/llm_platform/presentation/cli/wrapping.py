"""Where a line for people breaks: between words, and between the characters of scripts that set no spaces."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from functools import lru_cache

# A line of Chinese or Japanese does not begin with what closes something, nor end with what opens it.
NOT_FIRST = frozenset(
    "、。，．・：；！？）］｝〉》」』】〕〗…‥ー々〻ぁぃぅぇぉっゃゅょゎァィゥェォッャュョヮ,.:;!?)]}%”’»"
)
NOT_LAST = frozenset("（［｛〈《「『【〔〖([{“‘«")


@lru_cache(maxsize=4096)
def columns_of(char: str) -> int:
    """Columns of a terminal that a character takes: 2 for wide ones, 0 for those that join the one before."""
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def columns(text: str) -> int:
    """Columns of a terminal that the text takes on one line."""
    return len(text) if text.isascii() else sum(map(columns_of, text))


def line_starts(text: str, width: int, *, indent: int = 0, fold: bool = False) -> list[int]:
    """Where in `text`, which is one line, further lines begin so that each takes at most `width` columns.

    Blanks at a break belong to the line before it and do not count. Lines after the first have `indent` columns less. A
    word that is wider than a line stays whole, or with `fold` is cut where the line ends.
    """
    starts: list[int] = []
    used, room = 0, width
    for start, end in _unbreakable(text):
        needed = columns(text[start:end].rstrip())
        if used and used + needed > room:
            starts.append(start)
            used, room = 0, width - indent
        if fold and needed > room:
            starts += (folds := _folds(text, start, end, room))
            used = columns(text[folds[-1] : end]) if folds else needed
        else:
            used += columns(text[start:end])
    return starts


def wrapped(text: str, width: int) -> str:
    """The text with line ends between words; a continued line is indented like the one that it continues."""
    return "\n".join(piece for line in text.split("\n") for piece in _pieces(line, width))


def _pieces(line: str, width: int) -> Iterator[str]:
    indent = hanging_indent(line, width)
    starts = line_starts(line, width, indent=indent)
    for start, end in zip([0, *starts], [*starts, None], strict=True):
        yield (" " * indent if start else "") + (line[start:end].rstrip() if end else line[start:])


def hanging_indent(line: str, width: int) -> int:
    """Columns by which the continuation of a line is indented: as the line itself, where that leaves room."""
    indent = len(line) - len(line.lstrip(" "))
    return indent if indent <= width // 4 else 0


def _unbreakable(text: str) -> Iterator[tuple[int, int]]:
    """The pieces that stay whole, each with the blanks behind it."""
    start = 0
    first_word = len(text) - len(text.lstrip())  # a line's own indent breaks from nothing
    for position in range(first_word + 1, len(text)):
        if _may_break(text[position - 1], text[position]):
            yield start, position
            start = position
    if text:
        yield start, len(text)


def _may_break(before: str, after: str) -> bool:
    if after.isspace():
        return False
    if before.isspace():
        return True
    if before.isascii() and after.isascii():
        return False
    has_no_spaces = columns_of(before) == 2 or columns_of(after) == 2
    return has_no_spaces and columns_of(after) > 0 and after not in NOT_FIRST and before not in NOT_LAST


def _folds(text: str, start: int, end: int, room: int) -> list[int]:
    folds: list[int] = []
    used = 0
    for position in range(start, end):
        wide = columns_of(text[position])
        if used and used + wide > room and not text[position].isspace():
            folds.append(position)
            used = 0
        used += wide
    return folds
