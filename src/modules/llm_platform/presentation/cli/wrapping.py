"""Line breaks for a terminal: between words, and between the characters of scripts without spaces."""

import unicodedata
from collections.abc import Iterator
from functools import lru_cache

# Chinese and Japanese: no line begins with closing punctuation or ends with opening punctuation.
NO_LINE_START = frozenset(
    "、。，．・：；！？）］｝〉》」』】〕〗…‥ー々〻ぁぃぅぇぉっゃゅょゎァィゥェォッャュョヮ,.:;!?)]}%”’»"
)
NO_LINE_END = frozenset("（［｛〈《「『【〔〖([{“‘«")


@lru_cache(maxsize=4096)
def count_columns(char: str) -> int:
    """Return the terminal columns of a character: 2 for wide ones, 0 for combining ones."""
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def measure_columns(text: str) -> int:
    return len(text) if text.isascii() else sum(map(count_columns, text))


def measure_longest_word(text: str) -> int:
    """Return the terminal columns of the longest part of `text` between two places where a line may break."""
    return max((measure_columns(text[start:end].rstrip()) for start, end in _find_unbreakable(text)), default=0)


def find_line_starts(text: str, width: int, *, indent: int = 0, fold: bool = False) -> list[int]:
    """Return the offsets in `text`, a single line, at which it breaks so that each part takes at most `width` columns.

    Spaces at a break belong to the part before it and do not count. Parts after the first have `indent` columns less. A
    word that is wider than a line is not broken, or with `fold` is cut at the end of the line.
    """
    starts: list[int] = []
    used, room = 0, width
    for start, end in _find_unbreakable(text):
        needed = measure_columns(text[start:end].rstrip())
        if used and used + needed > room:
            starts.append(start)
            used, room = 0, width - indent
        if fold and needed > room:
            starts += (folds := _folds(text, start, end, room))
            used = measure_columns(text[folds[-1] : end]) if folds else needed
        else:
            used += measure_columns(text[start:end])
    return starts


def wrap(text: str, width: int) -> str:
    """Return the text with line breaks between words. Continuations have the indentation of their first line."""
    pieces: list[str] = []
    for line in text.split("\n"):
        indent = measure_indent(line, width)
        starts = find_line_starts(line, width, indent=indent)
        pieces += (
            (" " * indent if start else "") + (line[start:end].rstrip() if end else line[start:])
            for start, end in zip([0, *starts], [*starts, None], strict=True)
        )
    return "\n".join(pieces)


def measure_indent(line: str, width: int) -> int:
    """Return the indent of the continuation: the indent of the line, unless it takes more than a quarter of the width."""
    indent = len(line) - len(line.lstrip(" "))
    return indent if indent <= width // 4 else 0


def _find_unbreakable(text: str) -> Iterator[tuple[int, int]]:
    """Yield the offsets of the unbreakable pieces, each with the spaces after it."""
    start = 0
    first_word = len(text) - len(text.lstrip())  # No line breaks within the indent.
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
    has_no_spaces = count_columns(before) == 2 or count_columns(after) == 2
    return has_no_spaces and count_columns(after) > 0 and after not in NO_LINE_START and before not in NO_LINE_END


def _folds(text: str, start: int, end: int, room: int) -> list[int]:
    folds: list[int] = []
    used = 0
    for position in range(start, end):
        wide = count_columns(text[position])
        if used and used + wide > room and not text[position].isspace():
            folds.append(position)
            used = 0
        used += wide
    return folds
