"""The outline of a text, Markdown or plain: its headings, fenced code, and the paragraphs between them.

Takes linear time for any text, such as a line of a megabyte or an unclosed fence. Quotes, lists and tables are paragraphs.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from modules.llm_platform.domain.markdown.blocks import Fence

MAX_HEADING_LINE_CHARS: Final = 400  # a longer line is not a heading

# Lines that are neither blank nor fence, heading or underline are matched together: most lines are such.
_LINES = re.compile(r"(?P<prose>(?:[ \t]*[^\s`~#=>-][^\n]*(?:\n|\Z))+)|[^\n]*\n|[^\n]+")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_FENCE = re.compile(
    r"[ \t]{0,24}(?:> ?)*[ \t]{0,3}(`{3,}(?=[^`]*\n?\Z)|~{3,})"
)  # indented in lists and converted pages
_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+\S")
_UNDERLINE = re.compile(r" {0,3}(=+|-{2,})[ \t]*\n?")
_NO_TITLE = re.compile(
    r"\s*(?:[-*+>|•]|\d{1,9}[.)])\s"
)  # the line above an underline that is a list item, quote or table

OutlineKind = Literal["prose", "code", "heading"]


@dataclass(frozen=True, slots=True)
class OutlineBlock:
    """`text[start:end]`, whole lines; `level` is the level of a heading. Code includes its fences."""

    start: int
    end: int
    kind: OutlineKind
    level: int = 0


def read_outline(text: str) -> Iterator[OutlineBlock]:
    """Yield the blocks in order. Together they contain the whole text except blank lines."""
    begin: int | None = None  # start of the current paragraph
    lines = 0
    end = 0
    while match := _LINES.match(text, end):
        start, end = match.span()
        if match.lastgroup:
            begin = start if begin is None else begin
            lines += text.count("\n", start, end)
            continue
        line = match.group()
        first = line.lstrip(" \t>")[:1]  # checked before the patterns, which are slower
        opened = _FENCE.match(line) if first in "`~" else None
        heading = _HEADING.match(line) if first == "#" and end - start <= MAX_HEADING_LINE_CHARS else None
        underline = _UNDERLINE.fullmatch(line) if begin is not None and lines == 1 and first in "=-" else None
        if underline and begin is not None and _may_be_title(text, begin, end):
            yield OutlineBlock(begin, end, "heading", 1 if underline[1][0] == "=" else 2)
            begin, lines = None, 0
        elif opened or heading or not line.strip():
            if begin is not None:
                yield OutlineBlock(begin, start, "prose")
            begin, lines = None, 0
            if opened:
                end = _end_of_code(text, end, opened[1])
                yield OutlineBlock(start, end, "code")
            elif heading:
                yield OutlineBlock(start, end, "heading", len(heading[1]))
        else:
            begin = start if begin is None else begin
            lines += 1
    if begin is not None:
        yield OutlineBlock(begin, len(text), "prose")


def heading_title(heading: str) -> str:
    """Return the title of a heading's lines: `## Title ##` gives `Title`, but `# About C#` keeps its sign."""
    title = heading.strip().lstrip("#").partition("\n")[0].strip()
    unclosed = title.rstrip("#")
    return unclosed.rstrip() if unclosed.endswith((" ", "\t")) else title


def _may_be_title(text: str, start: int, end: int) -> bool:
    return end - start <= MAX_HEADING_LINE_CHARS and not _NO_TITLE.match(text, start)


def _end_of_code(text: str, start: int, run: str) -> int:
    """Return the end of the line that closes the fence, or of the text."""
    fence = Fence(run)
    for match in _LINE.finditer(text, start):
        line = match.group()
        if run in line and fence.is_closed_by(line.lstrip(" \t>").rstrip("\n")):
            return match.end()
    return len(text)
