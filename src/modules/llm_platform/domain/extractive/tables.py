"""Build the tables of whole documents, and find the rows that a question names."""

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

from modules.llm_platform.domain.extractive.candidates import Candidate
from modules.llm_platform.domain.extractive.quantities import AGE_UNIT
from modules.llm_platform.domain.extractive.superlatives import Extreme
from modules.llm_platform.domain.extractive.table_values import Column, extend_to_weeks, read_dates, read_quantities
from modules.llm_platform.domain.extractive.table_words import (
    is_cell_named,
    load_word_list,
    matches_any_word,
    matches_word,
    split_cell,
)

MAX_TITLE_CHARS: Final = 300
PREFIX_LETTERS: Final = 2  # all forms of a word begin with the same letters, at least this many
MIN_ROWS: Final = 3  # a smaller table is not compared or counted
MAX_COUNTED: Final = 24  # a list shows all its rows; if there are more, there is no answer
MAX_EQUAL: Final = 4  # if more rows tie for the first place, there is no answer


Decision = Literal["yes", "no", "first", "same"]
SumKind = Literal["total", "average"]
Row = tuple[str, ...]
"""The cells of a row, one for each column."""


class Table:
    """The rows of one source that have the same column names, below one heading.

    `source` is the number of the source in citations. `columns` has the column names as written, `column_words` their
    folded words.
    """

    def __init__(
        self, columns: Row, rows: Sequence[Row], *, source: int = 0, title: str = "", heading: str = ""
    ) -> None:
        self.columns = columns
        self.rows = rows
        self.source = source
        self.column_words = [split_cell(name) for name in columns]
        self._forms: dict[str, list[str]] = {}
        self._title_words = frozenset(word for text in (title, heading) for word in split_cell(text[:MAX_TITLE_CHARS]))

    def list_cells(self, column: int) -> list[str]:
        return [row[column] for row in self.rows]

    @cached_property
    def dates(self) -> Mapping[int, Column]:
        """The columns of dates, by their index. In a table with a column for weeks, each row has the days of its week."""
        found = {index: read_dates(self.list_cells(index)) for index in range(len(self.columns))}
        known = {index: column for index, column in found.items() if column is not None}
        is_weekly = any(not load_word_list("weeks").isdisjoint(name) for name in self.column_words)
        return {index: extend_to_weeks(column) for index, column in known.items()} if is_weekly else known

    @cached_property
    def quantities(self) -> Mapping[int, Column]:
        """The columns of quantities, by their index. The years of a column `Year` are dates: the latest is not the oldest."""
        found = {index: read_quantities(name, self.list_cells(index)) for index, name in enumerate(self.columns)}
        known = {index: column for index, column in found.items() if column is not None}
        return {index: column for index, column in known.items() if column.unit != AGE_UNIT or index not in self.dates}

    @cached_property
    def unreadable(self) -> list[int]:
        """The columns, without the first one, in which most cells have a digit, but which cannot be compared."""
        found = []
        for column in range(1, len(self.columns)):
            cells = [cell for cell in self.list_cells(column) if cell.strip()]
            has_digits = 2 * sum(any(map(str.isdigit, cell)) for cell in cells) > len(cells)
            if has_digits and column not in self.quantities and column not in self.dates:
                found.append(column)
        return found

    def is_in_title(self, word: str) -> bool:
        """Return whether the title or the heading has a word, which may then name all rows."""
        return any(matches_word(word, other) for other in self._title_words)

    def is_in_columns(self, word: str) -> bool:
        """Return whether the name of a column has a word."""
        return any(matches_word(word, other) for name in self.column_words for other in name)

    def list_columns_by_own_words(self, words: Sequence[str]) -> list[int]:
        """Return the columns with a word of their own among these. The word `shift` may be in the names of several columns."""
        used = Counter(word for name in self.column_words for word in set(name))
        return [
            column
            for column, name in enumerate(self.column_words)
            if any(used[word] == 1 and matches_any_word(word, words) for word in name)
        ]

    def has_word(self, word: str) -> bool:
        """Return whether the title, a column or a cell has a word in this form."""
        return (
            word in self._title_words or word in self._cells_by_word or any(word in name for name in self.column_words)
        )

    def is_in_column_name(self, words: Sequence[str], at: int) -> bool:
        """Return whether a word is part of a column name with several words that is among these words: `a first aider`."""
        return any(
            len(words) >= start + len(name) and all(map(matches_word, words[start:], name))
            for name in self.column_words
            for start in range(max(0, at - len(name) + 1), at + 1)
            if len(name) > 1
        )

    def count_cells(self, word: str) -> int:
        """Return how many different cells have a word."""
        return len({cell for form in self._find_forms(word) for cell in self._cells_by_word[form]})

    def count_matches(self, asked: Sequence[str]) -> int:
        """Return how many of these words are in the title, the heading, a column name, or a cell that the question names.

        A word within the text of a cell says nothing about the rows: `Booked with the car` is a note on a child seat.
        """
        known = {*self._title_words, *itertools.chain.from_iterable(self.column_words)}
        known.update(word for cells in self.find_named_cells(asked).values() for cell in cells for word in cell)
        return sum(any(matches_word(word, other) for other in known) for word in asked)

    def find_named_cells(self, asked: Sequence[str]) -> dict[int, set[Row]]:
        """Return the cells, as words, whose words are all among these, by column. A number alone names nothing."""
        said = {form for word in set(asked) for form in self._find_forms(word)}
        cells = {cell for word in said for cell in self._cells_by_word[word] if said.issuperset(cell)}
        found: dict[int, set[Row]] = {}
        for cell in cells:
            if not all(map(str.isdigit, cell)):
                for column in self._columns_by_cell[cell]:
                    found.setdefault(column, set()).add(cell)
        return found

    @cached_property
    def flags(self) -> dict[int, list[bool | None]]:
        """Maps each column with a "yes" to what its cells say: True for yes, False for no or nothing, None for other text."""
        yes, lacking = load_word_list("yes"), load_word_list("lacking")
        found: dict[int, list[bool | None]] = {}
        for column in range(len(self.columns)):
            cells = [split_cell(cell) for cell in self.list_cells(column)]
            if any(yes.issuperset(cell) for cell in cells if cell):
                says_yes = [bool(cell) and yes.issuperset(cell) for cell in cells]
                says_no = [lacking.issuperset(cell) for cell in cells]
                pairs = zip(says_yes, says_no, strict=True)
                found[column] = [True if is_yes else False if is_no else None for is_yes, is_no in pairs]
        return found

    def _find_forms(self, word: str) -> list[str]:
        """Return the words of cells that are forms of a word. The result is cached."""
        if word not in self._forms:
            self._forms[word] = [
                other for other in self._words_by_prefix.get(word[:PREFIX_LETTERS], ()) if matches_word(word, other)
            ]
        return self._forms[word]

    @cached_property
    def _columns_by_cell(self) -> dict[Row, set[int]]:
        """Maps the words of each cell to its columns."""
        found: dict[Row, set[int]] = {}
        for column in range(len(self.columns)):
            for cell in set(self.list_cells(column)):
                found.setdefault(split_cell(cell), set()).add(column)
        return found

    @cached_property
    def _cells_by_word(self) -> dict[str, list[Row]]:
        """Maps each word to the cells that have it."""
        found: dict[str, list[Row]] = {}
        for cell in self._columns_by_cell:
            for word in set(cell):
                found.setdefault(word, []).append(cell)
        return found

    @cached_property
    def _words_by_prefix(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for word in self._cells_by_word:
            found.setdefault(word[:PREFIX_LETTERS], []).append(word)
        return found


@dataclass(frozen=True, slots=True)
class RowsFound:
    """The rows of a table that answer a question, and the number of rows that were compared or counted (`read`).

    - `row_indices` are the indices of these rows in the table.
    - `extreme` and `column` say in which column the rows have the highest or lowest value. `extreme` is empty for a sum, and both
      are empty for a count.
    - `figure` is the total or the average of `column`, as `sum_kind` says. Both are empty if nothing was added.
    - `decision` answers a question that wants a yes or no, or that names alternatives; empty for other questions. "first"
      means that the first row, which is called `name`, has the highest or lowest value. "same" means that all rows are equal.
    """

    table: Table
    row_indices: tuple[int, ...]
    read: int
    extreme: Extreme | Literal[""] = ""
    column: str = ""
    decision: Decision | Literal[""] = ""
    name: str = ""
    sum_kind: SumKind | Literal[""] = ""
    figure: str = ""

    @property
    def rows(self) -> list[Row]:
        return [self.table.rows[index] for index in self.row_indices]


def find_rows_by_name(table: Table, content: Sequence[str]) -> list[int]:
    """Return the indices of the rows whose first cell the question names."""
    return [index for index, row in enumerate(table.rows) if is_cell_named(split_cell(row[0]), content)]


def filter_rows(table: Table, content: Sequence[str]) -> list[int]:
    """Return the indices of the rows that the question does not rule out; of all rows if it names no cell and no flag.

    A column rules out rows if the question names one of its cells by all words, and the row has another cell there. A column of
    yes and no that the question names rules out the rows that do not say yes. The first column rules out nothing.
    """
    indices, named = list(range(len(table.rows))), table.find_named_cells(content)
    for column in range(1, len(table.columns)):
        if column in table.flags and any(matches_any_word(word, content) for word in table.column_words[column]):
            indices = [index for index in indices if table.flags[column][index]]
        elif cells := named.get(column):
            indices = [index for index in indices if split_cell(table.rows[index][column]) in cells]
    return indices


def keep_nearest_tables(tables: Sequence[Table], content: Sequence[str]) -> list[Table]:
    """Return the tables that have the most of these words in their title, their columns or whole cells."""
    matches = [table.count_matches(content) for table in tables]
    return [table for table, count in zip(tables, matches, strict=True) if count == max(matches)]


def list_tables(candidates: Sequence[Candidate]) -> list[Table]:
    """Return the tables of whole documents, with at least MIN_ROWS rows."""
    by_table: dict[object, list[Candidate]] = {}
    for candidate in candidates:
        row = candidate.sentence.row
        if row and candidate.source.is_whole and not is_total(row):
            by_table.setdefault(candidate.table_key, []).append(candidate)
    return [
        _make_table(rows)
        for rows in by_table.values()
        if len(rows) >= MIN_ROWS and all(row.sentence.has_all_rows for row in rows)
    ]


def _make_table(rows: Sequence[Candidate]) -> Table:
    source, first = rows[0].source, rows[0].sentence
    cells = [row.sentence.row for row in rows]
    return Table(first.columns, cells, source=source.index, title=source.title, heading=first.heading)


def group_rows(candidates: Sequence[Candidate]) -> list[list[Candidate]]:
    """Return the rows among these sentences in groups: the rows of one source that have the same columns."""
    by_columns: dict[object, list[Candidate]] = {}
    for one in candidates:
        if one.sentence.row:
            by_columns.setdefault(one.columns_key, []).append(one)
    return list(by_columns.values())


def is_total(row: Row, *, alone: bool = False) -> bool:
    """Return whether a row has the sums of the other rows: its name has a word such as "total", and no other word if `alone`."""
    name = split_cell(next(filter(None, row), ""))
    totals = load_word_list("totals")
    return bool(name) and totals.issuperset(name) if alone else not totals.isdisjoint(name)


def may_name_rows(words: Sequence[str], table: Table, candidates: Sequence[Candidate]) -> bool:
    """Return whether the words that the table lacks may be synonyms for its rows: no cell and no other source has them."""
    unknown = [word for word in words if not table.count_matches([word])]
    others = (one for one in candidates if one.sentence.row or one.source.index != table.source)
    return not any(one.question.terms[number].word in unknown for one in others for number in one.own_credits)
