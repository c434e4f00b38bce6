"""Read the tables of an answer: the cells of each row, with the headers of row and column."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple

from modules.llm_platform.domain.citations.read.markup import (
    DELIMITERS,
    MARKUP_BEFORE,
    SPACED_MARKER,
    strip_links_and_emphasis,
    strip_tail,
)
from modules.llm_platform.domain.markdown.cells import list_cell_spans
from modules.llm_platform.domain.markdown.markers import LINE, render_markers
from modules.llm_platform.domain.text.sentences import Span


@dataclass(frozen=True, slots=True)
class TableCell:
    """A cell of a table row that is not empty.

    - `start` and `end` delimit it in the answer, without the markers at its end.
    - `text` is its text without markup. `with_headers` is the text after the headers of its row and column.
    - `cited` are the sources of the markers in the cell. It is empty unless more than one cell of the row has markers.
    """

    start: int
    end: int
    text: str
    with_headers: str
    cited: tuple[int, ...] = ()


class TableReader:
    """Finds the cells of table rows by their offset in the answer."""

    def __init__(self, answer: str) -> None:
        self._answer = answer
        self._lines = _read_lines(answer)

    def read_cells(self, at: int) -> tuple[TableCell, ...]:
        """Return the cells of the row at this offset, without the first one, which is the header of the row.

        The result is empty outside a table.
        """
        line = self._lines[bisect_right(self._lines, at, key=itemgetter(0))]
        return _read_cells(self._answer, line.text_start, line.end, line.headers) if line.headers else ()


class _TextLine(NamedTuple):
    """A line of an answer: where it ends, where its text begins after list markers, and the headers of its table, if any."""

    end: int
    text_start: int
    headers: list[str]


def _read_lines(answer: str) -> list[_TextLine]:
    """Return the lines of an answer. A row of dashes makes the row above it the headers of a table."""
    lines: list[_TextLine] = []
    before, headers = "", list[str]()
    for found in LINE.finditer(answer):
        begin = MARKUP_BEFORE.match(answer, found.start()).end()  # type: ignore[union-attr]  # it matches an empty text
        line = answer[begin : found.end()].strip()
        if DELIMITERS.match(line) and "|" in before:
            headers = [_read_cell_text(before, position) for position in list_cell_spans(before)]
        before, headers = line, headers if "|" in line else []
        lines.append(_TextLine(found.end(), begin, headers))
    return lines


def _read_cells(answer: str, start: int, end: int, headers: Sequence[str]) -> tuple[TableCell, ...]:
    """Return the cells of the row from `start` to `end`, without the first one, which is the header of the row."""
    row = answer[start:end]
    header, *cells = list_cell_spans(row)
    marked = [render_markers(row[begin:end]) for begin, end in (header, *cells)]
    is_by_cell = sum(map(bool, marked)) > 1
    name = _read_cell_text(row, header)
    with_headers = []
    for position, markers, column in zip(cells, marked[1:], headers[1:], strict=False):
        if text := _read_cell_text(row, position):
            begin = position[0] + len(row[slice(*position)]) - len(row[slice(*position)].lstrip())
            last = begin + len(strip_tail(row[begin : position[1]].rstrip()).rstrip())
            cited = tuple(dict.fromkeys(number for _, _, number in markers)) if is_by_cell else ()
            with_headers.append(TableCell(start + begin, start + last, text, f"{name}, {column}: {text}", cited))
    return tuple(with_headers)


def _read_cell_text(row: str, position: Span) -> str:
    return strip_links_and_emphasis(SPACED_MARKER.sub("", row[slice(*position)])).replace("\\|", "|")
