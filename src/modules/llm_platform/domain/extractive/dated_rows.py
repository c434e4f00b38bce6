"""Find the table rows and diary entries for the day or the month of a question: `Who opens the café on 4 June?`

The answer has all rows of that day. If some of these rows have other words of the question too, it has the rows with the most
of these words. Only the document with the most words of the question can answer. If that document lacks the day, rows of the day
in other documents are about something else.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final, NamedTuple

from modules.llm_platform.domain.extractive.candidates import Candidate
from modules.llm_platform.domain.extractive.entries import keep_entries
from modules.llm_platform.domain.extractive.limits import read_limits
from modules.llm_platform.domain.extractive.quantities import YEARS, DateRange, find_date, find_question_date
from modules.llm_platform.domain.extractive.question import Question, read_question
from modules.llm_platform.domain.extractive.superlatives import find_superlative
from modules.llm_platform.domain.extractive.table_text import find_tables
from modules.llm_platform.domain.extractive.table_values import MONTH, Column, is_long_period
from modules.llm_platform.domain.extractive.table_words import (
    add_word_parts,
    fold_words,
    load_row_question_words,
    load_word_list,
    matches_any_word,
    matches_word,
    split_cell,
)
from modules.llm_platform.domain.extractive.tables import MAX_COUNTED, RowsFound, Table, group_rows
from modules.llm_platform.domain.text.language import DEFAULT_LANGUAGE
from modules.llm_platform.domain.text.negation import count_negators
from modules.llm_platform.domain.text.numbers import ALSO_VERBS, load_date_words

MIN_KNOWN: Final = 0.5  # the document must have this share of the question's words, without the day
MAX_ENTRY_SENTENCES: Final = 6
WHOLE_YEAR: Final = YEARS - 1  # difference between the numbers of the first and the last day of a year


class DateQuestion(NamedTuple):
    """A question about a day or a month: the date, and the other words that name something."""

    day: DateRange
    words: Sequence[str]


class _DatedRows(NamedTuple):
    """The rows of a table for the day of a question.

    - `fit` ranks tables: by the number of the question's words in the rows and column names, then by whether the rows have the
      day itself instead of a longer period.
    - `names_others` is True if a word of the question names rows of other days.
    """

    table: Table
    row_indices: Sequence[int]
    fit: tuple[int, bool]
    names_others: bool


def asks_for_dated_rows(question: Question) -> bool:
    """Return whether a question states one day or month, without a limit such as "before", a superlative or a "not"."""
    return read_date_question(question) is not None


def find_dated_rows(question: Question, tables: Sequence[Table], candidates: Sequence[Candidate]) -> RowsFound | None:
    """Return the rows of a whole table that have the day of the question; None if it is not certain which are meant.

    `tables` have all their rows, and `candidates` are the sentences of all sources.
    """
    asked = read_date_question(question)
    if asked is None:
        return None
    if (counted := _find_counted_rows(question, asked.day, tables)) is not None:
        return counted
    known = _list_known_words(asked.words, candidates)
    most = max(map(len, known.values()), default=0)
    if most < max(1.0, MIN_KNOWN * len(asked.words)):
        return None
    nearest = [table for table in tables if len(known[table.source]) == most]
    found = [rows for table in nearest if (rows := _find_rows_of_day(table, asked)) is not None]
    best = [one for one in found if one.fit == max(other.fit for other in found)]
    if len(best) != 1 or best[0].names_others:
        return None
    table, indices, *_ = best[0]
    return RowsFound(table, tuple(indices), len(table.rows)) if len(indices) <= MAX_COUNTED else None


def _find_counted_rows(question: Question, day: DateRange, tables: Sequence[Table]) -> RowsFound | None:
    """Return the rows of a day or month if a question counts the rows of one table: `How many orders came in in May?`

    The title of the table, or the name of its first column, has the word after "how many".
    """
    words, counting = fold_words(question.text), load_word_list("counting")
    nouns = [two for one, two in itertools.pairwise(words) if one in counting]
    counted = [
        table
        for table in tables
        if nouns and (table.is_in_title(nouns[0]) or matches_any_word(nouns[0], table.column_words[0]))
    ]
    indices = list_rows_of_day(counted[0], day)[0] if len(counted) == 1 else []
    return RowsFound(counted[0], tuple(indices), len(counted[0].rows)) if 0 < len(indices) <= MAX_COUNTED else None


def remove_other_days(question: Question, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the candidates without the rows and diary entries of other days, even if a table or a diary then has none left."""
    asked = read_date_question(question)
    if asked is None:
        return list(candidates)
    others: set[int] = set()
    for rows in group_rows(candidates):
        table = Table(rows[0].sentence.columns, [row.sentence.row for row in rows])
        others |= {id(rows[index]) for index in _list_other_days(table, asked.day)}
    for entries in _group_entries(candidates):
        others |= {id(one) for one in entries if not _is_of_day(one.sentence.entry, asked.day)}
    return [one for one in candidates if id(one) not in others]


def find_dated_entry(question: Question, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the sentences of the diary entry that has the day of the question, at most MAX_ENTRY_SENTENCES.

    The list is empty if it is uncertain which entry is meant. `candidates` are the sentences of all sources.
    """
    asked = read_date_question(question)
    if asked is None or asked.day.first != asked.day.last:
        return []
    words = [word for word in asked.words if word not in load_word_list("of_diaries")]
    known = _list_known_words(words, candidates)
    most = max(map(len, known.values()), default=0)
    if most < MIN_KNOWN * len(words):
        return []
    entries = [
        [one for one in group if _is_of_day(one.sentence.entry, asked.day)] for group in _group_entries(candidates)
    ]
    found = [entry for entry in entries if entry and len(known[entry[0].source.index]) == most]
    if len(found) != 1 or len({one.sentence.entry for one in found[0]}) != 1:
        return []
    return found[0][:MAX_ENTRY_SENTENCES]


def _group_entries(candidates: Sequence[Candidate]) -> list[list[Candidate]]:
    """Return one list for each diary, with the sentences of its entries."""
    by_source: dict[int, list[Candidate]] = {}
    for one in candidates:
        if one.sentence.entry:
            by_source.setdefault(one.source_rank, []).append(one)
    return list(by_source.values())


def _is_of_day(date: str, day: DateRange) -> bool:
    """Return whether the date of an entry is the day, or in the month. A date that cannot be read is neither."""
    try:
        written = find_date(date.casefold())
    except ValueError:
        return False
    return written is not None and _overlaps(written.first, written.last, day)


def cut_other_days(question: Question, text: str, title: str) -> str:
    """Return a text without the table rows and diary entries that `remove_other_days` removes."""
    asked = read_date_question(question)
    if asked is None:
        return text
    spans = (one.spans[index] for one in find_tables(text, title) for index in _list_other_days(one.table, asked.day))
    for start, end in sorted(spans, reverse=True):
        text = text[:start] + text[end + 1 :]
    return keep_entries(text, lambda date: _is_of_day(date, asked.day))


def _list_other_days(table: Table, day: DateRange) -> list[int]:
    """Return the indices of the rows of other days; none if it is not certain which column has the day."""
    indices, column = list_rows_of_day(table, day)
    if column is None and not _lacks_day(table, day):
        return []
    return sorted(set(range(len(table.rows))).difference(indices))


def _lacks_day(table: Table, day: DateRange) -> bool:
    """Return whether all rows are about other days: one day is asked for, and the first column has days or short ranges."""
    column = table.dates.get(0)
    if column is None or day.first != day.last:
        return False
    periods = zip(column.values, column.ends, strict=True)
    return all(first is None or last is None or last - first < MONTH for first, last in periods)


def list_rows_of_day(table: Table, day: DateRange) -> tuple[list[int], Column | None]:
    """Return the indices of the rows with this day, or with a day of this month, and the column that has it.

    The result is `([], None)` if no column or more than one column has the day.
    """
    by_column = {
        index: [
            row_index
            for row_index, period in enumerate(zip(column.values, column.ends, strict=True))
            if _overlaps(*period, day)
        ]
        for index, column in table.dates.items()
    }
    found = [index for index, row_indices in by_column.items() if row_indices]
    return (by_column[found[0]], table.dates[found[0]]) if len(found) == 1 else ([], None)


def read_date_question(question: Question) -> DateQuestion | None:
    """Return the day or month of a question and its other words; None without one, or if the question compares or denies."""
    text = question.text.casefold()
    folded = fold_words(text)
    day = find_question_date(text, month_first=question.language == DEFAULT_LANGUAGE)
    if day is None or day.last - day.first >= WHOLE_YEAR or _is_verb(text, day, question.text):
        return None
    if read_limits(text) or find_superlative(folded) < len(folded) or count_negators(folded):
        return None
    left_out = load_row_question_words() | load_date_words().keys()
    rest = read_question(f"{text[: day.start]} {text[day.end :]}", question.language)
    return DateQuestion(day, [term.word for term in rest.terms if term.word not in left_out])


def _is_verb(text: str, day: DateRange, written: str) -> bool:
    """Return whether the date of a case-folded question is the verb "may" or "march": without a capital, and not after "in"."""
    stated = text[day.start : day.end]
    return stated in ALSO_VERBS and stated.capitalize() not in written and not text[: day.start].endswith(" in ")


def _list_known_words(words: Sequence[str], candidates: Sequence[Candidate]) -> dict[int, set[str]]:
    """Return which of these words each source has, also in its title, its headings and the name of its file."""
    known: dict[int, set[str]] = {}
    for one in candidates:
        if one.source.index not in known:
            address = add_word_parts(split_cell(one.source.url))
            known[one.source.index] = {word for word in words if matches_any_word(word, address)}
        known[one.source.index].update(one.question.terms[number].word for number in one.credits)
    return {source: found.intersection(words) for source, found in known.items()}


def _find_rows_of_day(table: Table, asked: DateQuestion) -> _DatedRows | None:
    indices, column = list_rows_of_day(table, asked.day)
    if column is None:
        return None
    of_rows = [[word for word in asked.words if _has_cell(table, index, word)] for index in indices]
    known = {word for words in of_rows for word in words}
    known.update(word for word in asked.words if table.is_in_columns(word))
    others = [word for word in asked.words if word not in known and not table.is_in_title(word)]
    kept = [index for index, words in zip(indices, of_rows, strict=True) if len(words) == max(map(len, of_rows))]
    is_exact = all(column.values[index] == column.ends[index] for index in kept)
    is_of_season = any(is_long_period(column.values[index], column.ends[index]) for index in kept)
    if is_of_season and not known and not any(map(table.is_in_title, asked.words)):
        return None  # the seasons of opening hours have every day of the year
    return _DatedRows(table, kept, (len(known), is_exact), any(_begins_cell(table, word) for word in others))


def _overlaps(first: float | None, last: float | None, day: DateRange) -> bool:
    """Return whether two periods overlap. Years only count if both have one."""
    if first is None or last is None:
        return False
    if first >= YEARS <= day.first:
        return first <= day.last and day.first <= last
    goes_over = last // YEARS > first // YEARS  # `19 Dec – 2 Jan`
    first, last, asked_first, asked_last = (value % YEARS for value in (first, last, day.first, day.last))
    starts, ends = first <= asked_last, asked_first <= last
    return starts or ends if goes_over or first > last else starts and ends


def _has_cell(table: Table, index: int, word: str) -> bool:
    """Return whether a cell of a row has a word, or is its beginning before the name of the column: `Spät` of a `Schicht`."""
    return any(
        matches_any_word(word, cell) or word == "".join(cell + name)
        for name, cell in zip(table.column_words, map(split_cell, table.rows[index]), strict=True)
    )


def _begins_cell(table: Table, word: str) -> bool:
    return any(matches_word(word, cell[0]) for row in table.rows for cell in map(split_cell, row) if cell)
