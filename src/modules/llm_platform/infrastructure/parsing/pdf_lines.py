"""The lines of a PDF's page, and what their layout says: whether a line continues the block above it or begins another one.

A heading, a table row and a paragraph below a gap are blocks of their own. The lines of a block are running text.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from modules.llm_platform.infrastructure.parsing.pdf_runs import SAME_LINE, Piece
from modules.llm_platform.infrastructure.parsing.pdf_shows import COLUMN_GAP, Show
from modules.llm_platform.infrastructure.parsing.pdf_tables import Table

OTHER_SIZE = 1.08  # two lines whose font sizes have a larger ratio are different blocks
OTHER_BLOCK = 1.35  # a line begins a block if its distance is a larger multiple of the usual distance
LABEL_CHARS = 4  # a bullet or the number of an item, after which a gap makes no table

ENDED = re.compile(r"[.!?:;][\"'”’)\]]*\Z")


@dataclass(slots=True)
class Line:
    """A line of a page. Its size and place are 0 if they are not known, or if the text is turned.

    - `font` is the name of the font if the whole line has the same font.
    - `usual_step` is the usual distance between lines of this size; 0 if it is not known.
    - `cells` has the left edges of the cells if the line is a table row. Such a row may belong to no table of `pdf_tables`.
    - `table` is the table that replaces its lines.
    """

    text: str
    size: float = 0.0
    font: str = ""
    x: float = 0.0
    y: float = 0.0
    usual_step: float = 0.0
    cells: tuple[float, ...] = ()
    table: Table | None = None

    def choose_separator(self, before: "Line") -> str:
        """Return what is between the line before and this line in the running text."""
        if before.cells and before.cells == self.cells and abs(self.y - before.y) < SAME_LINE * self.size:
            return " "  # the next cell of a row
        return "\n\n" if self.begins_block_after(before) else "\n"

    def begins_block_after(self, before: "Line", *, on_same_page: bool = True) -> bool:
        """Return whether this line begins a heading, a table row or a paragraph, and does not continue the line before."""
        if self.table or before.table:
            return True
        if before.cells and self.cells:
            return True
        ending = before.text.rstrip()
        if ending.endswith(",") or (self.text[:1].islower() and not ENDED.search(ending)):
            return False  # the sentence continues, around a formula or in a smaller font
        if before.cells:
            # A long text in a cell continues below itself.
            return not any(abs(self.x - cell) < self.size for cell in before.cells[1:])
        return bool(self.cells) or self._looks_unlike(before) or (on_same_page and self._stands_apart(before))

    def _looks_unlike(self, before: "Line") -> bool:
        if not (self.size and before.size):
            return False
        if max(self.size, before.size) > OTHER_SIZE * min(self.size, before.size):
            return True
        return bool(self.font and before.font) and self.font != before.font

    def _stands_apart(self, before: "Line") -> bool:
        return bool(self.usual_step) and before.y - self.y > OTHER_BLOCK * self.usual_step


def make_plain_lines(text: str) -> list[Line]:
    """Return the lines of a text whose layout is not known."""
    return [Line(line) for line in text.split("\n")]


def make_line(pieces: Sequence[Piece]) -> Line:
    """Return a line. Its size is the size of most of its characters."""
    text = "".join(piece.text for piece in pieces)
    inked = [piece for piece in pieces if piece.text.strip()]
    if not inked or not all(piece.size for piece in inked):
        return Line(text)
    sizes: Counter[float] = Counter()
    for piece in inked:
        sizes[round(piece.size, 1)] += len(piece.text.strip())
    fonts = {piece.font for piece in inked}
    size = max(sizes, key=lambda size: sizes[size])
    return Line(text, size, fonts.pop() if len(fonts) == 1 else "", inked[0].x, inked[0].y)


def measure_steps(lines: Sequence[Line]) -> None:
    """Set the usual step of each line: the median of the steps between lines of the same size."""
    steps: dict[float, list[float]] = {}
    for above, line in pairwise(lines):
        if line.size and line.size == above.size and 0 < above.y - line.y < 4 * line.size:
            steps.setdefault(line.size, []).append(above.y - line.y)
    usual = {size: median(found) for size, found in steps.items() if len(found) > 1}
    for line in lines:
        line.usual_step = usual.get(line.size, 0.0)


def find_cell_edges(shows: Sequence[Show]) -> dict[int, tuple[float, ...]]:
    """Return the left edges of the cells of table rows, by their baselines."""
    rows: dict[int, tuple[float, ...]] = {}
    cells: list[float] = []
    chars = 0
    for before, show in pairwise([Show(0.0, -math.inf, 0.0, 1.0, 0), *shows]):
        if abs(show.y - before.y) > SAME_LINE * show.size:
            cells, chars = [show.x], 0
        elif show.x - before.end > COLUMN_GAP * show.size and chars > LABEL_CHARS:
            cells.append(show.x)
            rows[round(show.y)] = tuple(cells)
        chars += show.chars
    return rows
