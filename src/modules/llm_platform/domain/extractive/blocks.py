"""Turn finished lines into blocks of a text: a paragraph, a heading, entries of a diary, code, a table, or nothing.

`block_reader` collects the lines of a block, and gives them to a `BlockWriter` when the block ends.
"""

import itertools
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from modules.llm_platform.domain.extractive.entries import DiaryStyle, is_date, split_entries
from modules.llm_platform.domain.extractive.mail_headers import find_message_heading
from modules.llm_platform.domain.extractive.markup import IMAGE, strip_markup
from modules.llm_platform.domain.text.sentences import COLONS, ends_sentence

BlockKind = Literal["paragraph", "item", "code", "heading", "table"]

MAX_HEADING_WORDS = 12
MAX_HEADING_CHARS = 80
MAX_FACT_CHARS = 110  # of a line such as `Organic waste bin, emptied every two weeks: 51.60 euros`
MAX_NAME_WORDS = 8  # in a line of a letterhead
NAVIGATION_LINES = 3  # this many short lines without a sentence end are navigation
NAVIGATION_LINE_CHARS = 40
TEXT_INDENT = 3  # columns; manuals indent the text below a heading at least this far

_TABLE_RULE = re.compile(r"\s*(?:\|\s*)?:?-+:?\s*(?:\|\s*:?-+:?\s*)+(?:\|\s*)?$")
_RUN_IN = re.compile(
    r"(\*\*)(?P<title>\d{1,3}[.)] [^*_.\n]{2,80})(?:\.\1|\1\.)\s+(?=\S)"
)  # `**3. Money.** The rent is …`
_LABEL = re.compile(r"[^:\n]{1,40}: *\S")  # `Our reference: BA-3307`
_SECTION_MARK = re.compile(
    r"\A(?:§{1,2}|art(?:icle|ikel|\.)?|section|clause|abschnitt)\s*\d{1,3}[a-z]?[.):]?\s+", re.IGNORECASE
)


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


@dataclass(slots=True)
class UnfinishedBlock:
    """The lines of a block so far.

    - `term` is the term that the lines explain.
    - `number` is the number of a list item.
    """

    kind: BlockKind = "paragraph"
    lines: list[str] = field(default_factory=list)
    term: str = ""
    number: str = ""

    @property
    def is_section_title(self) -> bool:
        """True if the lines so far are the title of a section with a number: `2. Rent`."""
        is_numbered = self.kind == "item" and bool(self.number)
        return is_numbered and len(self.lines) == 1 and _reads_like_a_heading(self.lines[0])


class BlockWriter:
    """Makes blocks of finished lines, each with the heading and the date of a diary that are above it."""

    def __init__(self, style: DiaryStyle) -> None:
        self.blocks: list[Block] = []
        self._style = style
        self._heading = ""
        self._entry = ""
        self._is_code_announced = False  # the last block ended in a colon

    def begin_section(self, title: str) -> None:
        self._is_code_announced = False
        self._add_heading(title)

    def add_fenced_code(self, lines: Sequence[str], syntax: str) -> None:
        self._is_code_announced = False
        self._append("code", _join_code(lines), syntax=syntax)

    def add(self, block: UnfinishedBlock) -> None:
        """Append the block. A menu is dropped, and a block that begins with a heading becomes several blocks."""
        match block.kind:
            case "code":
                self._add_indented_lines(block.lines)
            case "table":
                self._add_table(block.lines)
            case "item":
                self._add_text(block.kind, block.lines)
            case _:
                self._add_paragraph(block.lines, block.term)

    def _add_paragraph(self, lines: Sequence[str], term: str) -> None:
        if of_message := find_message_heading(lines):
            self._add_heading(of_message)
        elif _is_salutation(lines):
            self._append("heading", lines[0].strip())
        elif not self.blocks and _is_letterhead(lines):
            self._add_letterhead(lines)
        elif _are_short_lines(lines) and all(map(_has_label, lines)):  # `Sat: 10 to 2`, each line a fact
            for line in lines:
                self._append("paragraph", line.strip())
        elif not _is_navigation(lines):
            self._add_text("paragraph", lines, term)

    def _add_letterhead(self, lines: Sequence[str]) -> None:
        """Add the names as one heading, and each line that states a fact as a paragraph.

        The first line of a text is the heading of all that follows.
        """
        if names := " · ".join(line.strip() for line in lines if not _states_fact(line)):
            if _begins_with_heading(lines):
                self._begin_heading(lines[0])
            self._append("heading", names)
        for line in lines:
            if _states_fact(line):
                self._append("paragraph", line.strip())

    def _add_text(self, kind: BlockKind, lines: Sequence[str], term: str = "") -> None:
        """Add a paragraph or a list item. Its first line, or all of it, may be a heading."""
        if not term and _begins_with_heading(lines):
            self._add_heading(lines[0].strip())
            kind, lines = "paragraph", lines[1:]
        self._is_code_announced = _ends_in_colon(lines[-1].strip())
        if kind == "paragraph" and not term and _is_heading(lines):
            self._begin_heading(lines[0])
            self._append("heading", lines[0].strip())
        else:
            self._add_entries(kind, lines, term)

    def _add_entries(self, kind: BlockKind, lines: Sequence[str], term: str) -> None:
        """Add the text of a paragraph or a list item. Each date at the beginning of a line begins an entry."""
        entry = self._entry
        for date, own in split_entries(lines) if self._style.dates_begin_lines else [("", lines)]:
            entry = date or entry
            text, heading = "\n".join(line.strip() for line in own), self._heading
            if "![" in text:
                text = IMAGE.sub("", text).strip()  # its exclamation mark would end a sentence
            if title := _RUN_IN.match(text):
                heading = " · ".join(filter(None, (heading, strip_markup(title["title"]))))
                text = text[title.end() :]
            self.blocks.append(Block(kind, text, heading, term=term, entry=entry))
        if kind == "paragraph":
            self._entry = entry

    def _add_table(self, lines: Sequence[str]) -> None:
        """Add a table. Lines with bars that are no table have nothing to quote."""
        if _is_table(lines):
            self._is_code_announced = _ends_in_colon(lines[-1].strip())
            self._append("table", "\n".join(map(str.strip, lines)))

    def _add_indented_lines(self, lines: Sequence[str]) -> None:
        """Add indented lines as code. Without a colon above, parts between blank lines that look like prose become paragraphs."""
        parts = _split_at_blank_lines(lines)
        if not self._is_code_announced and any(map(_is_prose, parts)):
            for part in parts:
                if _is_prose(part):
                    self._append("paragraph", "\n".join(map(str.strip, part)))
                else:
                    self._append("code", _join_code(part))
            return
        code = _join_code(lines)
        self._is_code_announced = _ends_in_colon(code)
        self._append("code", code)

    def _add_heading(self, title: str) -> None:
        self._begin_heading(title)
        self._append("heading", self._entry or self._heading)

    def _append(self, kind: BlockKind, text: str, *, syntax: str = "") -> None:
        """Append a block below the heading and the date of the lines above it."""
        self.blocks.append(Block(kind, text, self._heading, syntax, entry=self._entry))

    def _begin_heading(self, title: str) -> None:
        """Begin a section. The entries of a diary, whose titles are dates, are below the heading above them."""
        stripped = strip_markup(title)
        is_entry = self._style.dates_are_headings and is_date(stripped)
        self._entry = stripped if is_entry else ""
        self._heading = self._heading if is_entry else stripped


def _ends_in_colon(text: str) -> bool:
    return text.endswith(tuple(COLONS))


def _is_table(lines: Sequence[str]) -> bool:
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
        len(line.strip()) < NAVIGATION_LINE_CHARS and not ends_sentence(line) for line in lines
    )


def _is_letterhead(lines: Sequence[str]) -> bool:
    """Return whether the first paragraph of a text has several lines of names and facts, and no sentence."""
    names = [line for line in lines if not _states_fact(line)]
    return _are_short_lines(lines) and all(len(line.split()) <= MAX_NAME_WORDS for line in names)


def _are_short_lines(lines: Sequence[str]) -> bool:
    bare = [line.strip() for line in lines]
    begin = all(line[:1].isupper() or line[:1].isdigit() for line in bare)
    return len(lines) > 1 and begin and all(len(line) <= MAX_FACT_CHARS and not _ends_sentence(line) for line in bare)


def _ends_sentence(line: str) -> bool:
    """Return whether a line ends a sentence. The dot of `e.V.` and `S.A.` does not."""
    return ends_sentence(line) and "." not in line.split()[-1][:-1]


def _has_label(line: str) -> bool:
    return _LABEL.match(line) is not None


def _states_fact(line: str) -> bool:
    """Return whether a short line has a label, or a figure and is not in capitals: `Telephone 01632 960882`."""
    letters = [letter for letter in line if letter.isalpha()]
    in_capitals = 2 * sum(map(str.isupper, letters)) > len(letters)
    return _has_label(line) or (not in_capitals and any(map(str.isdecimal, line)))


def _is_salutation(lines: Sequence[str]) -> bool:
    """Return whether a paragraph is one short line with a comma at its end: `Dear Nesta,`"""
    return len(lines) == 1 and lines[0].rstrip().endswith(",") and len(lines[0].split()) <= MAX_HEADING_WORDS


def _is_heading(lines: Sequence[str]) -> bool:
    """Return whether a whole paragraph is a heading: one line that is not indented."""
    return len(lines) == 1 and not lines[0][:TEXT_INDENT].isspace() and _reads_like_a_heading(lines[0])


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
