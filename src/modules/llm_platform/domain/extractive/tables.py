"""Answer a question about the rows of one table: which row has the most, which is the latest, or how many there are.

The answer quotes the rows, so that a reader can see that it is true. If the column or the rows are not certain, there is no
answer.
"""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from modules.llm_platform.domain.extractive.candidates import Candidate
from modules.llm_platform.domain.extractive.question import Question
from modules.llm_platform.domain.extractive.table_values import has_dates, has_numbers, read_dates, read_numbers
from modules.llm_platform.domain.extractive.table_words import (
    fold_words,
    is_asked,
    is_cell_named,
    is_form,
    list_content,
    load_word_list,
    split_cell,
)
from modules.llm_platform.domain.text.negation import count_negators

Extreme = Literal["highest", "lowest", "latest", "earliest"]
EXTREMES: Final[tuple[Extreme, ...]] = ("latest", "earliest", "lowest", "highest")

MIN_ROWS: Final = 3  # a smaller table is not compared or counted
MAX_COUNTED: Final = 12  # a count shows all its rows; if there are more, there is no answer
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


class _Asked(NamedTuple):
    """The folded words of a question. `content` lacks function words, and words that compare, such as "most"."""

    words: Sequence[str]
    content: Sequence[str]

    @property
    def extreme(self) -> Extreme | None:
        return next((kind for kind in EXTREMES if not load_word_list(kind).isdisjoint(self.words)), None)


def _read_asked(question: Question) -> _Asked:
    content = [word for word in list_content(question) if not _is_comparing_word(word)]
    return _Asked(fold_words(question.text), content)


def asks_about_rows(question: Question) -> bool:
    """Return whether a question asks for the most, the latest or a number of rows. A question with a "not" does not."""
    asked = _read_asked(question)
    counts = not load_word_list("counting").isdisjoint(asked.words)
    return (counts or asked.extreme is not None) and not count_negators(asked.words)


def find_rows(question: Question, candidates: Sequence[Candidate]) -> RowsFound | None:
    """Return the rows that answer a question about the most, the latest or the number of rows; None if there is no answer.

    Only tables of whole documents are used, because a passage may lack some of the rows.
    """
    if not asks_about_rows(question):
        return None
    asked, tables = _read_asked(question), list_tables(candidates)
    matches = [table.count_matches(asked.content) for table in tables]
    most = max(matches, default=0)
    if not most or 3 * most < len(asked.content):  # two thirds of the words are about something else
        return None
    nearest = [table for table, count in zip(tables, matches, strict=True) if count == most]
    found = [rows for table in nearest if (rows := _find_answering_rows(table, asked)) is not None]
    # A column that the question names comes before a column that is the only one of its table to be compared.
    found = [rows for rows in found if any(is_asked(name, asked.content) for name in split_cell(rows.column))] or found
    return found[0] if len(found) == 1 else None


def _find_answering_rows(table: Table, asked: _Asked) -> RowsFound | None:
    named = [row for row in table.rows if is_cell_named(split_cell(row.sentence.row[0]), asked.content)]
    if len(named) == 1:
        return None  # "last" may be a part of the name of a column, as in `the last service of Anna`
    rows = [row for row in filter_rows(table, asked.content) if not named or row in named]
    if asked.extreme is not None:
        return _find_extreme(table, rows, asked, asked.extreme)
    # The question names a single row, and does not count it: "How many seats does Anna have?"
    is_count = 1 < len(rows) < len(table.rows) and len(rows) <= MAX_COUNTED
    return RowsFound(tuple(rows), len(table.rows)) if is_count else None


def _find_extreme(table: Table, rows: Sequence[Candidate], asked: _Asked, extreme: Extreme) -> RowsFound | None:
    by_date = extreme in ("latest", "earliest")
    has_values, read_values = (has_dates, read_dates) if by_date else (has_numbers, read_numbers)
    measures = [at for at in range(1, len(table.columns)) if has_values(table.list_cells(at))]
    column = _choose_column(table, measures, asked, by_date=by_date)
    if column is None or not (values := read_values(table.list_cells(column))):
        return None
    kept = set(rows)
    known = [(value, row) for value, row in zip(values, table.rows, strict=True) if value is not None and row in kept]
    if not known:
        return None
    choose = max if extreme in ("highest", "latest") else min
    wanted = choose(value for value, _ in known)
    found = tuple(row for value, row in known if value == wanted)
    return RowsFound(found, len(rows), extreme, table.columns[column]) if len(found) <= MAX_EQUAL else None


def _choose_column(table: Table, measures: Sequence[int], asked: _Asked, *, by_date: bool) -> int | None:
    """Return the column that the question is about: by its name, by a word such as "cheapest", or because it is the only one.

    `measures` are the columns that can be compared. A column whose whole name is in the question comes before a column with a
    part of its name there.
    """
    named = [at for at in measures if any(is_form(word, name) for word in asked.content for name in table.names[at])]
    named_in_full = [at for at in named if all(is_asked(name, asked.words) for name in table.names[at])]
    for at in (named_in_full, named):
        if len(at) == 1:
            return at[0]
    hints = ["date_columns"] if by_date else []
    hints += [
        f"{kind}_columns" for kind in ("price", "duration") if not load_word_list(f"{kind}s").isdisjoint(asked.words)
    ]
    hinted = [at for at in named or measures for hint in hints if not load_word_list(hint).isdisjoint(table.names[at])]
    if len(hinted) == 1:
        return hinted[0]
    return measures[0] if len(measures) == 1 and (by_date or not hints) and not named else None


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


def _is_comparing_word(word: str) -> bool:
    kinds = (*EXTREMES, "counting", "prices", "durations")
    return any(word in load_word_list(kind) for kind in kinds)
