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
# Fences are indented in lists and converted pages.
_FENCE = re.compile(r"[ \t]{0,24}(?:> ?)*[ \t]{0,3}(`{3,}(?=[^`]*\n?\Z)|~{3,})")
_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+\S")
_UNDERLINE = re.compile(r" {0,3}(=+|-{2,})[ \t]*\n?")
# A list item, quote or table is not a title, even above an underline.
_NO_TITLE = re.compile(r"\s*(?:[-*+>|•]|\d{1,9}[.)])\s")

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
    begin, lines, end = 0, 0, 0  # `begin` and `lines` are of the current paragraph; without lines there is none
    while match := _LINES.match(text, end):
        start, end = match.span()
        if match.lastgroup:
            begin = begin if lines else start
            lines += text.count("\n", start, end) or 1
            continue
        line = match.group()
        if lines == 1 and (level := _read_underline(line)) and _may_be_title(text, begin, end):
            yield OutlineBlock(begin, end, "heading", level)
            lines = 0
        elif (block := _read_block(text, start, line)) or not line.strip():
            if lines:
                yield OutlineBlock(begin, start, "prose")
                lines = 0
            if block:
                yield block
                end = block.end
        else:
            begin = begin if lines else start
            lines += 1
    if lines:
        yield OutlineBlock(begin, len(text), "prose")


def heading_title(heading: str) -> str:
    """Return the title of a heading's lines: `## Title ##` gives `Title`, but `# About C#` keeps its sign."""
    title = heading.strip().lstrip("#").partition("\n")[0].strip()
    unclosed = title.rstrip("#")
    return unclosed.rstrip() if unclosed.endswith((" ", "\t")) else title


def _read_underline(line: str) -> int:
    """Return the level of the heading that this line underlines; 0 if it is no underline."""
    underline = _UNDERLINE.fullmatch(line)
    if underline is None:
        return 0
    return 1 if underline[1][0] == "=" else 2


def _may_be_title(text: str, start: int, end: int) -> bool:
    return end - start <= MAX_HEADING_LINE_CHARS and not _NO_TITLE.match(text, start)


def _read_block(text: str, start: int, line: str) -> OutlineBlock | None:
    """Return the code block or heading that begins with this line; None if neither does."""
    first = line.lstrip(" \t>")[:1]  # checked before the patterns, which are slower
    end = start + len(line)
    if first in "`~" and (fence := _FENCE.match(line)):
        return OutlineBlock(start, _end_of_code(text, end, fence[1]), "code")
    if first == "#" and len(line) <= MAX_HEADING_LINE_CHARS and (heading := _HEADING.match(line)):
        return OutlineBlock(start, end, "heading", len(heading[1]))
    return None


def _end_of_code(text: str, start: int, run: str) -> int:
    """Return the end of the line that closes the fence, or of the text."""
    fence = Fence(run)
    for match in _LINE.finditer(text, start):
        line = match.group()
        if run in line and fence.is_closed_by(line.lstrip(" \t>").rstrip("\n")):
            return match.end()
    return len(text)
