"""Find the tables in a text, with the place of each row."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from modules.llm_platform.domain.extractive.sentences import MAX_COLUMNS, MAX_SENTENCE_CHARS, split_cells
from modules.llm_platform.domain.extractive.tables import MIN_ROWS, Row, Table, is_total
from modules.llm_platform.domain.text.sentences import Span

TABLE_MARK: Final = "---"  # between the names of the columns and the rows

# The names of the columns with the rule below them, and the rows.
TABLE: Final = re.compile(
    r"^(\|[^\n]*\|[ \t]*\n\|[ \t]*:?-[-:|][-:| \t]*\|[ \t]*)\n((?:\|[^\n]*(?:\n|\Z))+)", re.MULTILINE
)
_SUFFIX: Final = re.compile(r"\.[a-z]{1,5}\Z")  # of a title that is the name of a file
_HEADING: Final = re.compile(r"^#{1,6}[ \t]+([^\n]*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class PlacedTable:
    """A table, and the span of each of its rows in the text. `has_all_rows` is False if a row could not be read."""

    table: Table
    spans: tuple[Span, ...]
    has_all_rows: bool


def find_tables(text: str, title: str) -> list[PlacedTable]:
    """Return the tables of a text. A table that was divided into parts, each with the names of the columns, is one table."""
    title = _SUFFIX.sub("", title)
    parts: dict[tuple[Row, str], tuple[list[Row], list[Span], list[bool]]] = {}
    for columns, heading, start, body in _list_parts(text):
        rows, spans, are_read = parts.setdefault((columns, heading), ([], [], []))
        at = start
        for line in body.splitlines(keepends=True):
            shown = line.rstrip("\n")
            cells = split_cells(shown) if len(shown) <= MAX_SENTENCE_CHARS else ()
            is_read = 1 < len(cells) <= len(columns)
            are_read.append(is_read)
            row = cells + ("",) * (len(columns) - len(cells))
            if is_read and not is_total(row):
                rows.append(row)
                spans.append((at, at + len(shown)))
            at += len(line)
    return [
        PlacedTable(Table(columns, rows, title=title, heading=heading), tuple(spans), all(are_read))
        for (columns, heading), (rows, spans, are_read) in parts.items()
        if len(rows) >= MIN_ROWS
    ]


def _list_parts(text: str) -> Iterator[tuple[Row, str, int, str]]:
    """Yield the names of the columns, the heading above, the offset of the rows, and the rows of each table."""
    headings = [(found.start(), found[1].strip()) for found in _HEADING.finditer(text)] if TABLE_MARK in text else []
    for found in TABLE.finditer(text) if TABLE_MARK in text else ():
        columns = split_cells(found[1].splitlines()[0])
        if 1 < len(columns) <= MAX_COLUMNS:
            above = [name for at, name in headings if at < found.start()]
            yield columns, above[-1] if above else "", found.start(2), found[2]
