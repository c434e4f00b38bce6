"""The tables of a PDF's page, found by where its texts and rules stand.

A PDF has no tables, only texts at places. `pdf_rows` groups the texts into rows of cells; rows that are in the same columns
are a table.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from modules.llm_platform.infrastructure.parsing.markdown_table import render_row, render_table
from modules.llm_platform.infrastructure.parsing.pdf_rows import Cell, Row, group_rows
from modules.llm_platform.infrastructure.parsing.pdf_rules import Rules
from modules.llm_platform.infrastructure.parsing.pdf_runs import SAME_LINE, Edges, Run

ROW_STEP = 3.5  # maximum distance between two rows, in font sizes
MIN_ROWS = 3  # with the names of the columns
MIN_FILLED = 0.5  # share of the cells that have a text
MAX_CELL_CHARS = 200  # maximum mean length of a cell; columns of running text have longer cells
MAX_COLUMNS = 40

_LEADERS = re.compile(r"(?:\.[ \t]?){5}")
_YEAR = re.compile(r"(?:19|20)\d\d")


@dataclass(slots=True)
class Table:
    """A table from the line `first` of its page to the line `last`.

    - `runs` is the number of its texts.
    - `columns` has the edges of each column.
    - `has_names` is True if the first row has the names of the columns, and `has_bold_names` if it has a font of its own.
    - `title` is the text right above the table in a font of its own. `labels` are the numbers of rows that are the title of
      the rows below them.
    """

    first: int
    last: int
    runs: int
    rows: list[list[str]]
    columns: tuple[Edges, ...]
    has_bold_names: bool
    has_names: bool
    labels: frozenset[int] = frozenset()
    title: str = ""

    def render(self) -> str:
        """Return the table as Markdown below its title, with a table for each label. Without names, each row is a paragraph."""
        if not self.has_names:
            rows = (" ".join(text for text in row if text) for row in self.rows)
            return "\n\n".join([*filter(None, [self.title]), *rows])
        names = render_table(self.rows[:1])
        parts = [f"### {self.title}\n\n{names}" if self.title else names]
        for number, row in enumerate(self.rows[1:], 1):
            if number in self.labels:
                if parts[-1] == names:
                    parts.pop()  # no row is above the label
                parts.append(f"### {''.join(row)}\n\n{names}")
            else:
                parts[-1] += f"\n{render_row(row)}"
        return "\n\n".join(parts)

    def add_title(self, row: "Row") -> None:
        self.title = row.cells[0].join()
        lines = [run.line for run in row.runs]
        self.first, self.runs = min(self.first, *lines), self.runs + len(lines)

    def continue_table(self, before: "Table") -> None:
        """Take over the names of the table before if this is its rest, further down or on the next page."""
        has_as_many = len(self.columns) == len(before.columns) and len(self.rows[0]) == len(before.rows[0])
        is_same = has_as_many and all(map(Edges.overlap, self.columns, before.columns))
        if before.has_names and is_same and not self.has_bold_names and self.rows[0] != before.rows[0]:
            self.rows.insert(0, before.rows[0])
            self.labels = frozenset(number + 1 for number in self.labels)
            self.has_names = True


def find_tables(runs: Iterable[Run], rules: Rules) -> Iterator[Table]:
    """Yield the tables of a page from top to bottom. `runs` are its texts in the order in which they are drawn."""
    rules.sort()
    rows = group_rows(runs, rules)
    at = 0
    while at < len(rows):
        columns = _Columns(rules)
        end = _find_end(rows, at, columns)
        if end - at >= MIN_ROWS and (table := _read_table(rows[at:end], columns, rules)):
            if at and _is_label(rows[at - 1], rows[at]):
                table.add_title(rows[at - 1])
            yield table
        at = end


class _Columns:
    """The columns of a table. `edges` has the edges of each, from left to right."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self.edges: tuple[Edges, ...] = ()

    def fit_row(self, row: Row) -> bool:
        """Widen the columns by the cells of a row. Return False, and change nothing, if each cell has no column of its own."""
        columns = list(self.edges)
        if len(row.cells) > MAX_COLUMNS:
            return False
        for cell in row.cells:
            edges = self._find_edges(cell, row)
            met = [column for column in columns if column.overlap(edges)]
            if len(met) > 1:
                return False
            if met:
                columns.remove(met[0])
                edges = Edges(min(edges.left, met[0].left), max(edges.right, met[0].right))
            columns.append(edges)
            columns.sort()
        has_shared_column = len(set(_find_columns(row, columns))) < len(row.cells)
        if has_shared_column or any(left.right > right.left + 1.0 for left, right in pairwise(columns)):
            return False
        self.edges = tuple(columns)
        return True

    def read_row(self, row: Row) -> list[str]:
        """Return the text of each column, which is empty if the row has no cell there."""
        texts = [""] * len(self.edges)
        for cell, column in zip(row.cells, _find_columns(row, self.edges), strict=True):
            texts[column] = cell.join()
        return texts

    def count_met(self, edges: Edges) -> int:
        return sum(column.overlap(edges) for column in self.edges)

    def _find_edges(self, cell: Cell, row: Row) -> Edges:
        """Return the rules beside a cell, or its own edges if another cell is between these rules."""
        between = self._rules.find_column(cell.edges, cell.bottom + SAME_LINE * cell.last.size)
        has_other = any(between.left < other.x < between.right for other in row.cells if other is not cell)
        return cell.edges if has_other or self.count_met(between) > 1 else between


def _find_columns(row: Row, columns: Sequence[Edges]) -> list[int]:
    """Return the number of the column in which each cell begins."""
    return [max(at for at, column in enumerate(columns) if column.left <= cell.x + 1.0) for cell in row.cells]


def _find_end(rows: Sequence[Row], begin: int, columns: _Columns) -> int:
    """Return the end of the rows from `begin` on that are in the same columns. The last row has more than one cell."""
    end = begin + 1
    if len(rows[begin].cells) == 1 or not columns.fit_row(rows[begin]):
        return end
    for at, (above, row) in enumerate(pairwise(rows[begin:]), start=begin + 1):
        if not 0 < above.bottom - row.top < ROW_STEP * row.cells[0].last.size:
            break
        if len(row.cells) == 1 and columns.count_met(row.cells[0].edges) != 1:
            break
        if not columns.fit_row(row):
            break
        if len(row.cells) > 1:
            end = at + 1
    return end


def _read_table(rows: Sequence[Row], columns: _Columns, rules: Rules) -> Table | None:
    """Return the rows as a table, or None if they may be something else, such as a list of terms with their meanings."""
    texts = _join_names([columns.read_row(row) for row in rows])
    width = len(texts[0])
    filled = sum(bool(text) for row in texts for text in row)
    chars = sum(len(text) for row in texts for text in row)
    if width < 2 or filled < MIN_FILLED * width * len(rows) or chars > MAX_CELL_CHARS * filled:
        return None
    has_bold_names = _has_own_font(rows) and sum(map(bool, texts[0])) >= width - 1
    has_names = has_bold_names or (width > 2 and _reads_like_names(texts[0]))
    if width == 2 and not (has_names and rules.has_rules_within(rows[0].top, rows[-1].bottom)):
        return None
    if any(_LEADERS.search(text) for row in texts for text in row):
        return None
    lines = [run.line for row in rows for run in row.runs]
    return Table(
        first=min(lines),
        last=max(lines),
        runs=len(lines),
        rows=texts,
        columns=columns.edges,
        has_bold_names=has_bold_names,
        has_names=has_names,
        labels=frozenset(number for number, (row, below) in enumerate(pairwise(rows)) if _is_label(row, below)),
    )


def _join_names(texts: list[list[str]]) -> list[list[str]]:
    """Join a column that has only a name with the column beside it that has none: names stand left, their numbers right."""
    for at in range(len(texts[0]) - 1, 0, -1):
        (left_name, right_name), *others = ((row[at - 1], row[at]) for row in texts)
        is_left_only_name = left_name and not right_name and not any(left for left, _ in others)
        is_right_only_name = right_name and not left_name and not any(right for _, right in others)
        if is_left_only_name or is_right_only_name:
            texts = [[*row[: at - 1], row[at - 1] or row[at], *row[at + 1 :]] for row in texts]
    return texts


def _has_own_font(rows: Sequence[Row]) -> bool:
    """Return whether the first row has fonts in which less than half of the other texts are set."""
    first = {run.font for run in rows[0].runs}
    others = Counter(run.font for row in rows[1:] for run in row.runs)
    return bool(first) and 2 * sum(others[font] for font in first) < others.total()


def _is_label(row: Row, below: Row) -> bool:
    """Return whether a row is one line right above the row below, in a font of its own."""
    if len(row.cells) > 1 or len(row.cells[0].lines) > 1:
        return False
    text, text_below = row.cells[0].last, below.cells[0].last
    return text.font != text_below.font and 0 < row.bottom - below.top < ROW_STEP * text_below.size


def _reads_like_names(row: Sequence[str]) -> bool:
    """Return whether the texts of a row differ, and each begins with a letter or is a year. Only the first may be empty."""
    given = row if row[0] else row[1:]
    return (
        all(given)
        and len(set(given)) == len(given)
        and all(name[0].isalpha() or _YEAR.fullmatch(name) for name in given)
    )
