"""The texts of a PDF's page with their places, divided where a gap may be between two cells."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from modules.llm_platform.infrastructure.parsing.pdf_shows import Show
from modules.llm_platform.infrastructure.parsing.pdf_texts import divide_text

SAME_LINE = 0.3  # maximum difference between the baselines of one line, in font sizes
RAISED = 0.6  # maximum offset of a superscript or subscript from its word, in font sizes
CELL_SPACE = 0.8  # a gap between two texts divides cells from this width on, in font sizes


@dataclass(slots=True)
class Piece:
    """A part of the text that pypdf reads, with its place. `shows` is what the operators showed for it."""

    text: str
    size: float
    font: str
    x: float
    y: float
    shows: Sequence[Show]

    def as_show(self) -> Show:
        """Return the piece as if it was shown at once, in letters that are half as wide as they are high."""
        return Show(self.x, self.y, self.x + self.size * len(self.text) / 2, self.size, len(self.text))


class Edges(NamedTuple):
    """The left and right edge of a text, a cell or a column."""

    left: float
    right: float

    def overlap(self, other: "Edges") -> bool:
        return self.left < other.right and self.right > other.left


@dataclass(slots=True)
class Run:
    """A text without a wide gap, from `x` to `end` on the baseline `y`. `line` is the number of its line in the page."""

    text: str
    x: float
    end: float
    y: float
    size: float
    font: str
    line: int

    @property
    def edges(self) -> Edges:
        return Edges(self.x, self.end)


def list_runs(pieces: Iterable[Piece]) -> Iterator[Run]:
    """Yield the texts of a page in the order in which they are drawn."""
    line = 0
    for piece in pieces:
        if text := piece.text.strip():
            groups = list(_group_shows(piece.shows)) or [[piece.as_show()]]
            texts = divide_text(text, [sum(show.chars for show in group) for group in groups])
            if len(texts) < len(groups):  # it is not certain which part stands where
                groups = [list(chain.from_iterable(groups))]
            for part, shows in zip(texts, groups, strict=True):
                end = max(show.end for show in shows)
                yield Run(part, shows[0].x, end, shows[0].y, shows[0].size, piece.font, line)
        line += piece.text.count("\n")


def _group_shows(shows: Sequence[Show]) -> Iterator[list[Show]]:
    """Yield the shows between gaps that are as wide as a gap between cells."""
    group: list[Show] = []
    for show in shows:
        if group and not _follows(show, group[-1]):
            yield group
            group = []
        group.append(show)
    if group:
        yield group


def _follows(show: Show, before: Show) -> bool:
    return abs(show.y - before.y) < RAISED * before.size and show.x - before.end < CELL_SPACE * show.size
