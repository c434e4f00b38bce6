"""Find the tables in a text, and where each row begins and ends."""

import itertools
import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from modules.llm_platform.domain.extractive.sentences import (
    MAX_COLUMNS,
    MAX_ROWS_OF_WHOLE,
    MAX_SENTENCE_CHARS,
    split_cells,
)
from modules.llm_platform.domain.extractive.tables import MIN_ROWS, Row, Table, is_total
from modules.llm_platform.domain.text.sentences import Span

MAX_TABLES: Final = 50  # of one text
TABLE_MARK: Final = "---"  # between the names of the columns and the rows

# The names of the columns with the rule below them, and the rows.
TABLE: Final = re.compile(
    r"^(\|[^\n]*\|[ \t\r]*\n\|[ \t]*:?-[-:|][-:| \t]*\|[ \t\r]*)\n((?:\|[^\n]*(?:\n|\Z))+)", re.MULTILINE
)
_SUFFIX: Final = re.compile(r"\.[a-z]{1,5}\Z")  # of a title that is the name of a file
_HEADING: Final = re.compile(r"^#{1,6}[ \t]+([^\n]*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class PlacedTable:
    """A table, and the span of each of its rows in the text.

    `has_all_rows` is False if a row could not be read, or was left out because it may be a total.
    """

    table: Table
    spans: tuple[Span, ...]
    has_all_rows: bool


class _Part(NamedTuple):
    """A table as it stands in the text: the names of its columns, the heading above, its rows and its span."""

    columns: Row
    heading: str
    rows: str
    start: int
    rows_start: int
    end: int


def find_tables(text: str, title: str, source: int = 0) -> list[PlacedTable]:
    """Return the tables of a text, MAX_TABLES at most. `source` is its number in citations.

    A table that was divided into parts, each with the names of the columns, is one table if nothing is between the parts.
    """
    title = _SUFFIX.sub("", title)
    groups: list[list[_Part]] = []
    for part in itertools.islice(_list_parts(text), MAX_TABLES):
        before = groups[-1][-1] if groups else None
        if before and before.columns == part.columns and not text[before.end : part.start].strip():
            groups[-1].append(part)
        else:
            groups.append([part])
    placed = (_read_parts(parts, title, source) for parts in groups)
    return [one for one in placed if MIN_ROWS <= len(one.table.rows) <= MAX_ROWS_OF_WHOLE]


def _read_parts(parts: Sequence[_Part], title: str, source: int) -> PlacedTable:
    columns, rows, spans, has_all_rows = parts[0].columns, list[Row](), list[Span](), True
    for part in parts:
        at = part.rows_start
        for line in part.rows.split("\n"):
            cells = split_cells(line) if len(line) <= MAX_SENTENCE_CHARS else ()
            row = cells + ("",) * (len(columns) - len(cells))
            if not 1 < len(cells) <= len(columns):
                has_all_rows = has_all_rows and not line
            elif is_total(row):
                has_all_rows = has_all_rows and is_total(row, alone=True)  # `Total Recall` may be a film
            else:
                rows.append(row)
                spans.append((at, at + len(line)))
            at += len(line) + 1
    table = Table(columns, rows, source=source, title=title, heading=parts[0].heading)
    return PlacedTable(table, tuple(spans), has_all_rows)


def _list_parts(text: str) -> Iterator[_Part]:
    if TABLE_MARK not in text:
        return
    headings = [(found.start(), found[1].strip()) for found in _HEADING.finditer(text)]
    for found in TABLE.finditer(text):
        columns = split_cells(found[1].split("\n")[0])
        if 1 < len(columns) <= MAX_COLUMNS:
            above = bisect_left(headings, (found.start(), ""))
            heading = headings[above - 1][1] if above else ""
            yield _Part(columns, heading, found[2], found.start(), found.start(2), found.end())
