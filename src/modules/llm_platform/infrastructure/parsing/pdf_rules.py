"""The rules (drawn lines) of a PDF's page, which may be the edges of cells."""

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from modules.llm_platform.infrastructure.parsing.pdf_runs import SAME_LINE, Edges, Run

PATH_OPERATORS = frozenset({b"m", b"l", b"re"})
MIN_RULES = 2  # of a table of two columns
MAX_RULES = 4_000  # of a page, because a drawing may have any number
MIN_HEIGHT = 40.0  # points of all upright rules at a place
THIN = 3.0  # points; a thinner rectangle is a rule


@dataclass(slots=True)
class Rules:
    """The rules of a page. Add all of them with `add_path`, and call `sort` before any question."""

    _level: list[tuple[float, float, float]] = field(default_factory=list)  # y, left and right
    _upright: list[tuple[float, float, float]] = field(default_factory=list)  # x, bottom and top
    _pen: tuple[float, float] = (0.0, 0.0)

    def add_path(self, operator: bytes, operands: Sequence[Any], cm: Sequence[float]) -> None:
        """Add what an operator of PATH_OPERATORS draws, if it is a rule or a rectangle."""
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
        """Sort the rules. Leave out short upright rules without others above, such as the edges of a word's background."""
        heights: dict[int, float] = defaultdict(float)
        for x, bottom, top in self._upright:
            heights[round(x)] += top - bottom
        self._level.sort()
        self._upright = sorted(rule for rule in self._upright if heights[round(rule[0])] > MIN_HEIGHT)

    def has_rule_between_lines(self, above: Run, below: Run) -> bool:
        """Return whether a level rule is between two lines of a cell."""
        low, high = below.y + SAME_LINE * below.size, above.y
        first, last = bisect_left(self._level, (low,)), bisect_left(self._level, (high,))
        edges = below.edges
        return any(edges.overlap(Edges(left, right)) for _, left, right in self._level[first:last])

    def has_rule_between_texts(self, before: Run, run: Run) -> bool:
        """Return whether an upright rule is between two texts of a line. The first text may run over this rule."""
        first, last = bisect_right(self._upright, (before.x + 1.0,)), bisect_right(self._upright, (run.x, math.inf))
        return any(bottom < run.y < top for _, bottom, top in self._upright[first:last])

    def has_rules_within(self, top: float, bottom: float) -> bool:
        """Return whether at least MIN_RULES level rules are between two heights."""
        return bisect_left(self._level, (top,)) - bisect_left(self._level, (bottom,)) >= MIN_RULES

    def find_column(self, text: Edges, y: float) -> Edges:
        """Return the rules on both sides of the beginning of a text; its own edges if a side has no rule."""
        at = bisect_right(self._upright, (text.left + 1.0, math.inf))
        left = next((rule[0] for rule in reversed(self._upright[:at]) if rule[1] <= y <= rule[2]), None)
        right = next((rule[0] for rule in self._upright[at:] if rule[1] <= y <= rule[2]), None)
        return text if left is None or right is None else Edges(left, right)

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
