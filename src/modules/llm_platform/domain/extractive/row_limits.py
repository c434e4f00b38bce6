"""Find the rows whose value is within a limit that the question states: `Which rooms seat more than 20?`

The answer has all rows within the limit, and the number of rows of the table. There is no answer if the column is uncertain.
"""

from collections.abc import Sequence
from typing import NamedTuple

from modules.llm_platform.domain.extractive.candidates import Candidate
from modules.llm_platform.domain.extractive.compared_columns import (
    Columns,
    has_better_column,
    holds_measure,
    list_nearest_columns,
)
from modules.llm_platform.domain.extractive.limits import Limit, read_limits
from modules.llm_platform.domain.extractive.measures import AGE, get_measure, is_measuring_word, list_asked_measures
from modules.llm_platform.domain.extractive.quantities import AGE_UNIT, YEARS
from modules.llm_platform.domain.extractive.question import Question, read_question
from modules.llm_platform.domain.extractive.table_values import Column
from modules.llm_platform.domain.extractive.table_words import (
    fold_words,
    list_content_words,
    load_row_question_words,
    load_word_list,
    matches_any_word,
)
from modules.llm_platform.domain.extractive.tables import (
    MAX_COUNTED,
    RowsFound,
    Table,
    filter_rows,
    find_rows_by_name,
    keep_nearest_tables,
    may_name_rows,
)
from modules.llm_platform.domain.text.negation import count_negators


class LimitQuestion(NamedTuple):
    """A limit. `words` are the folded words of the question outside the limit, and `content` the content words among them."""

    limit: Limit
    words: Sequence[str]
    content: Sequence[str]


def asks_for_limited_rows(question: Question) -> bool:
    """Return whether a question asks which rows are within a limit, or how many."""
    return bool(_list_limit_questions(question))


def find_limited_rows(question: Question, tables: Sequence[Table], candidates: Sequence[Candidate]) -> RowsFound | None:
    """Return the rows of a whole table that are within the limit of the question; None if it is not certain which are meant.

    `tables` have all their rows, and `candidates` are the sentences of all sources.
    """
    for asked in _list_limit_questions(question):
        if read_limits(asked.limit.rest):
            return None  # `over 14 kg and under £1000`
        nearest = keep_nearest_tables(tables, asked.content)
        about = [table for table in nearest if may_name_rows(asked.content, table, candidates)]
        found = [rows for table in about if (rows := _find_rows_within(table, asked)) is not None]
        if found:
            return found[0] if len(found) == 1 else None
    return None


def _list_limit_questions(question: Question) -> list[LimitQuestion]:
    words = fold_words(question.text)
    if not words or not asks_for_rows_or_count(words):
        return []
    readings = (read_limit_question(limit, question.language) for limit in read_limits(question.text))
    return [asked for asked in readings if not count_negators(asked.words)]  # `no more than` is a part of the limit


def asks_for_rows_or_count(words: Sequence[str]) -> bool:
    counts = not load_word_list("counting").isdisjoint(words)
    asks_else = not load_word_list("asking_about_one").isdisjoint(words)
    asks_else = asks_else and load_word_list("next").isdisjoint(words)  # `When is the next rehearsal after 14 March?`
    is_yes_or_no = words[0] in load_word_list("yes_or_no") and load_word_list("fillers").isdisjoint(words)
    return counts or not (asks_else or is_yes_or_no)


def read_limit_question(limit: Limit, language: str) -> LimitQuestion:
    left_out = load_row_question_words() | load_word_list("next")
    words = fold_words(limit.rest)
    content = [word for word in list_content_words(read_question(limit.rest, language)) if word not in left_out]
    return LimitQuestion(limit, words, [word for word in content if not is_measuring_word(word)])


def _find_rows_within(table: Table, asked: LimitQuestion) -> RowsFound | None:
    if len(find_rows_by_name(table, asked.content)) == 1:
        return None  # the question is about this row
    columns = read_columns(table, asked.limit)
    column = choose_column(table, columns, asked)
    if column is None:
        return None
    indices = filter_rows(
        table, [word for word in asked.content if not matches_any_word(word, table.column_words[column])]
    )
    within = filter_rows_within(columns[column], asked.limit)
    kept = tuple(index for index in indices if index in within)
    if kept and _asks_for_next(asked):
        kept = _keep_first(columns[column], kept)
    return RowsFound(table, kept, len(table.rows)) if 0 < len(kept) <= MAX_COUNTED else None


def _asks_for_next(asked: LimitQuestion) -> bool:
    """Return whether only the first row after a day is asked for: `the next rehearsal after 14 March`."""
    limit = asked.limit
    return limit.unit is None and limit.high is None and not load_word_list("next").isdisjoint(asked.words)


def _keep_first(column: Column, indices: Sequence[int]) -> tuple[int, ...]:
    values = {index: value for index in indices if (value := column.values[index]) is not None}
    return tuple(index for index, value in values.items() if value == min(values.values()))


def read_columns(table: Table, limit: Limit) -> Columns:
    """Return the columns that can be compared with the limit: with dates, or with quantities in its unit."""
    if limit.unit is None:
        return {
            index: column
            for index, column in table.dates.items()
            if _align_years(column, limit) is not None and not column.has_long_periods
        }
    return {
        index: column
        for index, column in table.quantities.items()
        if index and (not limit.unit or has_unit(column, limit.unit))
    }


def has_unit(column: Column, unit: str) -> bool:
    """Return whether a column has a unit. Ages in years need no unit in the table."""
    return column.unit == unit or (unit == AGE_UNIT and not column.unit)


def _align_years(column: Column, limit: Limit) -> Sequence[float | None] | None:
    """Return the values as they compare with the limit: without the year if the limit has none and all values share one.

    Return None if they cannot be compared.
    """
    known = [value for value in column.values if value is not None]
    if limit.has_year:
        return column.values if known[0] >= YEARS else None
    years = {value // YEARS for value in known}
    return [None if value is None else value % YEARS for value in column.values] if len(years) == 1 else None


def filter_rows_within(column: Column, limit: Limit) -> set[int]:
    """Return the indices of the rows whose value in the column is within the limit."""
    values = column.values if limit.unit is not None else _align_years(column, limit) or ()
    return {index for index, value in enumerate(values) if value is not None and limit.contains(value)}


def _splits_rows(column: Column, limit: Limit) -> bool:
    """Return whether some rows are within the limit and some beyond it."""
    known = sum(value is not None for value in column.values)
    return 0 < len(filter_rows_within(column, limit)) < known


def choose_column(
    table: Table, columns: Columns, asked: LimitQuestion, *, is_of_person: bool = False, must_divide: bool = True
) -> int | None:
    """Return the column that the limit is about; None if it is uncertain.

    - The column is named in the question, or holds what the question measures.
    - A number without a unit that is about persons, or about all rows, is an age: `Who is under 18?`
    - A unit or a date alone decides if only one column has it. With `must_divide`, some rows of that column must be within the
      limit and some beyond it, because a question seldom asks for all rows or for none.
    """
    limit, sought = asked.limit, list_asked_measures(asked.words, asked.limit.noun)
    if limit.measure is not None:
        columns = {
            index: column
            for index, column in columns.items()
            if holds_measure(limit.measure, table.columns[index], column)
        }
    named = [word for word in asked.content if not table.is_in_title(word)]
    is_of_person = is_of_person or bool(asked.content) or not load_word_list("persons").isdisjoint(asked.words)
    if not sought and not named and not limit.unit and is_of_person:
        sought = [get_measure(AGE)]
    left, has_hint = list_nearest_columns(table.columns, columns, asked.words, sought)
    if len(left) > 1 or (must_divide and not has_hint):
        left = [column for column in left if _splits_rows(columns[column], limit)]
    is_certain = has_hint or limit.unit != "" or limit.measure is not None
    if len(left) != 1 or not is_certain or has_better_column(table, left[0], asked.words, sought):
        return None
    return left[0]
