"""Add the values of a column: `What is the total revenue of Lyon?`, `How many visitors did we have on average in May?`

The answer quotes all rows whose values were added, so that a reader can check it. There is none if a word of the question is
unknown to the table, because it may name rows that the table lacks.
"""

import itertools
import math
import re
from collections.abc import Sequence
from decimal import Decimal
from statistics import fmean
from typing import Final, NamedTuple

from modules.llm_platform.domain.extractive.candidates import Candidate
from modules.llm_platform.domain.extractive.compared_columns import list_nearest_columns
from modules.llm_platform.domain.extractive.dated_rows import DateQuestion, list_rows_of_day, read_date_question
from modules.llm_platform.domain.extractive.measures import is_measuring_word, list_asked_measures
from modules.llm_platform.domain.extractive.quantities import NUMBER, find_decimal_sign, is_clock
from modules.llm_platform.domain.extractive.question import Question
from modules.llm_platform.domain.extractive.superlatives import find_superlative
from modules.llm_platform.domain.extractive.table_values import CURRENCIES
from modules.llm_platform.domain.extractive.table_words import (
    fold_words,
    list_content_words,
    load_word_list,
    matches_any_word,
)
from modules.llm_platform.domain.extractive.tables import (
    MAX_COUNTED,
    MIN_ROWS,
    RowsFound,
    SumKind,
    Table,
    filter_rows,
    find_rows_by_name,
    is_total,
    keep_nearest_tables,
)
from modules.llm_platform.domain.text.negation import count_negators
from modules.llm_platform.domain.text.numbers import PERCENT

SUM_KINDS: Final[tuple[SumKind, ...]] = ("average", "total")
IGNORED_WORD_LISTS: Final = (
    "fillers",
    "choosing",
    "counting",
    "sum_fillers",
    "spending",
)  # lists of words that name no row and no column
MANY: Final = frozenset({"many", "viele", "nombre", "cuántos", "cuántas", "quanti", "quante"})  # asks for no money
DID_SPEND: Final = frozenset({"did", "spend"})  # `How much can I spend?` asks for a limit
MORE_DECIMALS: Final = 2  # an average may have more decimals than the cells, by this number
MAX_DIGITS: Final = 20  # of a number; a longer one is not added
NO_SUM_UNITS: Final = frozenset({PERCENT})
_BLANKS: Final = re.compile(r"['’ \u00a0\u202f]")
_SIGNS: Final = re.compile(r"[.,'’ \u00a0\u202f]")


def read_sum_kind(question: Question) -> SumKind | None:
    """Return whether a question asks for a total or an average; None for neither, or for the highest of several.

    `How much did Lyon spend?` asks for the total of its rows.
    """
    words = fold_words(question.text)
    if find_superlative(words) < len(words) or count_negators(words) or _compares_with_average(words):
        return None
    named = next((kind for kind in SUM_KINDS if not load_word_list(kind, question.language).isdisjoint(words)), None)
    has_spent = not load_word_list("spending").isdisjoint(words) or DID_SPEND.issubset(words)
    return named or ("total" if has_spent else None)


def _compares_with_average(words: Sequence[str]) -> bool:
    """Return whether a question is about rows above or below the average: `more goals than average`."""
    averages, than = load_word_list("average"), load_word_list("than_average")
    return any(word in averages and not than.isdisjoint(words[max(0, at - 2) : at]) for at, word in enumerate(words))


def asks_for_sum(question: Question) -> bool:
    return read_sum_kind(question) is not None


def find_summed_rows(question: Question, tables: Sequence[Table], candidates: Sequence[Candidate]) -> RowsFound | None:
    """Return the rows of a question for a total or an average; None if it is uncertain which rows or which column it means.

    `tables` have all their rows, and `candidates` are the sentences of all sources.
    """
    kind = read_sum_kind(question)
    if kind is None:
        return None
    left_out = frozenset(word for name in (kind, *IGNORED_WORD_LISTS) for word in load_word_list(name))
    asked = _SumQuestion(question, kind, fold_words(question.text), left_out, read_date_question(question))
    nearest = keep_nearest_tables(tables, asked.list_content(None))
    found = [rows for table in nearest if (rows := _sum_rows(table, asked, candidates)) is not None]
    return found[0] if len(found) == 1 else None


class _SumQuestion(NamedTuple):
    """A question for a total or an average. `left_out` are words that name no row and no column."""

    question: Question
    kind: SumKind
    words: Sequence[str]
    left_out: frozenset[str]
    dated: DateQuestion | None

    def list_content(self, table: Table | None) -> list[str]:
        """Return the words that name rows or columns: without the day if the table has dates. Months may be its columns."""
        is_dated = self.dated is not None and table is not None and bool(table.dates)
        words = self.dated.words if self.dated is not None and is_dated else list_content_words(self.question)
        return [word for word in words if word not in self.left_out]

    def list_rows(self, table: Table, content: Sequence[str]) -> tuple[int, ...]:
        """Return the indices of the rows that the question names, of the day or month that it states."""
        named = find_rows_by_name(table, content)
        kept = [index for index in filter_rows(table, content) if not named or index in named]
        if self.dated is None or not table.dates:
            return tuple(kept)
        of_day, _ = list_rows_of_day(table, self.dated.day)
        return tuple(index for index in kept if index in of_day)


def _sum_rows(table: Table, asked: _SumQuestion, candidates: Sequence[Candidate]) -> RowsFound | None:
    kind, content = asked.kind, asked.list_content(table)
    naming = [word for word in content if not is_measuring_word(word)]
    column = _choose_column(table, asked, content)
    is_about_table = table.count_matches(naming) == len(naming)
    if column is None or not is_about_table or _names_sum_column(table, kind) or _counts_rows(table, asked.question):
        return None
    indices = asked.list_rows(table, content)
    values = [table.quantities[column].values[index] for index in indices]
    has_row_of_its_own = _has_total_row(table, candidates) or _has_sum_of_others(values)
    if has_row_of_its_own or not 1 < len(indices) <= MAX_COUNTED:
        return None
    figure = compute_figure([table.rows[index][column] for index in indices], kind)
    found = RowsFound(table, indices, len(indices), column=table.columns[column], sum_kind=kind, figure=figure)
    return found if figure else None


def compute_average(table: Table, values: Sequence[float | None]) -> float | None:
    """Return the average of values of a column; None if there are none, or if the table has averages or a total already."""
    known = [value for value in values if value is not None]
    if not known or _names_sum_column(table, "average") or _has_sum_of_others(known):
        return None
    return fmean(known)


def _names_sum_column(table: Table, kind: SumKind) -> bool:
    """Return whether a column has totals or averages of something already: `Total price`, but not `Total` alone."""
    return any(
        _has_sum_word(name, kind)
        for index, name in enumerate(table.column_words)
        if not _is_sum_column(table, index, kind)
    )


def _is_sum_column(table: Table, index: int, kind: SumKind) -> bool:
    """Return whether a column has only the name `Total` or `Average`, so that the others are what is added in each row."""
    name = table.column_words[index]
    return len(name) == 1 and _has_sum_word(name, kind)


def _has_sum_word(name: Sequence[str], kind: SumKind) -> bool:
    return any(matches_any_word(word, list(load_word_list(kind))) for word in name)


def _counts_rows(table: Table, question: Question) -> bool:
    """Return whether a question counts rows by the name of the first column: `How many teams have points in total?`"""
    counting, words = load_word_list("counting"), fold_words(question.text)
    counted = [two for one, two in itertools.pairwise(words) if one in counting]
    return any(matches_any_word(word, table.column_words[0]) for word in counted)


def _has_sum_of_others(values: Sequence[float | None]) -> bool:
    """Return whether one value is the sum of the others, so that its row has the total, whatever its name is."""
    known = [value for value in values if value is not None]
    return len(known) > MIN_ROWS and math.isclose(2 * max(known), sum(known))


def _choose_column(table: Table, asked: _SumQuestion, content: Sequence[str]) -> int | None:
    """Return the only column of numbers that the question points to. Shares, ranks and the like cannot be added.

    A question that names rows and no column means the only column of money: `the total of the orders in March`.
    """
    words, kind = asked.words, asked.kind
    never = load_word_list("never_added")
    columns = {
        index: column
        for index, column in table.quantities.items()
        if index
        and not _is_sum_column(table, index, kind)
        and not (kind == "total" and (column.unit in NO_SUM_UNITS or not never.isdisjoint(table.column_words[index])))
    }
    left, has_hint = list_nearest_columns(table.columns, columns, words, list_asked_measures(words))
    names_rows = bool(content) and {0}.issuperset(table.list_columns_by_own_words(content))
    if not has_hint and kind == "total" and names_rows and MANY.isdisjoint(words):
        left = [index for index in columns if _is_of_money(table, index)]
        has_hint = True
    return left[0] if len(left) == 1 and has_hint else None


def _is_of_money(table: Table, index: int) -> bool:
    """Return whether a column has amounts of money, by its unit or its name."""
    is_named = not load_word_list("amounts_of_money").isdisjoint(table.column_words[index])
    return is_named or table.quantities[index].unit in CURRENCIES


def _has_total_row(table: Table, candidates: Sequence[Candidate]) -> bool:
    return any(
        one.source.index == table.source and one.sentence.columns == table.columns and is_total(one.sentence.row)
        for one in candidates
        if one.sentence.row
    )


def compute_figure(cells: Sequence[str], kind: SumKind) -> str:
    """Return the sum or the average of cells, written as the cells are: `€ 1,200` and `€ 950` have the sum `€ 2,150`.

    Return an empty text if a cell has no number or several, or if the units differ.
    """
    parts = [part for cell in cells if (part := _split_at_number(cell))]
    units = {(before.strip(), after.strip()) for before, _, after in parts}
    figures = [figure for _, figure, _ in parts]
    decimal = find_decimal_sign([_BLANKS.sub("", figure) for figure in figures])
    is_long = any(len(figure) > MAX_DIGITS for figure in figures)
    if len(parts) < len(cells) or len(units) > 1 or decimal is None or is_long:
        return ""
    values = [_read_decimal(figure, decimal) for figure in figures]
    places = max(map(_count_places, values))
    value = sum(values, Decimal())
    if kind == "average":
        value = round(value / len(values), places + MORE_DECIMALS)
        places = max(places, _count_places(value.normalize()))
    before, _, after = parts[0]
    return f"{before}{_write(value, places, decimal, _find_grouping_sign(figures, decimal))}{after}"


def _split_at_number(cell: str) -> tuple[str, str, str] | None:
    """Return what is before the only number of a cell, the number as written, and what is after it. None for a clock time."""
    found = list(itertools.islice(NUMBER.finditer(cell), 2))
    if len(found) != 1 or is_clock(cell.casefold()):
        return None
    figure = found[0][0].rstrip(".,")
    return cell[: found[0].start()], figure, cell[found[0].start() + len(figure) :]


def _read_decimal(figure: str, decimal: str) -> Decimal:
    whole, _, part = figure.partition(decimal) if decimal else (figure, "", "")
    return Decimal(f"{_SIGNS.sub('', whole)}.{part}" if part else _SIGNS.sub("", whole))


def _count_places(value: Decimal) -> int:
    return max(0, -int(value.as_tuple().exponent))


def _find_grouping_sign(figures: Sequence[str], decimal: str) -> str:
    """Return the sign between the thousands of the figures; empty if they have none."""
    return next((sign for figure in figures for sign in _SIGNS.findall(figure) if sign != decimal), "")


def _write(value: Decimal, places: int, decimal: str, grouping: str) -> str:
    whole, _, part = f"{value:,.{places}f}".partition(".")
    whole = whole.replace(",", grouping)
    return f"{whole}{decimal or ('.' if grouping != '.' else ',')}{part}" if part else whole
