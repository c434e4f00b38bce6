"""Answer a question about the rows of one table: which row has the most, which is the latest, or how many there are.

The answer quotes the rows, so that a reader can see that it is true. If the column or the rows are not certain, there is no
answer.
"""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from modules.llm_platform.domain.extractive.candidates import Candidate
from modules.llm_platform.domain.extractive.compared_columns import Columns, list_nearest_columns, measures
from modules.llm_platform.domain.extractive.measures import (
    BEGINNING,
    DATE,
    OPPOSITE,
    SIZE,
    Direction,
    Measure,
    get_measure,
    is_measuring_word,
    is_superlative,
    list_asked_measures,
    list_comparisons,
)
from modules.llm_platform.domain.extractive.question import Question
from modules.llm_platform.domain.extractive.table_values import Column, read_dates, read_quantities
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
from modules.llm_platform.domain.text.numbers import load_number_words

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


class _Extreme(NamedTuple):
    """The most or the least of something: of dates, of a measure, or of a column that the question names.

    `needs_name` is True if only a column is meant that the question names: `the largest quantity`.
    """

    kind: Extreme
    measure: Measure | None = None
    needs_name: bool = False

    @property
    def is_of_dates(self) -> bool:
        return self.kind in ("latest", "earliest")


class _Asked(NamedTuple):
    """The folded words of a question. `content` lacks function words, and words that compare, such as "most".

    `extremes` are the readings of a question about the most or the least, `places` is how many rows it asks for, and
    `described` are the words that name something else than the rows.
    """

    words: Sequence[str]
    content: Sequence[str]
    extremes: Sequence[_Extreme]
    places: int
    described: Sequence[str]


def _read_asked(question: Question) -> _Asked:
    words = fold_words(question.text)
    left_out = load_word_list("fillers") | load_word_list("choosing")
    content = [word for word in list_content(question) if not _is_comparing_word(word) and word not in left_out]
    at = next((at for at, word in enumerate(words) if is_superlative(word) or _list_named(word)), len(words))
    extremes = _list_extremes(words[at:])
    return _Asked(words, content, extremes, _read_places(words), _list_described(words, content, at))


def _list_described(words: Sequence[str], content: Sequence[str], at: int) -> list[str]:
    """Return the content words without those after "which" and "per", and without a clause after the superlative."""
    asking, before_others = load_word_list("asking"), load_word_list("choosing") | load_word_list("per")
    end = next((end for end in range(at, len(words)) if words[end] in asking), len(words))
    others = {two for one, two in itertools.pairwise(words) if one in before_others}
    return [word for word in words[:end] if word in content and word not in others]


def _list_extremes(words: Sequence[str]) -> list[_Extreme]:
    """Return what the superlative in front may mean: `oldest` is the most of an age, or the earliest date."""
    if not words:
        return []
    named = _list_named(words[0])
    if is_superlative(words[0]):
        compared = list_comparisons(words[0])
        of_size = [one.direction for one in compared if one.measure.name == SIZE]  # `the largest quantity`
        by_name = [_Extreme("highest" if direction == "more" else "lowest", needs_name=True) for direction in of_size]
        return [*(_get_extreme(one.measure, one.direction) for one in compared), *named, *by_name]
    compared = list_comparisons(words[1]) if len(words) > 1 else ()  # `least expensive`, `la plus chère`
    is_more = named[0].kind == "highest"
    return [
        _get_extreme(one.measure, one.direction if is_more else OPPOSITE[one.direction]) for one in compared
    ] or named


def _list_named(word: str) -> list[_Extreme]:
    return [_Extreme(kind) for kind in EXTREMES if word in load_word_list(kind)]


def _get_extreme(measure: Measure, direction: Direction) -> _Extreme:
    if measure.name == BEGINNING:
        return _Extreme("latest" if direction == "more" else "earliest", measure)
    return _Extreme("highest" if direction == "more" else "lowest", measure)


def _read_places(words: Sequence[str]) -> int:
    """Return how many rows are asked for: 3 in `the three cheapest`, and 0 in `the second cheapest`, which has no answer."""
    if not load_word_list("ordinals").isdisjoint(words):
        return 0
    numbers = load_number_words()
    before = [one for one, two in itertools.pairwise(words) if is_superlative(two) or _list_named(two) or one == "top"]
    after = [two for one, two in itertools.pairwise(words) if one == "top"]
    known = [int(numbers.get(word, word)) for word in (*before, *after) if numbers.get(word, word).isdigit()]
    return known[0] if known and 1 <= known[0] <= MAX_EQUAL else 1


def asks_about_rows(question: Question) -> bool:
    """Return whether a question asks for the most, the latest or a number of rows. A question with a "not" does not."""
    asked = _read_asked(question)
    counts = not load_word_list("counting").isdisjoint(asked.words)
    return (counts or bool(asked.extremes)) and not count_negators(asked.words)


def find_rows(question: Question, candidates: Sequence[Candidate]) -> RowsFound | None:
    """Return the rows that answer a question about the most, the latest or the number of rows; None if there is no answer.

    Only tables of whole documents are used, because a passage may lack some of the rows.
    """
    if not asks_about_rows(question):
        return None
    asked, tables = _read_asked(question), list_tables(candidates)
    matches = [table.count_matches(asked.content) for table in tables]
    nearest = [table for table, count in zip(tables, matches, strict=True) if count == max(matches)]
    nearest = [table for table in nearest if _is_about(asked, table, candidates)]
    found = [rows for table in nearest if (rows := _find_answering_rows(table, asked)) is not None]
    # A column that the question names comes before a column that is the only one of its table to be compared.
    found = [rows for rows in found if any(is_asked(name, asked.content) for name in split_cell(rows.column))] or found
    return found[0] if len(found) == 1 else None


def _is_about(asked: _Asked, table: Table, candidates: Sequence[Candidate]) -> bool:
    """Return whether a question is about a table, which has a third of its words.

    A superlative such as "cheapest" says what is compared. Then the table needs all words that it describes, and only the words
    for the rows may be others: `Which outing is the cheapest?`
    """
    is_measured = bool(list_asked_measures(asked.words)) or any(one.measure is not None for one in asked.extremes)
    if asked.extremes and is_measured:
        is_described = table.count_matches(asked.described) == len(asked.described)
        return is_described and may_name_rows(asked.content, table, candidates)
    known = table.count_matches(asked.content)
    return known > 0 and 3 * known >= len(asked.content)


def may_name_rows(words: Sequence[str], table: Table, candidates: Sequence[Candidate]) -> bool:
    """Return whether the words that the table lacks may be other words for its rows: no cell and no other source has them."""
    unknown = [word for word in words if not table.count_matches([word])]
    others = (one for one in candidates if one.sentence.row or one.rank != table.rows[0].rank)
    return not any(one.question.terms[number].word in unknown for one in others for number in one.own_credits)


def _find_answering_rows(table: Table, asked: _Asked) -> RowsFound | None:
    named = [row for row in table.rows if is_cell_named(split_cell(row.sentence.row[0]), asked.content)]
    if len(named) == 1:
        return None  # "last" may be a part of the name of a column, as in `the last service of Anna`
    rows = [row for row in filter_rows(table, asked.content) if not named or row in named]
    if asked.extremes:
        return _find_extreme(table, rows, asked)
    # The question names a single row, and does not count it: "How many seats does Anna have?"
    is_count = 1 < len(rows) < len(table.rows) and len(rows) <= MAX_COUNTED
    return RowsFound(tuple(rows), len(table.rows)) if is_count else None


def _find_extreme(table: Table, rows: Sequence[Candidate], asked: _Asked) -> RowsFound | None:
    """Return the rows with the most or the least. If the readings of the superlative give several answers, there is none.

    An age comes before a date: the oldest member is not the one who joined first.
    """
    found = [one for extreme in asked.extremes if (one := _find_reading(table, rows, asked, extreme)) is not None]
    of_numbers = [one for one in found if one.extreme in ("highest", "lowest")]
    agree = len({tuple(map(id, one.rows)) for one in of_numbers or found}) == 1
    return (of_numbers or found)[0] if agree else None


def _find_reading(table: Table, rows: Sequence[Candidate], asked: _Asked, extreme: _Extreme) -> RowsFound | None:
    columns = _read_columns(table, extreme)
    column = _choose_column(table, columns, asked, extreme)
    if column is None:
        return None
    kept = set(map(id, rows))
    known = [
        (value, row)
        for value, row in zip(columns[column].values, table.rows, strict=True)
        if value is not None and id(row) in kept
    ]
    values = sorted({value for value, _ in known}, reverse=extreme.kind in ("highest", "latest"))[: asked.places]
    found = tuple(row for value, row in known if value in values)
    if not found or len(found) > max(MAX_EQUAL, asked.places):
        return None
    return RowsFound(found, len(rows), extreme.kind, table.columns[column])


def _read_columns(table: Table, extreme: _Extreme) -> dict[int, Column]:
    numbers = range(1, len(table.columns))
    if extreme.is_of_dates:
        read = {at: read_dates(table.list_cells(at)) for at in numbers}
    else:
        read = {at: read_quantities(table.columns[at], table.list_cells(at)) for at in numbers}
    return {at: column for at, column in read.items() if column is not None}


def _choose_column(table: Table, columns: Columns, asked: _Asked, extreme: _Extreme) -> int | None:
    """Return the column that the question is about: by its name, by a word such as "cheapest", or because it is the only one."""
    sought = list_asked_measures(asked.words)
    if extreme.measure is not None and not extreme.is_of_dates:
        columns = {at: one for at, one in columns.items() if measures(extreme.measure, table.columns[at], one)}
    if extreme.is_of_dates:
        sought = [extreme.measure or get_measure(DATE)]
    left, is_said = list_nearest_columns(table.columns, columns, asked.words, sought)
    if len(left) > 1 and extreme.measure is not None:
        left, is_said = list_nearest_columns(
            table.columns, {at: columns[at] for at in left}, asked.words, [extreme.measure]
        )
    if extreme.needs_name:
        return left[0] if len(left) == 1 and is_said else None
    is_certain = is_said or extreme.measure is not None or extreme.is_of_dates or not sought
    return left[0] if len(left) == 1 and is_certain else None


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
    return is_measuring_word(word) or any(word in load_word_list(kind) for kind in (*EXTREMES, "counting"))
