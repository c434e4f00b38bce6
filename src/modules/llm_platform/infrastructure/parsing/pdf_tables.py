"""The tables of a PDF's page, found by where its texts and rules stand.

A PDF has no tables, only texts at places. Programs write a table cell by cell: the lines of a cell, then the cell to its right,
then the next row. So the order of the texts says which lines are one cell, and their places say which cells are one column.
"""

import math
import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from modules.llm_platform.infrastructure.parsing.markdown_table import render_row, render_table

SAME_LINE = 0.3  # font sizes by which the baselines of one line differ at most
RAISED = 0.6  # font sizes by which a raised or lowered character stands beside its word at most
WORD_SPACE = 0.15  # font sizes from which on a gap between two texts is a blank
CELL_SPACE = 0.8  # font sizes from which on a gap between two texts divides cells
LINE_STEP = 2.2  # font sizes between two lines of a cell at most
ROW_STEP = 3.5  # font sizes between two rows at most
MIN_ROWS = 3  # with the names of the columns
MIN_FILLED = 0.5  # share of the cells that have a text
MAX_CELL_CHARS = 200  # of the mean cell: columns of running text have longer ones
MIN_RULES = 2  # of a table of two columns
MAX_RULES = 4_000  # of a page: a drawing may have any number
MAX_COLUMNS = 40
MIN_HEIGHT = 40.0  # points of all upright rules at a place
THIN = 3.0  # points: a filled rectangle that is thinner is a rule

BROKEN_WORD = re.compile(r"(?<=[^\W\d_])[-\u00ad]\n(?=[a-zà-ÿа-яё])")
_LEADERS = re.compile(r"(?:\.[ \t]?){5}")
_YEAR = re.compile(r"(?:19|20)\d\d")
_HYPHEN_AT_END = re.compile(r"(?<=\w)-\n(?=\w)")


@dataclass(slots=True)
class Run:
    """A text on one line of a page, from `x` to `end` on the baseline `y`. `line` is the number of the line that has it."""

    text: str
    x: float
    end: float
    y: float
    size: float
    font: str
    line: int


@dataclass(slots=True)
class Rules:
    """The rules of a page: where the edges of cells may be."""

    _level: list[tuple[float, float, float]] = field(default_factory=list)  # y, left and right
    _upright: list[tuple[float, float, float]] = field(default_factory=list)  # x, bottom and top
    _pen: tuple[float, float] = (0.0, 0.0)

    def note(self, operator: bytes, operands: Sequence[Any], cm: Sequence[float]) -> None:
        """Note what a path operator draws, if it is a rule or a rectangle."""
        wanted = 4 if operator == b"re" else 2
        if len(self._level) + len(self._upright) > MAX_RULES or len(operands) < wanted:
            return
        numbers = [float(operand) for operand in operands if isinstance(operand, (int, float))]
        if len(numbers) < wanted:
            return
        begin = _move(numbers[0], numbers[1], cm)
        if operator == b"re":
            self._add_rectangle(begin, _move(numbers[0] + numbers[2], numbers[1] + numbers[3], cm))
        elif operator == b"l":
            self._add_line(self._pen, begin)
        self._pen = begin

    def sort(self) -> None:
        """Sort the rules, and leave out upright ones that have no others above them, such as the edges of a word's background."""
        heights: dict[int, float] = defaultdict(float)
        for x, bottom, top in self._upright:
            heights[round(x)] += top - bottom
        self._level.sort()
        self._upright = sorted(rule for rule in self._upright if heights[round(rule[0])] > MIN_HEIGHT)

    def divides(self, above: Run, below: Run) -> bool:
        """Return whether a rule stands between two lines."""
        low, high = below.y + SAME_LINE * below.size, above.y
        first, last = bisect_left(self._level, (low,)), bisect_left(self._level, (high,))
        return any(left < below.end and right > below.x for _, left, right in self._level[first:last])

    def parts(self, before: Run, run: Run) -> bool:
        """Return whether a rule stands between two texts of a line, or where the first of them runs over the edge of its cell."""
        first, last = bisect_right(self._upright, (before.x + 1.0,)), bisect_right(self._upright, (run.x, math.inf))
        return any(bottom < run.y < top for _, bottom, top in self._upright[first:last])

    def cross(self, top: float, bottom: float) -> bool:
        """Return whether rules stand between two heights."""
        return bisect_left(self._level, (top,)) - bisect_left(self._level, (bottom,)) >= MIN_RULES

    def find_column(self, x: float, end: float, y: float) -> tuple[float, float]:
        """Return the rules on both sides of where a text begins, or its own edges. It may run over the edge of its cell."""
        at = bisect_right(self._upright, (x + 1.0, math.inf))
        left = next((rule[0] for rule in reversed(self._upright[:at]) if rule[1] <= y <= rule[2]), None)
        right = next((rule[0] for rule in self._upright[at:] if rule[1] <= y <= rule[2]), None)
        return (x, end) if left is None or right is None else (left, right)

    def _add_rectangle(self, begin: tuple[float, float], end: tuple[float, float]) -> None:
        (left, right), (bottom, top) = sorted((begin[0], end[0])), sorted((begin[1], end[1]))
        if right - left > THIN:
            self._level += [(y, left, right) for y in {bottom, top}]
        if top - bottom > THIN:
            self._upright += [(x, bottom, top) for x in {left, right}]

    def _add_line(self, begin: tuple[float, float], end: tuple[float, float]) -> None:
        if abs(begin[1] - end[1]) < 1.0:
            self._level.append((begin[1], min(begin[0], end[0]), max(begin[0], end[0])))
        elif abs(begin[0] - end[0]) < 1.0:
            self._upright.append((begin[0], min(begin[1], end[1]), max(begin[1], end[1])))


def _move(x: float, y: float, cm: Sequence[float]) -> tuple[float, float]:
    return x * cm[0] + y * cm[2] + cm[4], x * cm[1] + y * cm[3] + cm[5]


@dataclass(slots=True)
class Table:
    """A table from the line `first` of its page to the line `last`. The first row has the names of the columns if `has_names`.

    - `runs` is the number of its texts.
    - `columns` are the left and right edges of its columns.
    - `has_bold_names` is True if the first row has a font of its own.
    - `title` is the text right above it in a font of its own, and `labels` are the numbers of rows that are such a title.
    """

    first: int
    last: int
    runs: int
    rows: list[list[str]]
    columns: tuple[tuple[float, float], ...]
    has_bold_names: bool
    has_names: bool
    labels: frozenset[int] = frozenset()
    title: str = ""

    def render(self) -> str:
        """Return the table as Markdown below its title, divided at its labels. Without names each row is a block."""
        if not self.has_names:
            rows = (" ".join(text for text in row if text) for row in self.rows)
            return "\n\n".join([*filter(None, [self.title]), *rows])
        names = render_table(self.rows[:1])
        parts = [f"### {self.title}\n\n{names}" if self.title else names]
        for number, row in enumerate(self.rows[1:], 1):
            if number in self.labels:
                parts = parts[: -1 if parts[-1] == names else None]
                parts.append(f"### {''.join(row)}\n\n{names}")
            else:
                parts[-1] += f"\n{render_row(row)}"
        return "\n\n".join(parts)

    def add_title(self, row: "_Row") -> None:
        self.title = row.cells[0].join()
        lines = [run.line for run in row.runs]
        self.first, self.runs = min(self.first, *lines), self.runs + len(lines)

    def continue_table(self, before: "Table") -> None:
        """Take the names of the table before if this is the rest of it, below it or on the next page."""
        has_as_many = len(self.columns) == len(before.columns) and len(self.rows[0]) == len(before.rows[0])
        is_same = has_as_many and all(
            left < right_before and right > left_before
            for (left, right), (left_before, right_before) in zip(self.columns, before.columns, strict=True)
        )
        if before.has_names and is_same and not self.has_bold_names and self.rows[0] != before.rows[0]:
            self.rows.insert(0, before.rows[0])
            self.labels = frozenset(number + 1 for number in self.labels)
            self.has_names = True


@dataclass(slots=True)
class _Cell:
    """The lines of a cell, from `x` to `end`. Each line is one run or more."""

    lines: list[list[Run]]
    x: float
    end: float

    @classmethod
    def begin(cls, line: list[Run]) -> "_Cell":
        return cls([line], line[0].x, line[-1].end)

    def add(self, run: Run, *, on_last_line: bool) -> None:
        if on_last_line:
            self.lines[-1].append(run)
        else:
            self.lines.append([run])
        self.x, self.end = min(self.x, run.x), max(self.end, run.end)

    def cut_last_line(self) -> "_Cell":
        return _Cell.begin(self.lines.pop())

    @property
    def last(self) -> Run:
        return self.lines[-1][-1]

    @property
    def bottom(self) -> float:
        return self.lines[-1][0].y

    def join(self) -> str:
        lines = "\n".join("".join(_space(line)).strip() for line in self.lines)
        return _HYPHEN_AT_END.sub("-", BROKEN_WORD.sub("", lines)).replace("\n", " ")


def _space(line: Sequence[Run]) -> Iterator[str]:
    yield line[0].text
    for before, run in pairwise(line):
        yield " " * (run.x - before.end > WORD_SPACE * run.size)
        yield run.text


@dataclass(slots=True)
class _Row:
    """The cells of a row. `bottom` is the baseline of its lowest line."""

    cells: list[_Cell]
    bottom: float

    @classmethod
    def begin(cls, cell: _Cell) -> "_Row":
        return cls([cell], cell.bottom)

    def add(self, run: Run) -> None:
        self.cells.append(_Cell.begin([run]))
        self.bottom = min(self.bottom, run.y)

    @property
    def top(self) -> float:
        return max(cell.lines[0][0].y for cell in self.cells)

    @property
    def runs(self) -> Iterator[Run]:
        return (run for cell in self.cells for line in cell.lines for run in line)


def find_tables(runs: Iterable[Run], rules: Rules) -> Iterator[Table]:
    """Yield the tables of a page from top to bottom. `runs` are its texts in the order in which they are drawn."""
    rules.sort()
    rows = _group_rows(runs, rules)
    at = 0
    while at < len(rows):
        columns = _Columns(rules)
        end = _find_end(rows, at, columns)
        if end - at >= MIN_ROWS and (table := _read_table(rows[at:end], columns, rules)):
            if at and _is_label(rows[at - 1 : at + 1]):
                table.add_title(rows[at - 1])
            yield table
        at = end


def _group_rows(runs: Iterable[Run], rules: Rules) -> list[_Row]:
    """Return the texts as rows of cells. A paragraph is a row of one cell."""
    rows: list[_Row] = []
    for run in runs:
        if not rows:
            rows.append(_Row.begin(_Cell.begin([run])))
            continue
        row, cell = rows[-1], rows[-1].cells[-1]
        above = rows[-2].bottom if len(rows) > 1 else math.inf
        if _is_same_line(cell.last, run):
            if run.x - cell.last.end < CELL_SPACE * run.size and not rules.parts(cell.last, run):
                cell.add(run, on_last_line=True)
                continue
            if len(row.cells) == 1 and len(cell.lines) > 1 and cell.end > run.x and cell.last.end < cell.end:
                row = _Row.begin(cell.cut_last_line())  # the line below a paragraph is a row
                rows[-1].bottom = cell.bottom
                rows.append(row)
            row.add(run)
        elif _continues_cell(row, run) and not rules.divides(cell.last, run):
            cell.add(run, on_last_line=False)
            row.bottom = min(row.bottom, run.y)
        elif run.x > cell.end - SAME_LINE * run.size and row.bottom - run.size < run.y < above:
            row.add(run)
        else:
            rows.append(_Row.begin(_Cell.begin([run])))
    return rows


def _is_same_line(before: Run, run: Run) -> bool:
    gap = run.x - before.end
    tolerance = RAISED if gap < CELL_SPACE * run.size else SAME_LINE
    return gap > -SAME_LINE * run.size and abs(before.y - run.y) < tolerance * max(before.size, run.size)


def _continues_cell(row: _Row, run: Run) -> bool:
    """Return whether a text is the next line of the last cell of a row."""
    cell = row.cells[-1]
    if not 0 < cell.last.y - run.y < LINE_STEP * run.size:
        return False
    is_free = run.x > row.cells[-2].end if len(row.cells) > 1 else run.font == cell.last.font
    return is_free and run.x < cell.end and run.end > cell.x


class _Columns:
    """The columns of a table: where the cells of each stand, from left to right."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self.spans: tuple[tuple[float, float], ...] = ()

    def place(self, row: _Row) -> bool:
        """Widen the columns by the cells of a row. Return False, and change nothing, if two of them meet in one column."""
        spans = list(self.spans)
        if len(row.cells) > MAX_COLUMNS:
            return False
        for cell in row.cells:
            left, right = self._measure(cell, row)
            met = [at for at, span in enumerate(spans) if span[0] < right and span[1] > left]
            if len(met) > 1:
                return False
            if met:
                left, right = min(left, spans[met[0]][0]), max(right, spans[met[0]][1])
                del spans[met[0]]
            spans.append((left, right))
            spans.sort()
        places = self._find_places(row, spans)
        if len(set(places)) < len(row.cells) or not self._stay_apart(spans):
            return False
        self.spans = tuple(spans)
        return True

    def read(self, row: _Row) -> list[str]:
        texts = [""] * len(self.spans)
        for cell, place in zip(row.cells, self._find_places(row, self.spans), strict=True):
            texts[place] = cell.join()
        return texts

    def meets_one(self, cell: _Cell) -> bool:
        left, right = cell.x, cell.end
        return sum(span[0] < right and span[1] > left for span in self.spans) == 1

    def _measure(self, cell: _Cell, row: _Row) -> tuple[float, float]:
        """Return the rules beside a cell, or its own edges if another cell stands between these rules."""
        left, right = self._rules.find_column(cell.x, cell.end, cell.bottom + SAME_LINE * cell.last.size)
        met = sum(span[0] < right and span[1] > left for span in self.spans)
        is_wide = met > 1 or any(left < other.x < right for other in row.cells if other is not cell)
        return (cell.x, cell.end) if is_wide else (left, right)

    def _find_places(self, row: _Row, spans: Sequence[tuple[float, float]]) -> list[int]:
        return [max(at for at, span in enumerate(spans) if span[0] <= cell.x + 1.0) for cell in row.cells]

    @staticmethod
    def _stay_apart(spans: Sequence[tuple[float, float]]) -> bool:
        return all(before[1] <= span[0] + 1.0 for before, span in pairwise(spans))


def _find_end(rows: Sequence[_Row], begin: int, columns: _Columns) -> int:
    """Return the end of the rows from `begin` on that stand in the same columns.

    A row of one cell belongs to them if others follow.
    """
    end = begin + 1
    if len(rows[begin].cells) == 1 or not columns.place(rows[begin]):
        return end
    for at, (above, row) in enumerate(pairwise(rows[begin:]), start=begin + 1):
        if not 0 < above.bottom - row.top < ROW_STEP * row.cells[0].last.size:
            break
        if len(row.cells) == 1 and not columns.meets_one(row.cells[0]):
            break
        if not columns.place(row):
            break
        if len(row.cells) > 1:
            end = at + 1
    return end


def _read_table(rows: Sequence[_Row], columns: _Columns, rules: Rules) -> Table | None:
    """Return the rows as a table, or None if they may be something else, such as a list of terms with their meanings."""
    texts = _join_names([columns.read(row) for row in rows])
    width = len(texts[0])
    filled = sum(bool(text) for row in texts for text in row)
    chars = sum(len(text) for row in texts for text in row)
    if width < 2 or filled < MIN_FILLED * width * len(rows) or chars > MAX_CELL_CHARS * filled:
        return None
    has_bold_names = _has_own_font(rows) and sum(map(bool, texts[0])) >= width - 1
    has_names = has_bold_names or (width > 2 and _names_columns(texts))
    if (width == 2 and not (has_names and rules.cross(rows[0].top, rows[-1].bottom))) or any(
        _LEADERS.search(text) for row in texts for text in row
    ):
        return None
    lines = [run.line for row in rows for run in row.runs]
    labels = frozenset(number for number in range(len(rows)) if _is_label(rows[number : number + 2]))
    return Table(min(lines), max(lines), len(lines), texts, columns.spans, has_bold_names, has_names, labels)


def _join_names(texts: list[list[str]]) -> list[list[str]]:
    """Join a column that has only a name with the one beside it that has none: a name to the left above numbers to the right."""
    for at in range(len(texts[0]) - 1, 0, -1):
        pair = [(row[at - 1], row[at]) for row in texts]
        names, *others = pair
        if (names[0] and not names[1] and not any(left for left, _ in others)) or (
            names[1] and not names[0] and not any(right for _, right in others)
        ):
            texts = [[*row[: at - 1], row[at - 1] or row[at], *row[at + 1 :]] for row in texts]
    return texts


def _has_own_font(rows: Sequence[_Row]) -> bool:
    """Return whether the first row has a font that few texts of the others have."""
    first = {run.font for run in rows[0].runs}
    others = Counter(run.font for row in rows[1:] for run in row.runs)
    return bool(first) and 2 * sum(others[font] for font in first) < others.total()


def _is_label(rows: Sequence[_Row]) -> bool:
    """Return whether the first of two rows is a line right above the second one, in a font of its own."""
    row, *below = rows
    if not below or len(row.cells) > 1 or len(row.cells[0].lines) > 1:
        return False
    mine, other = row.cells[0].last, below[0].cells[0].last
    return mine.font != other.font and 0 < row.bottom - below[0].top < ROW_STEP * other.size


def _names_columns(texts: Sequence[Sequence[str]]) -> bool:
    """Return whether the first row reads like names: each its own, and each begins with a letter or is a year."""
    names = texts[0]
    given = names if names[0] else names[1:]
    return (
        all(given)
        and len(set(given)) == len(given)
        and all(name[0].isalpha() or _YEAR.fullmatch(name) for name in given)
    )
