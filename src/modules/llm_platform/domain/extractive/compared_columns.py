"""Choose the column of a table that a question compares, by its name, its unit, or what the question measures."""

import itertools
import re
from collections import Counter
from collections.abc import Mapping, Sequence

from modules.llm_platform.domain.extractive.measures import DURATION, Measure
from modules.llm_platform.domain.extractive.table_values import Column
from modules.llm_platform.domain.extractive.table_words import load_word_list, matches_any_word, split_cell
from modules.llm_platform.domain.extractive.tables import Table
from modules.llm_platform.domain.text.stemming import is_related

_YEAR = re.compile(r"(?:19|20)\d\d")

Columns = Mapping[int, Column]
"""The columns of a table that can be compared, by their index."""


def list_nearest_columns(
    names: Sequence[str], columns: Columns, words: Sequence[str], sought: Sequence[Measure]
) -> tuple[list[int], bool]:
    """Return the indices of the columns that fit a question best, and whether the question points to them at all.

    The columns are narrowed in five steps: the whole name is in the question, a part of the name is, a word is that only this
    name has (`day` of `Price per day` and `Price per week`), the name has a word for a `sought` measure, the name or the unit
    holds such a measure. A step that would leave no column is skipped. *This year* means the latter of `Price 2024` and `2025`.
    """
    left, has_hint = list(columns), False
    split = {column: split_cell(names[column]) for column in columns}
    named = [
        column
        for column in columns
        if any(matches_any_word(word, words) or is_related(word, words) for word in split[column])
    ]
    in_full = [column for column in named if all(matches_any_word(word, words) for word in split[column])]
    used = Counter(word for column in named for word in set(split[column]))
    of_own = [
        column for column in named if any(used[word] == 1 and matches_any_word(word, words) for word in split[column])
    ]
    of_name = [column for column in columns if any(not one.heads.isdisjoint(split[column]) for one in sought)]
    measured = [
        column for column in columns if any(holds_measure(one, names[column], columns[column]) for one in sought)
    ]
    for nearer in (in_full, named, of_own, of_name, measured):
        if kept := [column for column in left if column in nearer]:
            left, has_hint = kept, True
    return _keep_latest_year(left, split, words), has_hint


def asks_for_now(words: Sequence[str]) -> bool:
    """Return whether a question is about the present: `this year`, `now`."""
    this, year = load_word_list("this"), load_word_list("year")
    return not load_word_list("now").isdisjoint(words) or any(
        one in this and two in year for one, two in itertools.pairwise(words)
    )


def _keep_latest_year(columns: Sequence[int], names: Mapping[int, Sequence[str]], words: Sequence[str]) -> list[int]:
    """Return the column of the latest year if the names differ in the year alone, and the question is about this year or now."""
    years = {column: [word for word in names[column] if _YEAR.fullmatch(word)] for column in columns}
    others = {tuple(word for word in names[column] if word not in years[column]) for column in columns}
    is_of_years = len(others) == 1 and all(len(found) == 1 for found in years.values())
    if len(columns) < 2 or not is_of_years or not asks_for_now(words):
        return list(columns)
    return [max(columns, key=years.__getitem__)]


def filter_columns_by_measure(
    names: Sequence[str], columns: Columns, measure: Measure, words: Sequence[str]
) -> Columns:
    """Return the columns that hold the measure; otherwise the columns that the question names and whose unit can express it."""
    measuring = {index: column for index, column in columns.items() if holds_measure(measure, names[index], column)}
    possible = {index: column for index, column in columns.items() if column.unit in measure.units_if_named}
    return measuring or {
        index: column
        for index, column in possible.items()
        if any(matches_any_word(word, words) for word in split_cell(names[index]))
    }


def is_time_of_day(name: str) -> bool:
    """Return whether a column of minutes or clock times has times of the day: `Start`, `Opens at`."""
    return not load_word_list("clock").isdisjoint(split_cell(name))


def has_better_column(table: Table, chosen: int, words: Sequence[str], sought: Sequence[Measure]) -> bool:
    """Return whether the question is about a column whose cells cannot be compared, and not about the `chosen` one.

    It is about a column if a word of the column's name is among `words`, or stands for a `sought` measure. A column that cannot
    be compared is `Warranty` with `2 years` and `18 months`.
    """

    def is_meant(column: int) -> bool:
        name = table.column_words[column]
        return any(matches_any_word(word, words) for word in name) or any(
            not one.heads.isdisjoint(name) for one in sought
        )

    return not is_meant(chosen) and any(map(is_meant, table.unreadable))


def holds_measure(measure: Measure, name: str, column: Column) -> bool:
    """Return whether a column holds a measure, by its name or its unit. A time of day is not a duration."""
    if measure.name == DURATION and is_time_of_day(name):
        return False
    return not measure.heads.isdisjoint(split_cell(name)) or column.unit in measure.units
