"""Where the operators of a PDF's page show text."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from modules.llm_platform.infrastructure.parsing.pdf_fonts import FontWidths

COLUMN_GAP = 1.1  # font sizes between two cells of a row at least; the gaps of a justified line are narrower
WORD_GAP = -150  # thousandths of the font size: kerning is narrower, a space is wider
CERTAIN_GAP = -1000  # wider than any font's blank


class Place(NamedTuple):
    """Where a text begins, in points of the page, and its vertical scale, which is 0 for turned text."""

    x: float
    y: float
    scale: float


def locate(cm: Sequence[float], tm: Sequence[float]) -> Place:
    """Return the place that the matrices of the page (`cm`) and of the text (`tm`) give."""
    x = tm[4] * cm[0] + tm[5] * cm[2] + cm[4]
    y = tm[4] * cm[1] + tm[5] * cm[3] + cm[5]
    up = tm[2] * cm[1] + tm[3] * cm[3]
    turned = abs(tm[0] * cm[1] + tm[1] * cm[3])
    return Place(x, y, up if math.isfinite(x + y + up) and up > turned else 0.0)


@dataclass(slots=True)
class Show:
    """A text that an operator shows, from `x` to `end` on the baseline `y`, in a font size."""

    x: float
    y: float
    end: float
    size: float
    chars: int


class ShowReader:
    """Follows the font and the pen of a page from one operator to the next. `fonts` are the fonts by their names in the page."""

    def __init__(self, fonts: Mapping[str, Any]) -> None:
        self._fonts = fonts
        self._widths: dict[str, FontWidths] = {}
        self._font_name, self._font_size = "", 0.0
        self._matrices: tuple[float, ...] = ()  # of the last operator that showed text
        self._pen = 0.0  # where its text ended

    def set_font(self, operands: Any) -> None:
        """Read the operands of `Tf`."""
        if len(operands) > 1 and isinstance(operands[1], (int, float)):
            self._font_name, self._font_size = str(operands[0]), float(operands[1])

    def read_shows(self, operands: Any, cm: Sequence[float], tm: Sequence[float]) -> Iterator[Show]:
        """Yield what an operator `Tj` or `TJ` shows, divided at wide gaps."""
        x, y, scale = locate(cm, tm)
        size = abs(self._font_size * scale)
        if not size or not operands:
            return
        matrices = (*cm, *tm)
        if matrices == self._matrices:  # the text continues where the last one ended
            x = self._pen
        self._matrices = matrices
        widths = self._get_widths()
        parts = operands[0] if isinstance(operands[0], list) else [operands[0]]
        for stretch in _divide_at_gaps(parts):
            gap = float(stretch[0]) if isinstance(stretch[0], (int, float)) else 0.0
            width, chars = widths.measure(stretch)
            end = x + width * size / 1000
            if chars:
                yield Show(x - gap * size / 1000, y, end, size, chars)
            x = end
        self._pen = x

    def _get_widths(self) -> FontWidths:
        name = self._font_name
        if name not in self._widths:
            self._widths[name] = FontWidths.read(self._fonts.get(name))
        return self._widths[name]


def _divide_at_gaps(parts: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Yield the parts between gaps that are as wide as a gap between cells. Each stretch begins with its gap."""
    begin = 0
    for at, part in enumerate(parts):
        if at > begin and isinstance(part, (int, float)) and part <= -1000 * COLUMN_GAP:
            yield parts[begin:at]
            begin = at
    if parts:
        yield parts[begin:]


def keep_blanks(operator: bytes, operands: Any) -> None:
    """Widen the gaps between words, so that pypdf reads a space there. Fonts without a space have narrower gaps than it expects.

    The next character stays at its place, because the gap is widened and narrowed again by the same amount.
    """
    if operator != b"TJ" or not operands or not isinstance(operands[0], list):
        return
    parts = operands[0]
    for at in range(len(parts) - 2, 0, -1):
        if isinstance(parts[at], (int, float)) and parts[at] <= WORD_GAP:
            parts[at : at + 1] = [CERTAIN_GAP, parts[at] - CERTAIN_GAP]  # the sum is unchanged
