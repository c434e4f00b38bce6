"""Collect what pypdf reads of a page, and put it together as lines and tables."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from modules.llm_platform.infrastructure.parsing.pdf_lines import (
    Line,
    find_cell_edges,
    make_line,
    make_plain_lines,
    measure_steps,
)
from modules.llm_platform.infrastructure.parsing.pdf_rules import PATH_OPERATORS, Rules
from modules.llm_platform.infrastructure.parsing.pdf_runs import Piece, list_runs
from modules.llm_platform.infrastructure.parsing.pdf_shows import Show, ShowReader, keep_blanks, locate
from modules.llm_platform.infrastructure.parsing.pdf_tables import find_tables


class PageLayout:
    """The layout of a page. Pass its visitors to `extract_text`, and then ask for its lines.

    `fonts` are the fonts of the page, by their names in its operators.
    """

    def __init__(self, fonts: Mapping[str, Any]) -> None:
        self._reader = ShowReader(fonts)
        self._rules = Rules()
        self._shows: list[Show] = []
        self._pieces: list[Piece] = []
        self._assigned = 0  # the shows before this position belong to the pieces

    def visit_operator(self, operator: bytes, operands: Any, cm: Sequence[float], tm: Sequence[float]) -> None:
        """Note where an operator shows text or draws a rule, and widen the gaps between its words."""
        if operator == b"Tf":
            self._reader.set_font(operands)
        elif operator in (b"TJ", b"Tj"):
            self._shows += self._reader.read_shows(operands, cm, tm)
        elif operator in PATH_OPERATORS:
            self._rules.add_path(operator, operands, cm)
        keep_blanks(operator, operands)

    def visit_text(self, text: str, cm: Sequence[float], tm: Sequence[float], font: Any, size: float) -> None:
        """Note a part of the text, and that the operators since the last part showed it."""
        x, y, scale = locate(cm, tm)
        name = str(font.get("/BaseFont", "")) if isinstance(font, Mapping) else ""
        self._pieces.append(Piece(text, abs(size * scale), name, x, y, self._shows[self._assigned :]))
        self._assigned = len(self._shows)

    def list_lines(self, text: str) -> Sequence[Line]:
        """Return the lines of the page. `text` is what `extract_text` returned."""
        if "".join(piece.text for piece in self._pieces) != text:
            return make_plain_lines(text)  # an older version of pypdf passes some parts twice
        lines = [make_line(pieces) for pieces in self._split_lines()]
        rows = find_cell_edges(self._shows)
        for line in lines:
            line.cells = rows.get(round(line.y), ()) if line.size else ()
        measure_steps(lines)
        return self._put_tables(lines)

    def _split_lines(self) -> Iterator[list[Piece]]:
        """Yield the pieces of each line. A piece may have several line breaks."""
        line: list[Piece] = []
        for piece in self._pieces:
            first, *others = piece.text.split("\n")
            line.append(replace(piece, text=first))
            for other in others:
                yield line
                line = [replace(piece, text=other)]
        yield line

    def _put_tables(self, lines: Sequence[Line]) -> Sequence[Line]:
        """Return the lines with each table instead of its lines, if these lines have no other text."""
        runs = list(list_runs(self._pieces))
        counts = Counter(run.line for run in runs)
        placed: list[Line] = []
        end = 0
        for table in find_tables(runs, self._rules):
            if table.first >= end and sum(counts[line] for line in range(table.first, table.last + 1)) == table.runs:
                placed += [*lines[end : table.first], Line(table.render(), table=table)]
                end = table.last + 1
        return [*placed, *lines[end:]]
