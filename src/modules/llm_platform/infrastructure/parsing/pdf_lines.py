"""The lines of a PDF's page with what their layout says: a heading, a table row and a paragraph below a gap are blocks of their
own, and lines of the same block form running text.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise
from statistics import median
from typing import Any

from modules.llm_platform.infrastructure.parsing.pdf_tables import CELL_SPACE, RAISED, Rules, Run, Table, find_tables
from modules.llm_platform.infrastructure.parsing.pdf_texts import divide_text

PATHS = frozenset({b"m", b"l", b"re"})
WORD_GAP = -150  # thousandths of the font size: kerning is narrower, a blank is wider
CERTAIN_GAP = -1000  # wider than any font's blank
OTHER_SIZE = 1.08  # ratio of font sizes from which on two lines are different blocks
OTHER_BLOCK = 1.35  # ratio of a line's distance to the usual one from which on it begins a block
COLUMN_GAP = 1.1  # gap between two cells of a row in font sizes; the gaps of a justified line are narrower
LABEL_CHARS = 4  # a bullet or the number of an item, behind which a gap makes no table
SAME_LINE = 0.3  # font sizes by which the baselines of cells of a row differ at most
WIDE_CHAR = 600.0  # thousandths of the font size, where a font tells no widths: too many make no gap of a blank
DEFAULT_WIDTH = 1000.0  # of a character of a composite font that does not name another one
MAX_WIDTHS = 70_000  # widths of a font that are read: a file may name any number

ENDED = re.compile(r"[.!?:;][\"'”’)\]]*\Z")


@dataclass(slots=True)
class Line:
    """A line of a page. `size`, `font`, `x` and `y` are 0 or "" where its layout is not known, or text is turned.

    - `font` is the name of the font if the whole line has the same one.
    - `usual_step` is the usual distance to the line above, and `cells` the left edges of the cells of a table row.
    - `table` is the table that stands in place of its lines.
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
        if before.cells and before.cells == self.cells and abs(self.y - before.y) < SAME_LINE * self.size:
            return " "  # the next cell of a row
        return "\n\n" if self.begins_block_after(before) else "\n"

    def begins_block_after(self, before: "Line", *, on_same_page: bool = True) -> bool:
        """Return whether this line is no part of the block of the line before it."""
        if self.table or before.table:
            return True
        if before.cells and self.cells:
            return True
        ending = before.text.rstrip()
        if ending.endswith(",") or (self.text[:1].islower() and not ENDED.search(ending)):
            return False  # the sentence goes on, around a formula or in a smaller font
        if before.cells:
            # A long text in a cell goes on below itself.
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


@dataclass(slots=True)
class _Show:
    """What one operator shows: from `x` to `end` on a baseline, in a font size."""

    x: float
    y: float
    end: float
    size: float
    chars: int


@dataclass(slots=True)
class _Piece:
    """A part of the text with its place, and what was shown for it."""

    text: str
    size: float
    font: str
    x: float
    y: float
    shows: Sequence[_Show]

    def as_show(self) -> _Show:
        """Return the piece as if it was shown at once, in letters of half their size."""
        return _Show(self.x, self.y, self.x + self.size * len(self.text) / 2, self.size, len(self.text))


@dataclass(slots=True)
class PageLayout:
    """Collects what pypdf reads of a page. Its methods are the visitors of `extract_text`."""

    fonts: Mapping[str, Any]  # the fonts of the page, by their names in its operators
    _pieces: list[_Piece] = field(default_factory=list)
    _shows: list[_Show] = field(default_factory=list)
    _rules: Rules = field(default_factory=Rules)
    _told: int = 0  # of the shows: those before belong to the pieces
    _widths: dict[str, "_Widths"] = field(default_factory=dict)
    _font: tuple[str, float] = ("", 0.0)
    _place: tuple[float, ...] = ()
    _pen: float = 0.0

    def visit_operator(self, operator: bytes, operands: Any, cm: Sequence[float], tm: Sequence[float]) -> None:
        """Note where text is shown, and widen the gaps between words."""
        if operator == b"Tf" and len(operands) > 1 and isinstance(operands[1], (int, float)):
            self._font = str(operands[0]), float(operands[1])
        elif operator in (b"TJ", b"Tj") and operands:
            parts = operands[0] if isinstance(operands[0], list) else [operands[0]]
            self._note_show(parts, cm, tm)
        elif operator in PATHS:
            self._rules.note(operator, operands, cm)
        keep_blanks(operator, operands)

    def visit_text(self, text: str, cm: Sequence[float], tm: Sequence[float], font: Any, size: float) -> None:
        """Note a part of the text with its place."""
        x, y, scale = _locate(cm, tm)
        name = str(font.get("/BaseFont", "")) if isinstance(font, Mapping) else ""
        self._pieces.append(_Piece(text, abs(size * scale), name, x, y, self._shows[self._told :]))
        self._told = len(self._shows)

    def lines(self, text: str) -> Sequence[Line]:
        if "".join(piece.text for piece in self._pieces) != text:
            return make_plain_lines(text)  # an older version of pypdf tells some parts twice
        lines = [_make_line(pieces) for pieces in self._group_pieces()]
        rows = _find_cell_edges(self._shows)
        for line in lines:
            line.cells = rows.get(round(line.y), ()) if line.size else ()
        _measure_steps(lines)
        return self._put_tables(lines)

    def _group_pieces(self) -> Iterator[list[_Piece]]:
        line: list[_Piece] = []
        for piece in self._pieces:
            first, *others = piece.text.split("\n")
            line.append(replace(piece, text=first))
            for other in others:
                yield line
                line = [replace(piece, text=other)]
        yield line

    def _put_tables(self, lines: Sequence[Line]) -> Sequence[Line]:
        """Return the lines with tables in place of those that have their cells, and nothing else."""
        runs = list(self._list_runs())
        inked = Counter(run.line for run in runs)
        placed: list[Line] = []
        end = 0
        for table in find_tables(runs, self._rules):
            if table.first >= end and sum(inked[line] for line in range(table.first, table.last + 1)) == table.runs:
                placed += [*lines[end : table.first], Line(table.render(), table=table)]
                end = table.last + 1
        return [*placed, *lines[end:]]

    def _list_runs(self) -> Iterator[Run]:
        line = 0
        for piece in self._pieces:
            if text := piece.text.strip():
                groups = list(_group_shows(piece.shows)) or [[piece.as_show()]]
                texts = divide_text(text, [sum(show.chars for show in group) for group in groups])
                if len(texts) < len(groups):  # which part stands where is not certain
                    groups = [list(chain.from_iterable(groups))]
                for part, shows in zip(texts, groups, strict=True):
                    first = shows[0]
                    end = max(show.end for show in shows)
                    yield Run(part, first.x, end, first.y, first.size, piece.font, line)
            line += piece.text.count("\n")

    def _note_show(self, parts: Sequence[Any], cm: Sequence[float], tm: Sequence[float]) -> None:
        x, y, scale = _locate(cm, tm)
        name, size = self._font
        size = abs(size * scale)
        if not size:
            return
        place = (*cm, *tm)
        if place == self._place:  # it goes on where the last one ended
            x = self._pen
        self._place = place
        widths = self._widths.get(name)
        if widths is None:
            widths = self._widths[name] = _Widths.of(self.fonts.get(name))
        for stretch in _divide_at_gaps(parts):
            gap = float(stretch[0]) if isinstance(stretch[0], (int, float)) else 0.0
            width, chars = widths.measure(stretch)
            end = x + width * size / 1000
            if chars:
                self._shows.append(_Show(x - gap * size / 1000, y, end, size, chars))
            x = end
        self._pen = x


def _group_shows(shows: Sequence[_Show]) -> Iterator[list[_Show]]:
    """Yield what was shown without a gap as wide as one between cells."""
    group: list[_Show] = []
    for show in shows:
        if group and not (
            abs(show.y - group[-1].y) < RAISED * group[-1].size and show.x - group[-1].end < CELL_SPACE * show.size
        ):
            yield group
            group = []
        group.append(show)
    if group:
        yield group


def _divide_at_gaps(parts: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Yield what an operator shows between wide gaps. A gap in a justified line is narrower. The gap is the first part."""
    begin = 0
    for at, part in enumerate(parts):
        if at > begin and isinstance(part, (int, float)) and part <= -1000 * COLUMN_GAP:
            yield parts[begin:at]
            begin = at
    if parts:
        yield parts[begin:]


def make_plain_lines(text: str) -> list[Line]:
    return [Line(line) for line in text.split("\n")]


def keep_blanks(operator: bytes, operands: Any) -> None:
    """Widen the gaps between words. Some fonts have no blank, and their gaps are narrower than pypdf expects."""
    if operator != b"TJ" or not operands or not isinstance(operands[0], list):
        return
    parts = operands[0]
    for at in range(len(parts) - 2, 0, -1):
        if isinstance(parts[at], (int, float)) and parts[at] <= WORD_GAP:
            parts[at : at + 1] = [CERTAIN_GAP, parts[at] - CERTAIN_GAP]  # the sum is unchanged


@dataclass(slots=True)
class _Widths:
    """The widths of a font's characters, in thousandths of its size, by their codes of `code_bytes` bytes."""

    code_bytes: int = 1
    default: float = WIDE_CHAR
    known: Mapping[int, float] = field(default_factory=dict)

    @classmethod
    def of(cls, font: Any) -> "_Widths":
        try:
            if font is None:
                return cls()
            if "/DescendantFonts" in font:
                inner = font["/DescendantFonts"][0].get_object()
                default = float(inner["/DW"]) if "/DW" in inner else DEFAULT_WIDTH
                return cls(2, default, dict(_list_widths(inner["/W"])) if "/W" in inner else {})
            if "/Widths" not in font:
                return cls(known=_list_standard_widths(str(font["/BaseFont"]).removeprefix("/")))
            first = int(font["/FirstChar"])
            return cls(1, WIDE_CHAR, {first + at: float(width) for at, width in enumerate(font["/Widths"][:256])})
        except (AttributeError, IndexError, KeyError, TypeError, ValueError):
            return cls()

    def measure(self, parts: Sequence[Any]) -> tuple[float, int]:
        """Return the width of what is shown, in thousandths of the font size, and how many characters it has."""
        width, chars = 0.0, 0
        for part in parts:
            if isinstance(part, (int, float)):
                width -= part
            elif isinstance(part, bytes):
                for at in range(0, len(part), self.code_bytes):
                    width += self.known.get(int.from_bytes(part[at : at + self.code_bytes], "big"), self.default)
                    chars += 1
        return width, chars


def _list_standard_widths(font: str) -> dict[int, float]:
    """Return the widths of one of the 14 fonts that every reader of PDF has, so that files need not name them."""
    try:
        from pypdf._codecs.core_font_metrics import CORE_FONT_METRICS
    except ImportError:  # an older version
        return {}
    if font not in CORE_FONT_METRICS:
        return {}
    widths = CORE_FONT_METRICS[font].character_widths
    letters = {code: bytes((code,)).decode("cp1252", "replace") for code in range(256)}
    return {code: float(widths[letter]) for code, letter in letters.items() if letter in widths}


def _list_widths(entries: Sequence[Any]) -> Iterator[tuple[int, float]]:
    """Yield code and width from entries such as `3 [500 400]` and `10 20 600`."""
    at, read = 0, 0
    while at + 1 < len(entries) and read < MAX_WIDTHS:
        first, second = int(entries[at]), entries[at + 1]
        if isinstance(second, list):
            yield from ((first + offset, float(width)) for offset, width in enumerate(second))
            read += len(second)
            at += 2
        else:
            last = min(int(second), first + MAX_WIDTHS - read)
            yield from ((code, float(entries[at + 2])) for code in range(first, last + 1))
            read += max(0, last - first)
            at += 3


def _locate(cm: Sequence[float], tm: Sequence[float]) -> tuple[float, float, float]:
    """Return the place of a text and its vertical scale, which is 0 for turned text."""
    x = tm[4] * cm[0] + tm[5] * cm[2] + cm[4]
    y = tm[4] * cm[1] + tm[5] * cm[3] + cm[5]
    up = tm[2] * cm[1] + tm[3] * cm[3]
    turned = abs(tm[0] * cm[1] + tm[1] * cm[3])
    return x, y, up if math.isfinite(x + y + up) and up > turned else 0.0


def _make_line(pieces: Sequence[_Piece]) -> Line:
    """Return a line with the size of most of its characters."""
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


def _measure_steps(lines: Sequence[Line]) -> None:
    """Set the usual step of each line: the median of the steps between lines of the same size."""
    steps: dict[float, list[float]] = {}
    for above, line in pairwise(lines):
        if line.size and line.size == above.size and 0 < above.y - line.y < 4 * line.size:
            steps.setdefault(line.size, []).append(above.y - line.y)
    usual = {size: median(found) for size, found in steps.items() if len(found) > 1}
    for line in lines:
        line.usual_step = usual.get(line.size, 0.0)


def _find_cell_edges(shows: Sequence[_Show]) -> dict[int, tuple[float, ...]]:
    """Return the left edges of the cells of table rows, by their baselines."""
    rows: dict[int, tuple[float, ...]] = {}
    cells: list[float] = []
    chars = 0
    for before, show in pairwise([_Show(0.0, -math.inf, 0.0, 1.0, 0), *shows]):
        if abs(show.y - before.y) > SAME_LINE * show.size:
            cells, chars = [show.x], 0
        elif show.x - before.end > COLUMN_GAP * show.size and chars > LABEL_CHARS:
            cells.append(show.x)
            rows[round(show.y)] = tuple(cells)
        chars += show.chars
    return rows
