"""Answer a question about the rows of one table: which row has the most, which is the latest, or how many there are.

The answer quotes the rows, so that a reader can see that it is true. If the column or the rows are not certain, there is no
answer.
"""

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Final, Literal, NamedTuple

from modules.llm_platform.domain.extractive.candidates import Candidate
from modules.llm_platform.domain.extractive.question import Question, has_same_stem
from modules.llm_platform.domain.extractive.table_values import has_dates, has_numbers, read_dates, read_numbers
from modules.llm_platform.domain.text.data_files import load_words
from modules.llm_platform.domain.text.language import load_stop_words
from modules.llm_platform.domain.text.negation import count_negators
from modules.llm_platform.domain.text.tokens import fold, split_words

Extreme = Literal["highest", "lowest", "latest", "earliest"]
EXTREMES: Final[tuple[Extreme, ...]] = ("latest", "earliest", "lowest", "highest")

MIN_ROWS: Final = 3  # a smaller table is not compared or counted
MAX_COUNTED: Final = 12  # a count shows all its rows; if there are more, there is no answer
MAX_EQUAL: Final = 4  # if more rows share the first place, there is no answer
WIDE_FROM: Final = 8  # columns
KEPT: Final = 8192  # cells whose words, and whose comparison with a question, are kept


@dataclass(frozen=True, slots=True)
class RowsFound:
    """The rows that answer a question, and the number of rows that were compared or counted (`read`).

    `extreme` and `column` say in which column the rows have the highest or lowest value. Both are empty for a count.
    """

    rows: tuple[Candidate, ...]
    read: int
    extreme: Extreme | Literal[""] = ""
    column: str = ""


class _Table:
    """The rows of one source that have the same column names."""

    def __init__(self, rows: Sequence[Candidate]) -> None:
        self.rows = rows
        self.columns = rows[0].sentence.columns
        self.names = [_split_words(name) for name in self.columns]

    def list_cells(self, column: int) -> list[str]:
        return [row.sentence.row[column] for row in self.rows]

    def count_matches(self, asked: Sequence[str]) -> int:
        """Return how many of these words the title, the heading or the column names have, or a cell that the question names.

        A word within the text of a cell says nothing about the rows: `Booked with the car` is a note on a child seat.
        """
        texts = (self.rows[0].source.title, self.rows[0].sentence.heading, *self.columns)
        known = {word for text in texts for word in _split_words(text)}
        known.update(word for cell in self._list_distinct_cells() if _is_cell_named(cell, asked) for word in cell)
        return sum(any(is_form(word, other) for other in known) for word in asked)

    def _list_distinct_cells(self) -> Iterable[tuple[str, ...]]:
        cells = set(itertools.chain.from_iterable(row.sentence.row for row in self.rows))
        return {_split_words(cell) for cell in cells}


class _Asked(NamedTuple):
    """The folded words of a question. `content` lacks function words, and words that compare, such as "most"."""

    words: Sequence[str]
    content: Sequence[str]

    @property
    def extreme(self) -> Extreme | None:
        return next((kind for kind in EXTREMES if not _load_list(kind).isdisjoint(self.words)), None)


def _read_asked(question: Question) -> _Asked:
    content = [word for word in _list_content(question) if not _is_comparing_word(word)]
    return _Asked(_fold_words(question.text), content)


def asks_about_rows(question: Question) -> bool:
    """Return whether a question asks for the most, the latest or a number of rows. A question with a "not" does not."""
    asked = _read_asked(question)
    counts = not _load_list("counting").isdisjoint(asked.words)
    return (counts or asked.extreme is not None) and not count_negators(asked.words)


def find_rows(question: Question, candidates: Sequence[Candidate]) -> RowsFound | None:
    """Return the rows that answer a question about the most, the latest or the number of rows; None if there is no answer.

    Only tables of whole documents are used, because a passage may lack some of the rows.
    """
    if not asks_about_rows(question):
        return None
    asked, tables = _read_asked(question), _list_tables(candidates)
    matches = [table.count_matches(asked.content) for table in tables]
    most = max(matches, default=0)
    if not most or 3 * most < len(asked.content):  # two thirds of the words are about something else
        return None
    nearest = [table for table, count in zip(tables, matches, strict=True) if count == most]
    found = [rows for table in nearest if (rows := _find_answering_rows(table, asked)) is not None]
    # A column that the question names comes before a column that is the only one of its table to be compared.
    found = [
        rows for rows in found if any(_is_asked(name, asked.content) for name in _split_words(rows.column))
    ] or found
    return found[0] if len(found) == 1 else None


def find_named_rows(question: Question, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the rows that the question names, if it asks for one of their columns and nothing else: `the rent of Porto`.

    A row is named by all words of a cell, and a column by all words of its name. Titles, headings and the names of other
    columns may be in the question too. Rows of two tables, or more than MAX_EQUAL rows, are no answer.
    """
    if count_negators(_fold_words(question.text)):
        return []
    content = tuple(word for word in _list_content(question) if word not in _load_list("counting"))
    rows = [one for one in candidates if one.sentence.row and _matches_whole_question(one, content)]
    tables = {(one.rank, one.sentence.columns) for one in rows}
    return rows if len(tables) == 1 and len(rows) <= MAX_EQUAL else []


def _matches_whole_question(row: Candidate, content: tuple[str, ...]) -> bool:
    """Return whether the words name a cell of the row and another column, and no word names anything else.

    The column of the cell is enough if it is not the first one: `Who is in the sales team?` asks for the rows.
    """
    cells = row.sentence.row
    asked = _find_named_columns(row.sentence.columns, content, in_full=True)
    naming = _find_named_cells(row, content) if asked else ()
    asks_for_rows = naming == asked and 0 not in naming
    if not naming or not (asks_for_rows or any(cells[at] for at in asked if at not in naming)):
        return False
    texts = (row.source.title, row.sentence.heading, *row.sentence.columns, *(cells[at] for at in naming))
    known = [word for text in texts for word in _split_words(text)]
    return all(_is_asked(word, known) for word in content)


def leave_out_other_rows(question: Question, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Leave out the rows that the question does not mean: it names a cell that only other rows of their table have.

    `Who drives AB 12 C?` does not ask about the car AB 12 D, though most of its words stand in that row too.
    """
    content = tuple(_list_content(question))
    by_table: dict[tuple[int, tuple[str, ...]], list[Candidate]] = {}
    for one in candidates:
        if one.sentence.row:
            by_table.setdefault((one.rank, one.sentence.columns), []).append(one)
    others: set[int] = set()
    for rows in by_table.values():
        counts = Counter(cell for row in rows for cell in set(row.sentence.row))
        named = [any(counts[row.sentence.row[at]] == 1 for at in _find_named_cells(row, content)) for row in rows]
        others |= {id(row) for row, is_named in zip(rows, named, strict=True) if any(named) and not is_named}
    return [one for one in candidates if id(one) not in others]


def pick_asked_cells(question: Question, row: Candidate) -> list[tuple[str, str]]:
    """Return the cells of a row for a model to read, each with the name of its column.

    A small model loses one cell among fifteen others: of a wide row it gets the first cell and those that the question names,
    by their column or by themselves. All are returned if the question names none.
    """
    cells = list(zip(row.sentence.columns, row.sentence.row, strict=True))
    if len(cells) < WIDE_FROM:
        return cells
    content = tuple(_list_content(question))
    named = {*_find_named_columns(row.sentence.columns, content), *_find_named_cells(row, content)} - {0}
    return [cells[at] for at in (0, *sorted(named))] if named else cells


@lru_cache(maxsize=KEPT)
def _find_named_columns(
    columns: tuple[str, ...], content: tuple[str, ...], *, in_full: bool = False
) -> tuple[int, ...]:
    """Return the columns with a word of their name among these words, or, `in_full`, with all words of it."""
    enough = all if in_full else any
    names = map(_split_words, columns)
    return tuple(at for at, name in enumerate(names) if name and enough(_is_asked(word, content) for word in name))


def _find_named_cells(row: Candidate, content: tuple[str, ...]) -> tuple[int, ...]:
    return tuple(at for at, cell in enumerate(row.sentence.row) if _is_named(cell, content))


@lru_cache(maxsize=KEPT)
def _is_named(cell: str, content: tuple[str, ...]) -> bool:
    return _is_cell_named(_split_words(cell), content)


def _list_content(question: Question) -> list[str]:
    stop_words = load_stop_words(question.language)
    return [word for word in _fold_words(question.text) if word not in stop_words]


def _find_answering_rows(table: _Table, asked: _Asked) -> RowsFound | None:
    named = [row for row in table.rows if _is_cell_named(_split_words(row.sentence.row[0]), asked.content)]
    if len(named) == 1:
        return None  # "last" may be a part of the name of a column, as in `the last service of Anna`
    rows = [row for row in _filter_rows(table, asked.content) if not named or row in named]
    if asked.extreme is not None:
        return _find_extreme(table, rows, asked, asked.extreme)
    # The question names a single row, and does not count it: "How many seats does Anna have?"
    is_count = 1 < len(rows) < len(table.rows) and len(rows) <= MAX_COUNTED
    return RowsFound(tuple(rows), len(table.rows)) if is_count else None


def _find_extreme(table: _Table, rows: Sequence[Candidate], asked: _Asked, extreme: Extreme) -> RowsFound | None:
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


def _choose_column(table: _Table, measures: Sequence[int], asked: _Asked, *, by_date: bool) -> int | None:
    """Return the column that the question is about: by its name, by a word such as "cheapest", or because it is the only one.

    `measures` are the columns that can be compared. A column whose whole name is in the question comes before a column with a
    part of its name there.
    """
    named = [at for at in measures if any(is_form(word, name) for word in asked.content for name in table.names[at])]
    named_in_full = [at for at in named if all(_is_asked(name, asked.words) for name in table.names[at])]
    for at in (named_in_full, named):
        if len(at) == 1:
            return at[0]
    hints = ["date_columns"] if by_date else []
    hints += [f"{kind}_columns" for kind in ("price", "duration") if not _load_list(f"{kind}s").isdisjoint(asked.words)]
    hinted = [at for at in named or measures for hint in hints if not _load_list(hint).isdisjoint(table.names[at])]
    if len(hinted) == 1:
        return hinted[0]
    return measures[0] if len(measures) == 1 and (by_date or not hints) and not named else None


def _filter_rows(table: _Table, content: Sequence[str]) -> list[Candidate]:
    """Return the rows that the question names: by all words of a cell, or by a column in which the cell says yes."""
    rows = list(table.rows)
    for column in range(1, len(table.columns)):
        cells = [_split_words(cell) for cell in table.list_cells(column)]
        named = [_is_cell_named(cell, content) for cell in cells]
        says_yes = [_load_list("yes").issuperset(cell) and bool(cell) for cell in cells]
        if any(says_yes) and any(_is_asked(word, content) for word in table.names[column]):
            named = says_yes
        if any(named):
            kept = {id(row) for row, is_named in zip(table.rows, named, strict=True) if is_named}
            rows = [row for row in rows if id(row) in kept]
    return rows


def _list_tables(candidates: Sequence[Candidate]) -> list[_Table]:
    by_table: dict[tuple[int, tuple[str, ...], str], list[Candidate]] = {}
    for candidate in candidates:
        row = candidate.sentence.row
        if row and candidate.source.is_whole and not _is_total(row):
            key = candidate.rank, candidate.sentence.columns, candidate.sentence.heading
            by_table.setdefault(key, []).append(candidate)
    return [
        _Table(rows)
        for rows in by_table.values()
        if len(rows) >= MIN_ROWS and all(row.sentence.has_all_rows for row in rows)
    ]


def _is_total(row: Sequence[str]) -> bool:
    name = next(filter(None, row), "")
    return not _load_list("totals").isdisjoint(_split_words(name))


@cache
def _load_list(kind: str) -> frozenset[str]:
    return frozenset(map(fold, load_words("table_questions", kind)))


def _is_comparing_word(word: str) -> bool:
    kinds = (*EXTREMES, "counting", "prices", "durations")
    return any(word in _load_list(kind) for kind in kinds)


def _is_cell_named(cell: Sequence[str], content: Sequence[str]) -> bool:
    """Return whether the question has all words of a cell. A number alone names nothing."""
    return any(not word.isdigit() for word in cell) and all(_is_asked(word, content) for word in cell)


def _is_asked(word: str, content: Sequence[str]) -> bool:
    return any(is_form(word, other) for other in content)


def is_form(one: str, other: str) -> bool:
    return one == other or (one.isalpha() and other.isalpha() and has_same_stem(one, other))


@lru_cache(maxsize=KEPT)
def _split_words(text: str) -> tuple[str, ...]:
    return tuple(_fold_words(text.replace("_", " ")))


def _fold_words(text: str) -> list[str]:
    return [fold(word) for word in split_words(text)]
