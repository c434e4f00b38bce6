"""Group the texts of a PDF's page into rows of cells, by the order in which they are drawn and by their places.

Programs draw a table cell by cell: the lines of a cell, then the cell to its right, then the next row. So each text belongs to
the last cell, begins a cell to its right, or begins a row.
"""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from modules.llm_platform.infrastructure.parsing.pdf_rules import Rules
from modules.llm_platform.infrastructure.parsing.pdf_runs import CELL_SPACE, RAISED, SAME_LINE, Edges, Run

WORD_SPACE = 0.15  # a wider gap between two texts is a space; in font sizes
LINE_STEP = 2.2  # maximum distance between two lines of a cell, in font sizes

BROKEN_WORD = re.compile(r"(?<=[^\W\d_])[-\u00ad]\n(?=[a-zà-ÿа-яё])")
_HYPHEN_AT_END = re.compile(r"(?<=\w)-\n(?=\w)")


@dataclass(slots=True)
class Cell:
    """The lines of a cell, from `x` to `end`. Each line is one run or more."""

    lines: list[list[Run]]
    x: float
    end: float

    @classmethod
    def begin(cls, line: list[Run]) -> "Cell":
        return cls([line], line[0].x, line[-1].end)

    def continue_line(self, run: Run) -> None:
        self.lines[-1].append(run)
        self._widen(run)

    def add_line(self, run: Run) -> None:
        self.lines.append([run])
        self._widen(run)

    def cut_last_line(self) -> "Cell":
        return Cell.begin(self.lines.pop())

    @property
    def last(self) -> Run:
        return self.lines[-1][-1]

    @property
    def edges(self) -> Edges:
        return Edges(self.x, self.end)

    @property
    def bottom(self) -> float:
        return self.lines[-1][0].y

    def join(self) -> str:
        """Return the text of the cell, with hyphenated words joined."""
        lines = "\n".join("".join(_space_words(line)).strip() for line in self.lines)
        return _HYPHEN_AT_END.sub("-", BROKEN_WORD.sub("", lines)).replace("\n", " ")

    def _widen(self, run: Run) -> None:
        self.x, self.end = min(self.x, run.x), max(self.end, run.end)


def _space_words(line: Sequence[Run]) -> Iterator[str]:
    yield line[0].text
    for before, run in pairwise(line):
        yield " " * (run.x - before.end > WORD_SPACE * run.size)
        yield run.text


@dataclass(slots=True)
class Row:
    """The cells of a row. `bottom` is the baseline of its lowest line."""

    cells: list[Cell]
    bottom: float

    @classmethod
    def begin(cls, cell: Cell) -> "Row":
        return cls([cell], cell.bottom)

    def add_cell(self, run: Run) -> None:
        self.cells.append(Cell.begin([run]))
        self.bottom = min(self.bottom, run.y)

    def add_line(self, run: Run) -> None:
        """Add a line to the last cell."""
        self.cells[-1].add_line(run)
        self.bottom = min(self.bottom, run.y)

    def cut_last_line(self) -> "Row":
        """Return the last line of the last cell as a row of its own."""
        row = Row.begin(self.cells[-1].cut_last_line())
        self.bottom = self.cells[-1].bottom
        return row

    @property
    def top(self) -> float:
        return max(cell.lines[0][0].y for cell in self.cells)

    @property
    def runs(self) -> Iterator[Run]:
        return (run for cell in self.cells for line in cell.lines for run in line)


def group_rows(runs: Iterable[Run], rules: Rules) -> list[Row]:
    """Return the texts of a page as rows. A paragraph is a row of one cell."""
    rows: list[Row] = []
    for run in runs:
        if not rows or not _add_to_last_row(rows, run, rules):
            rows.append(Row.begin(Cell.begin([run])))
    return rows


def _add_to_last_row(rows: list[Row], run: Run, rules: Rules) -> bool:
    """Add a text to the last row, and return whether it belongs there."""
    row, cell = rows[-1], rows[-1].cells[-1]
    if _is_on_last_line(cell, run):
        if run.x - cell.last.end < CELL_SPACE * run.size and not rules.has_rule_between_texts(cell.last, run):
            cell.continue_line(run)
            return True
        if _ends_paragraph(row, run):
            row = row.cut_last_line()
            rows.append(row)
        row.add_cell(run)
    elif _is_next_line(row, run) and not rules.has_rule_between_lines(cell.last, run):
        row.add_line(run)
    elif run.x > cell.end - SAME_LINE * run.size and _is_as_high(rows, run):
        row.add_cell(run)
    else:
        return False
    return True


def _is_on_last_line(cell: Cell, run: Run) -> bool:
    before = cell.last
    gap = run.x - before.end
    tolerance = RAISED if gap < CELL_SPACE * run.size else SAME_LINE
    return gap > -SAME_LINE * run.size and abs(before.y - run.y) < tolerance * max(before.size, run.size)


def _ends_paragraph(row: Row, run: Run) -> bool:
    """Return whether the row is a paragraph whose short last line is rather the first cell of the row of this text."""
    cell = row.cells[-1]
    return len(row.cells) == 1 and len(cell.lines) > 1 and cell.last.end < cell.end and run.x < cell.end


def _is_next_line(row: Row, run: Run) -> bool:
    """Return whether a text is the next line of the last cell of a row."""
    cell = row.cells[-1]
    if not 0 < cell.last.y - run.y < LINE_STEP * run.size:
        return False
    is_free = run.x > row.cells[-2].end if len(row.cells) > 1 else run.font == cell.last.font
    return is_free and cell.edges.overlap(run.edges)


def _is_as_high(rows: Sequence[Row], run: Run) -> bool:
    """Return whether a text is below the last row but one and not below the last row, beside a cell of several lines."""
    above = rows[-2].bottom if len(rows) > 1 else math.inf
    return rows[-1].bottom - run.size < run.y < above
