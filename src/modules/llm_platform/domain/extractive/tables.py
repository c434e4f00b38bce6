"""The tables of whole documents, as questions about their rows see them, and which rows a question names."""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from modules.llm_platform.domain.extractive.candidates import Candidate
from modules.llm_platform.domain.extractive.superlatives import Extreme
from modules.llm_platform.domain.extractive.table_words import (
    is_asked,
    is_cell_named,
    is_form,
    load_word_list,
    split_cell,
)

MIN_ROWS: Final = 3  # a smaller table is not compared or counted
MAX_COUNTED: Final = 12  # a list shows all its rows; if there are more, there is no answer
MAX_EQUAL: Final = 4  # if more rows share the first place, there is no answer


@dataclass(frozen=True, slots=True)
class RowsFound:
    """The rows that answer a question, and the number of rows that were compared or counted (`read`).

    `extreme` and `column` say in which column the rows have the highest or lowest value. Both are empty for a count.
    """

    rows: tuple[Candidate, ...]
    read: int
    extreme: Extreme | Literal[""] = ""
    column: str = ""


class Table:
    """The rows of one source that have the same column names."""

    def __init__(self, rows: Sequence[Candidate]) -> None:
        self.rows = rows
        self.columns = rows[0].sentence.columns
        self.names = [split_cell(name) for name in self.columns]

    def list_cells(self, column: int) -> list[str]:
        return [row.sentence.row[column] for row in self.rows]

    def count_matches(self, asked: Sequence[str]) -> int:
        """Return how many of these words the title, the heading or the column names have, or a cell that the question names.

        A word within the text of a cell says nothing about the rows: `Booked with the car` is a note on a child seat.
        """
        texts = (self.rows[0].source.title, self.rows[0].sentence.heading, *self.columns)
        known = {word for text in texts for word in split_cell(text)}
        known.update(word for cell in self._list_distinct_cells() if is_cell_named(cell, asked) for word in cell)
        return sum(any(is_form(word, other) for other in known) for word in asked)

    def _list_distinct_cells(self) -> Iterable[tuple[str, ...]]:
        cells = set(itertools.chain.from_iterable(row.sentence.row for row in self.rows))
        return {split_cell(cell) for cell in cells}


def filter_rows(table: Table, content: Sequence[str]) -> list[Candidate]:
    """Return the rows that the question names: by all words of a cell, or by a column in which the cell says yes."""
    rows = list(table.rows)
    for column in range(1, len(table.columns)):
        cells = [split_cell(cell) for cell in table.list_cells(column)]
        named = [is_cell_named(cell, content) for cell in cells]
        says_yes = [load_word_list("yes").issuperset(cell) and bool(cell) for cell in cells]
        if any(says_yes) and any(is_asked(word, content) for word in table.names[column]):
            named = says_yes
        if any(named):
            kept = {id(row) for row, is_named in zip(table.rows, named, strict=True) if is_named}
            rows = [row for row in rows if id(row) in kept]
    return rows


def list_tables(candidates: Sequence[Candidate]) -> list[Table]:
    """Return the tables of whole documents, with at least MIN_ROWS rows."""
    by_table: dict[tuple[int, tuple[str, ...], str], list[Candidate]] = {}
    for candidate in candidates:
        row = candidate.sentence.row
        if row and candidate.source.is_whole and not _is_total(row):
            key = candidate.rank, candidate.sentence.columns, candidate.sentence.heading
            by_table.setdefault(key, []).append(candidate)
    return [
        Table(rows)
        for rows in by_table.values()
        if len(rows) >= MIN_ROWS and all(row.sentence.has_all_rows for row in rows)
    ]


def _is_total(row: Sequence[str]) -> bool:
    name = next(filter(None, row), "")
    return not load_word_list("totals").isdisjoint(split_cell(name))


def may_name_rows(words: Sequence[str], table: Table, candidates: Sequence[Candidate]) -> bool:
    """Return whether the words that the table lacks may be other words for its rows: no cell and no other source has them."""
    unknown = [word for word in words if not table.count_matches([word])]
    others = (one for one in candidates if one.sentence.row or one.rank != table.rows[0].rank)
    return not any(one.question.terms[number].word in unknown for one in others for number in one.own_credits)
