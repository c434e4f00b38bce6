"""Check claims that compare named rows of a table: `Ines is older than Ben`, `Ines and Ben pay the same`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from modules.llm_platform.domain.extractive.comparatives import COMPARATIVE_REACH, ComparedMeasure, read_comparative
from modules.llm_platform.domain.extractive.compared_columns import (
    Columns,
    filter_columns_by_measure,
    has_better_column,
    list_nearest_columns,
)
from modules.llm_platform.domain.extractive.limits import LimitKind, load_phrases
from modules.llm_platform.domain.extractive.measures import Measure, list_asked_measures, list_comparisons
from modules.llm_platform.domain.extractive.quantities import MINUTES, find_unit
from modules.llm_platform.domain.extractive.row_limits import has_unit
from modules.llm_platform.domain.extractive.superlatives import find_superlative
from modules.llm_platform.domain.extractive.table_values import Column
from modules.llm_platform.domain.extractive.table_words import load_word_list, matches_any_word, split_cell
from modules.llm_platform.domain.row_claims.claim import Amount, RowClaim, RowFinding, equals
from modules.llm_platform.domain.row_claims.source_tables import RowMention
from modules.llm_platform.domain.text.negation import count_negators
from modules.llm_platform.domain.text.numbers import load_number_words
from modules.llm_platform.domain.text.sentences import Span

THAN_REACH: Final = 7  # words from "than" to the name of the other row: `than a day with the mixer`
THAN: Final = frozenset(("than", "als", "niż", "чем", "dan"))  # after a comparative, and seldom elsewhere
GAP_REACH: Final = 1  # words between a stated difference and the comparative, such as the unit
PREPOSITION_REACH: Final = 4  # words from "above" to the name: `640 € über der in der Lindenstraße`
FACTORS: Final = {"twice": 2.0, "half": 0.5}


PREPOSITIONS: Final[dict[LimitKind, ComparedMeasure]] = {
    "before": ComparedMeasure("less", is_of_dates=True),
    "after": ComparedMeasure("more", is_of_dates=True),
    "above": ComparedMeasure("more"),
    "below": ComparedMeasure("less"),
}


class _Comparison(NamedTuple):
    """A comparison of the `first` rows with the `others`.

    - `measures` are the interpretations of what is compared.
    - `word` is the span of the comparative, or of the preposition in `after Ben`.
    """

    first: Sequence[RowMention]
    others: Sequence[RowMention]
    measures: Sequence[ComparedMeasure]
    word: Span


def compare_named_rows(claim: RowClaim) -> RowFinding | None:
    """Return what the cells say about a comparison of named rows.

    None if the claim compares no rows, or if it is uncertain what it compares.
    """
    if len(claim.row_indices) < 2 or count_negators(claim.folded) or not claim.is_covered:
        return None
    if not load_word_list("together").isdisjoint(claim.folded):
        return None  # `more than Ann and Ben combined`
    factor = _read_factor(claim)
    if factor is not None and _find_equal_word(claim) is None:
        return _check_factor(claim, factor)
    compared = _read_comparison(claim)
    if compared is not None:
        # An age comes before a date: who is older need not have joined earlier.
        of_numbers = [one for one in compared.measures if not one.is_of_dates and _has_column(claim, one)]
        found = [_check_order(claim, compared, by) for by in of_numbers or compared.measures]
        known = [one for one in found if one is not None]
        return known[0] if len({one.is_true for one in known}) == 1 else None
    return _check_equality(claim)


def _has_column(claim: RowClaim, by: ComparedMeasure) -> bool:
    return choose_compared_column(claim, by.measure) is not None


def compares_rows(claim: RowClaim) -> bool:
    """Return whether a claim compares named rows, or calls them equal."""
    if len(claim.row_indices) < 2:
        return False
    return _find_equal_word(claim) is not None or _read_factor(claim) is not None or _read_comparison(claim) is not None


def compares_with_unnamed(claim: RowClaim) -> bool:
    """Return whether a claim compares a named row with something else: "A photo album is cheaper than our bindings"."""
    than = [at for at, word in enumerate(claim.folded) if word in THAN]
    return bool(claim.mentions) and any(
        any(read_comparative(claim.folded, at - 1, claim.folded[at], claim.language)) for at in than if at
    )


def _read_comparison(claim: RowClaim) -> _Comparison | None:
    """Return the comparison of a claim in which one "than" is before a name."""
    than = load_phrases("than")
    for number, row in enumerate(claim.mentions[1:], 1):
        gap = [at for at, word in enumerate(claim.words) if claim.mentions[number - 1].end <= word.start < row.start]
        for at in reversed(gap[-THAN_REACH:]):
            word = claim.folded[at]
            before = range(max(0, at - COMPARATIVE_REACH), at)
            found = _find_comparative(claim, before, word) if word in than else None
            if found is None and at >= gap[-1] - PREPOSITION_REACH and (measures := _read_preposition(word)):
                found = measures, claim.words[at][1:]
            if found is not None:  # `after H2 but before Neo4j` is two comparisons
                after = claim.folded[gap[-1] + 1 :]
                is_one = not any(map(_read_preposition, after)) and THAN.isdisjoint(after)
                return _Comparison(claim.mentions[:number], claim.mentions[number:], *found) if is_one else None
    return None


def _find_comparative(
    claim: RowClaim, positions: Sequence[int], than: str
) -> tuple[Sequence[ComparedMeasure], Span] | None:
    for at in reversed(positions):
        if measures := list(read_comparative(claim.folded, at, than, claim.language)):
            after = claim.folded[at + 1 : positions[-1] + 1]
            is_of_part = find_superlative(after) < len(after)  # `a faster first half than`
            return None if is_of_part else (measures, claim.words[at][1:])
    return None


def list_compared_measures(claim: RowClaim, at: int) -> Iterator[ComparedMeasure]:
    """Yield what the comparative at an index of the words compares, without a "than": `Which is cheaper, A or B?`"""
    yield from dict.fromkeys(
        measure
        for than in sorted(load_phrases("than"))
        for measure in read_comparative(claim.folded, at, than, claim.language)
    )


def _read_preposition(word: str) -> list[ComparedMeasure]:
    """Return what a word such as "before" or "above" near a name compares."""
    for part, measure in PREPOSITIONS.items():
        if word in load_phrases(part):
            return [measure]
    return []


def _check_order(claim: RowClaim, compared: _Comparison, by: ComparedMeasure) -> RowFinding | None:
    gap = _find_stated_gap(claim, compared.word)
    unit = gap.unit if gap is not None and by.measure is None and not by.is_of_dates else ""
    found = choose_compared_column(claim, by.measure, is_of_dates=by.is_of_dates, unit=unit)
    first, others = [row.row_index for row in compared.first], [row.row_index for row in compared.others]
    values = list_values(found, [*first, *others])
    if found is None or not values:
        return None
    sign = 1 if by.direction == "more" else -1
    gaps = [sign * (one - other) for one in values[: len(first)] for other in values[len(first) :]]
    is_true, indices = all(gap > 0 for gap in gaps), [*first, *others]
    if is_true and (claim.has_other_cells(first) or not _confirms_others(claim, compared, gap)):
        return None
    if is_true and gap is not None:  # `costs £20 more than`
        is_same = _is_gap(claim, gap, found[1], gaps)
        return None if is_same is None else RowFinding(is_same, indices, found[0], gap.span)
    return RowFinding(is_true, indices, found[0], compared.word)


def _find_stated_gap(claim: RowClaim, comparative: Span) -> Amount | None:
    """Return the amount right before a comparative: `£20 more`, `two years older`."""
    for one in (*claim.amounts, *claim.spelled_amounts):
        if one.span[1] <= comparative[0] and len(claim.masked_text[one.span[1] : comparative[0]].split()) <= GAP_REACH:
            return one
    return None


def _confirms_others(claim: RowClaim, compared: _Comparison, gap: Amount | None) -> bool:
    """Return whether cells have all other numbers of the claim.

    A number before the second name must be in a cell of the first rows, and a later number in a cell of the other rows. A date,
    and a unit without a number (`a year older`), are not confirmed.
    """
    first, others = [row.row_index for row in compared.first], [row.row_index for row in compared.others]
    stated = [one for one in (*claim.amounts, *claim.spelled_amounts) if one != gap]
    sides = [(one, others if one.span[0] >= compared.others[0].end else first) for one in stated]
    before = [word.word for word in claim.words if word.end <= compared.word[0]]
    is_unit = len(before) > 1 and before[-2] in load_word_list("single") and find_unit(before[-1]) is not None
    is_unstated = gap is None and is_unit  # `a year older`, `the day before`
    return claim.date is None and not is_unstated and all(claim.has_cell(one, indices) for one, indices in sides)


def list_values(found: tuple[int, Column] | None, indices: Sequence[int]) -> list[float]:
    """Return the values of these rows in a column; empty if one has none."""
    values = [found[1].values[index] for index in indices] if found else []
    known = [value for value in values if value is not None]
    return known if len(known) == len(values) else []


def _is_gap(claim: RowClaim, amount: Amount, column: Column, gaps: Sequence[float]) -> bool | None:
    """Return whether a stated amount is the difference of two values; None if it is something else."""
    before = " ".join(word.word for word in claim.words if word.end <= amount.span[0])
    rough = tuple(load_phrases("above", "below", "from", "up_to", "hedges"))  # `over 2,000 kg more than`
    is_approximate = before.endswith(rough)
    if len(gaps) != 1 or amount.unit not in ("", column.unit) or is_approximate:
        return None
    return equals(gaps[0], amount.value)


def _check_equality(claim: RowClaim) -> RowFinding | None:
    """Return whether all named rows have the same in a column: equal cells, or equal values."""
    word = _find_equal_word(claim)
    is_of_most = claim.superlative is not None  # `tied for the lowest fee`
    if word is None or is_of_most or not claim.confirms_amounts(claim.row_indices):
        return None
    found = choose_compared_column(claim, None)
    column = _choose_named_column(claim) if found is None else found[0]
    if column is None or (column in claim.table.dates and _is_of_period(claim)):
        return None
    cells = {claim.table.rows[index][column].casefold() for index in claim.row_indices}
    values = list_values(found, claim.row_indices)
    return (
        None if "" in cells else RowFinding(len(cells) == 1 or len(set(values)) == 1, claim.row_indices, column, word)
    )


def _is_of_period(claim: RowClaim) -> bool:
    """Return whether a claim has a unit other than a day: `in the same year`."""
    units = filter(None, map(find_unit, claim.folded))
    return any(unit != find_unit("day") for unit in units)


def _find_equal_word(claim: RowClaim) -> Span | None:
    return next((word[1:] for word in claim.words if word.word in load_word_list("equal")), None)


def _check_factor(claim: RowClaim, factor: float) -> RowFinding | None:
    """Return whether the first value is the factor times the second value, or more or less if the claim says so."""
    found = choose_compared_column(claim, None)
    values = list_values(found, claim.row_indices)
    if found is None or len(values) != 2 or not claim.confirms_amounts(claim.row_indices):
        return None
    text = " ".join(claim.folded)
    is_more, is_less = (any(phrase in text for phrase in load_phrases(part)) for part in ("above", "below"))
    gap = values[0] - factor * values[1]
    is_true = gap > 0 if is_more else gap < 0 if is_less else equals(gap, 0)
    return RowFinding(is_true, claim.row_indices, found[0])


def _read_factor(claim: RowClaim) -> float | None:
    """Return 2 for `twice as much as`, 3 for `three times as much as`; None without a factor."""
    names = {word for name in claim.table.column_words for word in name}  # such as `Half board`
    for kind, factor in FACTORS.items():
        if not load_word_list(kind).isdisjoint(word for word in claim.folded if word not in names):
            return factor
    numbers = load_number_words()
    for one, two in zip(claim.folded, claim.folded[1:], strict=False):
        if two in load_word_list("times") and (known := numbers.get(one, one)).isdecimal():
            return float(known)
    return None


def _choose_named_column(claim: RowClaim) -> int | None:
    """Return the only column whose name has a word of the claim, or the only one whose whole name is in it."""
    naming = {row.column for row in claim.mentions}
    split = {column: split_cell(name) for column, name in enumerate(claim.table.columns) if column not in naming}
    named = [column for column, words in split.items() if any(matches_any_word(word, claim.folded) for word in words)]
    in_full = [column for column in named if all(matches_any_word(word, claim.folded) for word in split[column])]
    chosen = in_full or named
    return chosen[0] if len(chosen) == 1 else None


def _list_times(claim: RowClaim) -> Columns:
    """Return the columns of dates, or the columns of times of day.

    Times count if there are no dates, or if the claim names a column of times and no column of dates.
    """
    times = {index: column for index, column in claim.quantities.items() if column.unit == MINUTES}
    dates = claim.table.dates
    named = {
        column
        for column in (*times, *dates)
        if any(matches_any_word(word, claim.folded) for word in claim.table.column_words[column])
    }
    return times if not dates or (named and named.isdisjoint(dates)) else dates


def _numbers_rows(claim: RowClaim, columns: Mapping[int, Column]) -> bool:
    """Return whether the first column has different whole numbers without a unit, and the claim lacks the words of its name."""
    if 0 not in columns or columns[0].unit or set(claim.table.column_words[0]).issubset(claim.folded):
        return False
    values = [value for value in columns[0].values if value is not None]
    return len(set(values)) == len(claim.table.rows) and all(value % 1 == 0 for value in values)


def choose_compared_column(
    claim: RowClaim, measure: Measure | None, *, is_of_dates: bool = False, unit: str = ""
) -> tuple[int, Column] | None:
    """Return the column whose values a claim compares or states; None if it is uncertain. `unit` limits the columns to a unit."""
    columns = _list_times(claim) if is_of_dates else claim.quantities
    if _numbers_rows(claim, columns):  # `Quill Press ordered 40 slipcases` names no number of an `Order`
        columns = {index: column for index, column in columns.items() if index}
    if unit:
        columns = {index: column for index, column in columns.items() if has_unit(column, unit)}
    if measure is not None and not is_of_dates:
        columns = filter_columns_by_measure(claim.table.columns, columns, measure, claim.folded)
    sought = [*list_asked_measures(claim.folded), *([measure] if measure is not None else [])]
    if not sought:  # `twice as heavy as`
        sought = [one.measure for word in claim.folded for one in list_comparisons(word)]
    left, has_hint = list_nearest_columns(claim.table.columns, columns, claim.folded, sought)
    is_only_date = is_of_dates and claim.is_fully_covered  # `gets in first of a morning` may be about another column
    is_certain = has_hint or (measure is not None and not is_of_dates) or is_only_date or bool(unit)
    if len(left) != 1 or not is_certain or has_better_column(claim.table, left[0], claim.folded, sought):
        return None
    return left[0], columns[left[0]]
