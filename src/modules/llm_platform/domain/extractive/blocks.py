"""Read the blocks of a source's text, Markdown or plain: paragraphs, list items, code, headings, tables.

`read_blocks` takes the text of a source. The module `sentences` splits the blocks into sentences that can be quoted.
"""

from __future__ import annotations

import itertools
import re
import textwrap
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from modules.llm_platform.domain.extractive.entries import (
    EntryMarks,
    find_entry_marks,
    is_date,
    split_date,
    split_entries,
)
from modules.llm_platform.domain.extractive.mail_headers import find_message_heading
from modules.llm_platform.domain.extractive.markup import IMAGE, strip_markup
from modules.llm_platform.domain.markdown.outline import heading_title, read_outline
from modules.llm_platform.domain.text.sentences import ends_sentence

BlockKind = Literal["paragraph", "item", "code", "heading", "table"]

MAX_HEADING_WORDS = 12
MAX_HEADING_CHARS = 80
NAVIGATION_LINES = 3  # this many short lines without a sentence end are navigation
NAVIGATION_LINE_CHARS = 40
CODE_INDENT = 4  # columns
TEXT_INDENT = 3  # columns; manuals indent the text below a heading at least this far
MAX_TERM_LINES = 6  # terms that share one explanation
MAX_MARKED_LINE_CHARS = 2000  # a longer line is always prose

_ITEM = re.compile(r"(\s*)(?:[-*+•·‣▪]|\(?\d{1,3}[.)]|\(?[a-z]\))\s+(\S.*)")
_CLAUSE_NUMBER = re.compile(r"^ {0,3}(\d{1,2})\.(\d{1,2})\.?[ \t]+(?=[^\W\d_])", re.MULTILINE)  # `2.1 The rent is …`
_TABLE = re.compile(r"\s*\|.*\||.*\s\|\s.*\s\|\s")
_TABLE_RULE = re.compile(r"\s*(?:\|\s*)?:?-+:?\s*(?:\|\s*:?-+:?\s*)+(?:\|\s*)?$")
_RULE = re.compile(r"[\s|:+=*_-]{3,}$")
_QUOTE = re.compile(r"^\s{0,3}>(?:\s|$)")
# Matches lines with nothing to quote: link definitions, directives, comments, lone images and links, console lines.
_NOISE = re.compile(
    r"\s*(?:\[[^\]]+\]:\s*\S+.*|\.\. .*|:[\w-]+:.*|<!--.*|!\[[^\]]*\]\([^)]*\)|(?:[-*+•]\s*)?\[[^\]]*\]\([^)]*\)"
    r"|https?://\S+|(?:\$|>>>)\s.*)\s*$"
)
_LONE_LINK = re.compile(r"\s*\[[^\]]*\]\([^)]*\)\s*$")  # continues the paragraph around it
_FRONT_MATTER = re.compile(r"\A---\n(?:[^\n]*\n){0,60}?---\n")
_DEFINED = re.compile(r"\s*:\s+(\S.*)")  # the explanation of the terms in the lines above
_RUN_IN = re.compile(
    r"(\*\*)(?P<title>\d{1,3}[.)] [^*_.\n]{2,80})(?:\.\1|\1\.)\s+(?=\S)"
)  # `**3. Money.** The rent is …`
_SECTION_MARK = re.compile(
    r"\A(?:§{1,2}|art(?:icle|ikel|\.)?|section|clause|abschnitt)\s*\d{1,3}[a-z]?[.):]?\s+", re.IGNORECASE
)
_CODE_TERM = re.compile(r"^\s*[-$@]|\w\(|[<_=\[]")


@dataclass(slots=True)
class Block:
    """Lines that belong together.

    - `heading` is the nearest heading above, with the title at the beginning of the paragraph, if it has one.
    - `entry` is the date of the entry of a diary or a log to which the block belongs.
    - `syntax` is the language that a fence names.
    - `term` is the term that the text explains.
    """

    kind: BlockKind
    text: str
    heading: str
    syntax: str = ""
    term: str = ""
    entry: str = ""


def read_blocks(text: str) -> list[Block]:
    """Return the blocks in order, without navigation, link definitions, images and rules."""
    text = _FRONT_MATTER.sub("", "\n".join(text.splitlines()))
    marks = find_entry_marks(text)
    blocks = list(_read_blocks(text, _ProseReader(marks, find_clause_numbers(text))))
    if marks.are_lines:
        _end_last_entry(blocks)
    return blocks


def find_clause_numbers(text: str) -> set[tuple[str, str]]:
    """Return the numbers of clauses, such as 2.1 and 2.2: at least two that follow each other. `2.5 Million` is alone."""
    numbers = [number.groups() for number in _CLAUSE_NUMBER.finditer(text)]
    pairs = itertools.pairwise(numbers)
    follow = [pair for pair in pairs if pair[0][0] == pair[1][0] and int(pair[1][1]) == int(pair[0][1]) + 1]
    return {(number[0], number[1]) for pair in follow for number in pair}


def _end_last_entry(blocks: Sequence[Block]) -> None:
    """End the last entry of a diary with its first paragraph. What is below may be about something else."""
    begins = [at for at, block in enumerate(blocks) if block.entry and (not at or blocks[at - 1].entry != block.entry)]
    for block in blocks[begins[-1] + 1 :] if begins else ():
        block.entry = ""


def _read_blocks(text: str, reader: _ProseReader) -> Iterator[Block]:
    for part in read_outline(text):
        written = text[part.start : part.end]
        if part.kind == "heading":
            yield from reader.begin_section(heading_title(written))
        elif part.kind == "code":
            yield from reader.close()
            yield _read_fenced_code(written, reader.heading)
        else:
            for line in written.split("\n"):
                yield from reader.take(line)
            yield from reader.take("")
    yield from reader.close()


def _read_fenced_code(written: str, heading: str) -> Block:
    opening, *lines = written.rstrip("\n").split("\n")
    if lines and not lines[-1].strip("`~ \t>"):
        lines.pop()
    if opening.lstrip().startswith(">"):
        lines = [_QUOTE.sub("", line, count=1) for line in lines]
    return Block("code", _join_code(lines), heading, opening.strip(" \t>`~{.}").split(" ")[0])


class _ProseReader:
    """A state machine that joins lines to paragraphs, list items, tables and indented code."""

    def __init__(self, entries: EntryMarks, clauses: Collection[tuple[str, str]]) -> None:
        """Read a text with these marks of entries, and with clauses of these numbers."""
        self.heading = ""
        self._entries, self._clauses = entries, clauses
        self._entry = ""
        self._kind: BlockKind = "paragraph"
        self._lines: list[str] = []
        self._term = ""
        self._number = ""  # of the list item
        self._blank = True
        self._in_list = False
        self._announced = False  # the last block ended in a colon

    def take(self, line: str) -> Iterator[Block]:
        if not _QUOTE.sub("", line, count=1).strip():
            if self._kind == "code":
                self._lines.append("")
            else:
                yield from self.close()
            self._blank = True
            return
        yield from self._take_text(line)
        self._blank = False

    def close(self) -> Iterator[Block]:
        """Yield the current block, if there is one."""
        lines, kind, term = self._lines, self._kind, self._term
        self._lines, self._kind, self._term = [], "paragraph", ""
        if kind == "paragraph" and (of_message := find_message_heading(lines)):
            yield self._begin_heading(of_message)
            return
        if kind == "paragraph" and _is_salutation(lines):
            yield Block("heading", lines[0].strip(), self.heading)
            return
        if not lines or _has_nothing_to_quote(kind, lines):
            return
        if kind == "code" and not self._announced and any(map(_is_prose, parts := _split_at_blank_lines(lines))):
            yield from self._read_indented_parts(parts)
            return
        if kind in ("paragraph", "item") and not term and _begins_with_heading(lines):
            yield self._begin_heading(lines[0].strip())
            kind, lines = "paragraph", lines[1:]
        is_single = kind == "paragraph" and len(lines) == 1 and not term
        if is_single and not lines[0][:TEXT_INDENT].isspace() and _reads_like_a_heading(lines[0]):
            self._begin_heading(lines[0])
            kind = "heading"
        body = _join_code(lines) if kind == "code" else "\n".join(line.strip() for line in lines)
        self._announced = body.endswith((":", "："))
        if kind in ("paragraph", "item"):
            yield from self._read_entries(kind, lines, term)
        else:
            yield Block(kind, body, self.heading, entry=self._entry)

    def _read_entries(self, kind: BlockKind, lines: Sequence[str], term: str) -> Iterator[Block]:
        """Yield the text of a paragraph or a list item. Each date at the beginning of a line begins an entry."""
        entry = self._entry
        for date, own in split_entries(lines) if self._entries.are_lines else [("", lines)]:
            entry = date or entry
            text, heading = "\n".join(line.strip() for line in own), self.heading
            if "![" in text:
                text = IMAGE.sub("", text).strip()  # its exclamation mark would end a sentence
            if title := _RUN_IN.match(text):
                heading = " · ".join(filter(None, (heading, strip_markup(title["title"]))))
                text = text[title.end() :]
            yield Block(kind, text, heading, term=term, entry=entry)
        if kind == "paragraph":
            self._entry = entry

    def _read_indented_parts(self, parts: Sequence[Sequence[str]]) -> Iterator[Block]:
        """Yield indented lines, a part between blank lines at a time, as prose or as code."""
        for part in parts:
            if _is_prose(part):
                yield Block("paragraph", "\n".join(map(str.strip, part)), self.heading)
            else:
                yield Block("code", _join_code(part), self.heading)

    def _begin_heading(self, title: str) -> Block:
        self.heading = strip_markup(title)
        self._entry = self.heading if self._entries.are_headings and is_date(self.heading) else ""
        return Block("heading", self.heading, self.heading)

    def begin_section(self, title: str) -> Iterator[Block]:
        yield from self.close()
        self._in_list = self._announced = False
        yield self._begin_heading(title)

    def _take_text(self, line: str) -> Iterator[Block]:
        looks_plain = line[0].isalpha() and line[1:2] != ")" and "|" not in line and not line.startswith("http")
        if looks_plain or len(line) > MAX_MARKED_LINE_CHARS:
            yield from self._take_prose(line)  # the usual case, without further patterns
            return
        line = _QUOTE.sub("", line, count=1)
        if self._begins_clause(line):
            yield from self._begin_clause(line)
            return
        item = _ITEM.match(line)
        if item and self._entries.are_lines and line.lstrip()[0].isdigit() and split_date(line.lstrip()).date:
            item = None  # `4. März: Frost` is no fourth item
        is_indented = len(line) - len(line.lstrip()) >= CODE_INDENT or line[0] == "\t"
        if is_indented and (self._kind == "code" or (self._blank and not self._in_list and not item)):
            if self._kind != "code":
                yield from self.close()
                self._kind = "code"
            self._lines.append(line)
        elif _TABLE.match(line) or (self._kind == "table" and _RULE.match(line)):
            if self._kind != "table":
                yield from self.close()
                self._kind = "table"
            self._lines.append(line)
        elif _RULE.match(line) or (_NOISE.match(line) and not (self._lines and _LONE_LINK.match(line))):
            yield from self.close()
        elif item:
            yield from self.close()
            self._kind, self._in_list = "item", True
            self._number = "".join(filter(str.isdigit, line[: item.start(2)]))
            self._lines.append(item.group(2))
        else:
            yield from self._take_prose(line)

    def _begins_clause(self, line: str) -> bool:
        """Return whether a line begins a clause, and not in the middle of a sentence."""
        number = _CLAUSE_NUMBER.match(line)
        if number is None or number.groups() not in self._clauses or self._kind not in ("paragraph", "item"):
            return False
        return not self._lines or self._kind == "item" or ends_sentence(self._lines[-1])

    @property
    def _has_title_only(self) -> bool:
        """True if the text so far is the title of a section with a number: `2. Rent`."""
        is_item = self._kind == "item" and len(self._lines) == 1
        return is_item and bool(self._number) and _reads_like_a_heading(self._lines[0])

    def _begin_clause(self, line: str) -> Iterator[Block]:
        """Begin a paragraph, below the title of its section if that is right above."""
        if self._has_title_only:
            yield from self.begin_section(self._lines.pop())
        else:
            yield from self.close()
        self._lines.append(line)

    def _take_prose(self, line: str) -> Iterator[Block]:
        if self._kind in ("code", "table"):
            yield from self.close()
        defined = _DEFINED.match(line)
        if defined and self._kind == "paragraph" and 0 < len(self._lines) <= MAX_TERM_LINES:
            self._term = ", ".join(map(_format_term, self._lines))
            self._lines = [defined.group(1)]
            return
        if self._blank and not line[0].isspace():
            self._in_list = False
        if line[0].isspace() and self._kind == "paragraph" and len(self._lines) == 1 and self._lines[0].isupper():
            yield from self.begin_section(self._lines.pop())  # a heading of a manual, with its text indented below
        self._lines.append(line)


def _format_term(line: str) -> str:
    """Return a term as shown before its explanation: options and signatures as code."""
    bare = line.strip()
    return f"`{bare}`" if "`" not in bare and _CODE_TERM.search(bare) else strip_markup(bare)


def is_table(lines: Sequence[str]) -> bool:
    """Return whether the lines are a Markdown table: column names, a delimiter row, rows."""
    return len(lines) > 2 and bool(_TABLE_RULE.match(lines[1]))


def _join_code(lines: Sequence[str]) -> str:
    return textwrap.dedent("\n".join(lines)).strip("\n")


def _split_at_blank_lines(lines: Sequence[str]) -> list[list[str]]:
    return [list(part) for is_text, part in itertools.groupby(lines, key=bool) if is_text]


def _is_prose(lines: Sequence[str]) -> bool:
    """Return whether indented lines are prose: they begin with a capital letter and end like a sentence."""
    text = "\n".join(lines).strip()
    return text[:1].isupper() and ends_sentence(text)


def _is_navigation(lines: Sequence[str]) -> bool:
    """Return whether all lines of a paragraph are short and none ends a sentence: menus, breadcrumbs, addresses."""
    return len(lines) >= NAVIGATION_LINES and all(
        len(line) < NAVIGATION_LINE_CHARS and not ends_sentence(line) for line in lines
    )


def _has_nothing_to_quote(kind: BlockKind, lines: Sequence[str]) -> bool:
    """Return whether lines are a menu, or the bars of something that is no table."""
    if kind == "table":
        return not is_table(lines)
    return kind == "paragraph" and _is_navigation(lines)


def _is_salutation(lines: Sequence[str]) -> bool:
    """Return whether a paragraph is one short line with a comma at its end: `Dear Nesta,`"""
    return len(lines) == 1 and lines[0].rstrip().endswith(",") and len(lines[0].split()) <= MAX_HEADING_WORDS


def _begins_with_heading(lines: Sequence[str]) -> bool:
    """Return whether the first line is the heading of the text right below it, as in `2. Members` above `The club has …`.

    A line that is wrapped is full: the first word of the next line had no room on it. A line with a figure or a colon may be a
    fact of its own, and the text of a list item is indented.
    """
    if len(lines) < 2 or not lines[1][:1].isupper() or not _reads_like_a_heading(lines[0]):
        return False
    first = _SECTION_MARK.sub("", lines[0].strip())
    room = max(map(len, lines)) - len(lines[0].rstrip()) - 1
    says_nothing = (
        first[:1].isupper() and first[-1:].isalnum() and not any(map(str.isdecimal, first)) and ":" not in first
    )
    return says_nothing and len(lines[1].split(maxsplit=1)[0]) <= room


def _reads_like_a_heading(line: str) -> bool:
    bare = line.strip()
    return (
        len(bare.split()) <= MAX_HEADING_WORDS
        and len(bare) <= MAX_HEADING_CHARS
        and not ends_sentence(bare)
        and "…" not in bare
    )
