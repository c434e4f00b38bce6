"""Find the cell for a question that names a row, and a column by a synonym: `What does Bella cost?` for a column `Price`.

A sentence encoder compares each column with the question, and the support model scores each cell together with the name of its
column. `choose_named_rows` decides whether one of the cells answers the question. The answer then quotes the whole row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from modules.llm_platform.domain.extractive.candidates import Candidate
from modules.llm_platform.domain.extractive.named_rows import NamedRows
from modules.llm_platform.domain.extractive.question import Question
from modules.llm_platform.domain.extractive.reranking import ScoringModel
from modules.llm_platform.domain.extractive.table_words import asks_for_rows, fold_words, matches_any_word
from modules.llm_platform.domain.text.data_files import load_data

MAX_GROUPS: Final = 3  # of rows with the same name
MAX_CELLS: Final = 8  # cells of a row that the support model reads


@dataclass(frozen=True, slots=True)
class NamedCell:
    """A cell that may answer the question. It is in the first row that the question names."""

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
    """The weights of the scores of a cell, and for each model the lowest log-odds of an answer."""

    log_odds: float
    column: float
    cell: float
    answers_from: Mapping[ScoringModel, float]


@cache
def load_cell_weights() -> CellWeights:
    return CellWeights(**load_data("answer_weights")["cells"])


@dataclass(frozen=True, slots=True)
class ScoredCell:
    """A cell with its scores.

    - `column_closeness` is the cosine of the question, without the name of the row, and the name of the column.
    - `cell_closeness` is the cosine of the same question and the column name followed by the cell.
    - `log_odds` is the score of the support model: how likely the cell answers the question. `scored_by` names the model.
    """

    cell: NamedCell
    column_closeness: float
    cell_closeness: float
    log_odds: float = 0.0
    scored_by: ScoringModel = "english"

    @property
    def closeness(self) -> float:
        weights = load_cell_weights()
        return weights.column * self.column_closeness + weights.cell * self.cell_closeness

    @property
    def answer_log_odds(self) -> float:
        """Log-odds from all features that the cell answers; `log_odds` is the support model's score alone."""
        return load_cell_weights().log_odds * self.log_odds + self.closeness

    @property
    def margin(self) -> float:
        """How far the log-odds exceed the limit of their model."""
        return self.answer_log_odds - load_cell_weights().answers_from[self.scored_by]


def list_cells(named: NamedRows) -> list[NamedCell]:
    """Return the cells that the question may ask for, without empty cells and the names of the rows."""
    sentence = named.rows[0].sentence
    cells = enumerate(zip(sentence.columns, sentence.row, strict=True))
    return [NamedCell(named, *pair) for column, pair in cells if all(pair) and column not in named.naming]


def remove_name(question: Question, named: NamedRows) -> str:
    """Return the question without the words that name the rows."""
    known = list(named.words)
    parts = question.text.split()
    return " ".join(part for part in parts if not all(matches_any_word(word, known) for word in fold_words(part)))


def select_nearest_cells(scored: Sequence[ScoredCell]) -> list[ScoredCell]:
    return sorted(scored, key=lambda one: -one.closeness)[:MAX_CELLS]


def choose_named_rows(question: Question, scored: Sequence[ScoredCell]) -> list[Candidate]:
    """Return the rows of the likeliest cell, none if no cell answers.

    - If the question names rows by different cells of one column, all of these rows are returned: `Is Anna or Bella longer?`
    - Several rows with the same name only answer a question for rows: `Which boats are in Hall B?`, not `What does a boat cost?`
    """
    best = max(scored, key=lambda one: one.margin, default=None)
    if best is None:
        return []
    compared = [
        group for group in dict.fromkeys(one.cell.named for one in scored) if _are_compared(best.cell.named, group)
    ]
    is_answered = best.margin >= 0 and (len(best.cell.named.rows) == 1 or asks_for_rows(question))
    return [row for group in compared for row in group.rows] if is_answered or len(compared) > 1 else []


def _are_compared(one: NamedRows, other: NamedRows) -> bool:
    """Return whether the rows are in the same table and are named in the same columns."""
    return one.rows[0].columns_key == other.rows[0].columns_key and one.naming == other.naming
