"""Questions that name a row and ask for a column in other words than its name: `What does Bella cost?` beside `Price`.

A sentence encoder compares each column with the question, the support model reads each cell beside the name of its column, and
`choose_named_rows` decides whether one of the cells is what the question asks for. The whole row is quoted then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from modules.llm_platform.domain.extractive.candidates import Candidate
from modules.llm_platform.domain.extractive.named_rows import NamedRows
from modules.llm_platform.domain.extractive.question import Question
from modules.llm_platform.domain.extractive.table_words import asks_for_rows, fold_words, is_asked
from modules.llm_platform.domain.text.data_files import load_data

MAX_GROUPS: Final = 3  # of rows with the same name
MAX_CELLS: Final = 8  # cells of a row that the support model reads


@dataclass(frozen=True, slots=True)
class NamedCell:
    """A cell of the first of the rows that a question names, which may be what the question asks for."""

    named: NamedRows
    column: str
    text: str

    @property
    def with_column(self) -> str:
        return f"{self.column}: {self.text}"

    @property
    def with_name(self) -> str:
        name = self.named.rows[0].sentence.row[min(self.named.naming)]
        return f"{name}: {self.with_column}"


@dataclass(frozen=True, slots=True)
class CellWeights:
    """The weights of what is known of a cell, and the lowest log-odds of an answer."""

    log_odds: float
    column: float
    cell: float
    answers_from: float


@cache
def read_cell_weights() -> CellWeights:
    return CellWeights(**load_data("answer_weights")["cells"])


@dataclass(frozen=True, slots=True)
class CellReading:
    """What the models say about a cell.

    - `column` and `cell` are the cosines of the rest of the question with the name of the column, and with name and cell.
    - `log_odds` is the result of the support model: how likely the cell answers the question.
    """

    read: NamedCell
    column: float
    cell: float
    log_odds: float = 0.0

    @property
    def closeness(self) -> float:
        weights = read_cell_weights()
        return weights.column * self.column + weights.cell * self.cell

    @property
    def odds(self) -> float:
        return read_cell_weights().log_odds * self.log_odds + self.closeness


def list_cells(named: NamedRows) -> list[NamedCell]:
    """Return the cells that the question may ask for: those with a text that do not name the rows."""
    sentence = named.rows[0].sentence
    cells = enumerate(zip(sentence.columns, sentence.row, strict=True))
    return [NamedCell(named, *pair) for at, pair in cells if all(pair) and at not in named.naming]


def leave_out_name(question: Question, named: NamedRows) -> str:
    """Return the question without the words that name the rows."""
    known = list(named.words)
    parts = question.text.split()
    return " ".join(part for part in parts if not all(is_asked(word, known) for word in fold_words(part)))


def keep_nearest_cells(readings: Sequence[CellReading]) -> list[CellReading]:
    return sorted(readings, key=lambda one: -one.closeness)[:MAX_CELLS]


def choose_named_rows(question: Question, readings: Sequence[CellReading]) -> list[Candidate]:
    """Return the rows of the likeliest cell, none if no cell answers.

    - Rows that the question names by two cells of a column are compared, whatever it asks: `Is Anna or Bella longer?`
    - Several rows with the same name answer only a question for rows: `Which boats are in Hall B?`, not `What does a boat cost?`
    """
    best = max(readings, key=lambda one: one.odds, default=None)
    if best is None:
        return []
    compared = [
        group for group in dict.fromkeys(one.read.named for one in readings) if _are_compared(best.read.named, group)
    ]
    is_answered = best.odds >= read_cell_weights().answers_from and (
        len(best.read.named.rows) == 1 or asks_for_rows(question)
    )
    return [row for group in compared for row in group.rows] if is_answered or len(compared) > 1 else []


def _are_compared(one: NamedRows, other: NamedRows) -> bool:
    """Return whether the rows are in the same table and are named in the same columns."""
    places = [(group.rows[0].rank, group.rows[0].sentence.columns, group.naming) for group in (one, other)]
    return places[0] == places[1]
