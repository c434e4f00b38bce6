"""Check claims about a set of rows: those within a limit, those with the highest or lowest value, a number or a list of rows."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Final

from modules.llm_platform.domain.extractive.compared_rows import find_extreme, read_ranking_question
from modules.llm_platform.domain.extractive.limits import DATE_LIMITS, QUANTITY_LIMITS, Limit, load_phrases, read_limits
from modules.llm_platform.domain.extractive.quantities import YEARS, find_unit
from modules.llm_platform.domain.extractive.question import Question, read_question
from modules.llm_platform.domain.extractive.row_limits import (
    asks_for_limited_rows,
    choose_column,
    filter_rows_within,
    read_columns,
    read_limit_question,
)
from modules.llm_platform.domain.extractive.row_questions import find_rows_in_tables
from modules.llm_platform.domain.extractive.superlatives import find_superlative
from modules.llm_platform.domain.extractive.table_values import Column
from modules.llm_platform.domain.extractive.table_words import load_word_list, matches_any_word, split_cell
from modules.llm_platform.domain.extractive.tables import RowsFound, filter_rows
from modules.llm_platform.domain.row_claims.beyond_cells import says_only
from modules.llm_platform.domain.row_claims.claim import Amount, RowClaim, RowFinding, equals
from modules.llm_platform.domain.row_claims.comparisons import THAN, choose_compared_column, compares_rows
from modules.llm_platform.domain.row_claims.named_columns import names_empty_cell
from modules.llm_platform.domain.row_claims.source_tables import MASK, mask
from modules.llm_platform.domain.text.data_files import load_data
from modules.llm_platform.domain.text.negation import count_negators
from modules.llm_platform.domain.text.numbers import load_number_words
from modules.llm_platform.domain.text.sentences import Span

_FIGURE: Final = re.compile(r"\d[\d.]*")
COUNT_PREFIX: Final = "how many "
CHOICE_PREFIX: Final = "which "
LIST_REACH: Final = 3  # words from "are" to the first name of a list: `are those to`


def has_limit_or_extreme(claim: RowClaim) -> bool:
    """Return whether a claim states a limit, or a highest or lowest value."""
    return claim.superlative is not None or bool(read_limits(claim.masked_text))


def check_limit(claim: RowClaim) -> RowFinding | None:
    """Return whether the rows that a claim names are within its limit; None without a limit, or if it is not certain."""
    if not claim.mentions or not claim.has_consistent_mentions:
        return None
    for limit in read_limits(claim.masked_text):
        asked = read_limit_question(limit, claim.language)
        if count_negators(asked.words) or read_limits(limit.rest):
            continue
        asked = asked._replace(words=claim.folded, content=[word for word in asked.content if word in claim.content])
        columns = {
            index: column
            for index, column in read_columns(claim.table, limit).items()
            if index not in _list_naming_columns(claim)
        }
        column = choose_column(claim.table, columns, asked, is_of_person=not claim.content)
        if column is None or any(columns[column].values[index] is None for index in claim.row_indices):
            continue
        if limit.unit is None and claim.may_ask_beyond_table:
            return None
        phrase = _find_phrase_of_day(claim)
        if not claim.is_covered or phrase in claim.table.column_words[column]:
            return None  # in a column `Paid until`, the date is a value and no limit
        if phrase in load_phrases("since"):  # `has been a member since 2015`
            return _check_beginning(claim, columns[column], column)
        within, named = filter_rows_within(columns[column], limit), set(claim.row_indices)
        value = _find_amount(claim, limit)
        if not named <= within:
            return RowFinding(False, _put_last(claim.row_indices, named - within), column, value)
        if _says_more(claim, value):
            return None
        kept = within.intersection(filter_rows(claim.table, asked.content))
        is_complete = kept <= named or not (_says_all(claim) and claim.source.is_whole)
        return RowFinding(True if is_complete else None, claim.row_indices, column, value)
    return None


def _says_more(claim: RowClaim, value: Span | None) -> bool:
    """Return whether a claim states a number or a cell, besides the `value` of its limit, that its rows lack."""
    counts = [one for one in claim.spelled_amounts if not one.unit and one.value != len(claim.row_indices)]
    is_confirmed = value is None or claim.confirms_amounts(claim.row_indices, value)
    return bool(counts) or not is_confirmed or claim.has_other_cells(claim.row_indices)


def _find_phrase_of_day(claim: RowClaim) -> str:
    """Return the phrase before the date of a claim, such as "since" or "vor dem"; empty without one."""
    before = [word.word for word in claim.words if claim.date is not None and word.end <= claim.date.start]
    phrases = (" ".join(before[-count:]) for count in (2, 1))
    return next((phrase for phrase in phrases if phrase in load_phrases(*DATE_LIMITS)), "")


def _check_beginning(claim: RowClaim, dates: Column, column: int) -> RowFinding | None:
    """Return whether the date at which something began is the one in the cells."""
    day, values = claim.date, [dates.values[index] for index in claim.row_indices]
    if day is None or claim.has_other_cells(claim.row_indices):
        return None
    wrong = {
        index
        for index, value in zip(claim.row_indices, values, strict=True)
        if value is None or not day.first <= value <= day.last
    }
    return RowFinding(not wrong, _put_last(claim.row_indices, wrong), column, (day.start, day.end))


def _put_last(indices: Sequence[int], wrong: Collection[int]) -> list[int]:
    """Return the indices with the wrong ones last, because the last one is shown."""
    return sorted(indices, key=wrong.__contains__)


def _list_naming_columns(claim: RowClaim) -> set[int]:
    return {row.column for row in claim.mentions}


def _find_amount(claim: RowClaim, limit: Limit) -> Span | None:
    """Return the span of the limit's value; None if it is not in figures."""
    if limit.unit is None:
        return None if claim.date is None else (claim.date.start, claim.date.end)
    values = [value for value in (limit.low, limit.high) if value is not None]
    spans = [one.span for one in claim.amounts if any(equals(one.value, value) for value in values)]
    return spans[0] if spans else None


def check_extreme(claim: RowClaim) -> RowFinding | None:
    """Return whether the rows or the value that a claim names are the highest or lowest."""
    if not _is_extreme(claim) or not claim.is_covered or not claim.has_consistent_mentions:
        return None
    asked = read_ranking_question(_make_question(claim, ""))
    known = [word for word in asked.content if word in claim.content and claim.table.count_matches([word])]
    asked, indices = asked._replace(content=known), filter_rows(claim.table, known)
    found = find_extreme(claim.table, indices, asked, len(claim.table.rows))
    if found is None:
        return None
    column = claim.table.columns.index(found.column)
    return _check_rows(claim, found, column) if claim.mentions else _check_value(claim, found, column)


def _is_extreme(claim: RowClaim) -> bool:
    """Return whether a claim states the extreme of a whole table, and no limit, comparison or second superlative."""
    words = claim.folded
    at = claim.superlative
    if at is None or not claim.source.is_whole or read_limits(claim.masked_text) or count_negators(words):
        return False
    after = words[at + 1 :]
    is_date = words[at] in load_word_list("latest") | load_word_list("earliest")
    is_of_time = is_date and bool(after) and find_unit(after[0]) is not None  # `last year`
    is_name = any(words[at] in name for name in claim.table.column_words)  # `Last service`
    is_second = find_superlative(after[1:]) < len(after[1:])
    text = " ".join(words)
    is_among = any(f" {phrase} " in f" {text} " for phrase in load_data("table_questions")["among"].split(", "))
    return not (is_of_time or is_name or is_second or is_among or THAN.intersection(words))


def _check_rows(claim: RowClaim, found: RowsFound, column: int) -> RowFinding | None:
    """Return whether the named rows are among the rows with the most, and their cells have the numbers of the claim."""
    if not set(claim.row_indices) <= set(found.row_indices):
        if len(claim.row_indices) > 1:
            return None
        return RowFinding(
            False, found.row_indices, claim.mentions[0].column, (claim.mentions[0].start, claim.mentions[0].end)
        )
    unit = claim.table.quantities[column].unit if column in claim.table.quantities else ""
    wrong = [
        one
        for one in claim.amounts
        if not claim.has_cell(one, claim.row_indices, _get_required_column(one, unit, column))
    ]
    if wrong:
        return RowFinding(False, found.row_indices, column, wrong[0].span)
    is_confirmed = claim.confirms_amounts(claim.row_indices) and not claim.has_other_cells(claim.row_indices)
    return RowFinding(True, found.row_indices, column) if is_confirmed else None


def _get_required_column(amount: Amount, unit: str, column: int) -> int | None:
    """Return the column of the extreme if a number must be there; None for a number with another unit."""
    return column if amount.unit in ("", unit) else None


def _check_value(claim: RowClaim, found: RowsFound, column: int) -> RowFinding | None:
    """Return whether the only number of a claim is the highest or lowest value; None if another cell of the row has it."""
    unit = claim.table.quantities[column].unit if column in claim.table.quantities else ""
    if len(claim.amounts) != 1 or claim.amounts[0].unit not in ("", unit) or claim.date is not None:
        return None
    amount = claim.amounts[0]
    is_true = claim.has_cell(amount, found.row_indices, column)
    others = (other for other, name in enumerate(claim.table.column_words) if other != column and name)
    is_of_other = any(
        all(matches_any_word(word, claim.folded) for word in claim.table.column_words[other]) for other in others
    )
    if is_of_other or (not is_true and claim.has_cell(amount, found.row_indices)):
        return None
    return RowFinding(is_true, found.row_indices, column, amount.span)


def check_cell(claim: RowClaim) -> RowFinding | None:
    """Return whether the number, the date, the "yes" or the word that a claim states about a row is in the right cell."""
    is_plain = (
        claim.mentions
        and claim.has_consistent_mentions
        and not has_limit_or_extreme(claim)
        and not compares_rows(claim)
    )
    if not is_plain or count_negators(claim.folded) or _needs_something(claim) or says_only(claim):
        return None
    stated = [*claim.amounts, *claim.spelled_amounts]
    if not claim.is_covered or len(stated) + (claim.date is not None) > 1:
        return None
    if not (stated or claim.date) and (len(claim.row_indices) > 1 or claim.may_ask_beyond_table):
        return None  # `The basses are Ann and Ben` is a list, and `has the order of Lotus arrived` names no cell for it
    found = [_check_row(claim, index, stated) for index in claim.row_indices]
    if not all(one is not None and one.is_true for one in found):  # `Ann and Ben both pay £9` needs both
        return found[0] if len(found) == 1 else None
    return None if (stated or claim.date) and claim.has_other_cells(claim.row_indices) else found[0]


def _needs_something(claim: RowClaim) -> bool:
    """Return whether a claim says that something is missing: `The hall needs a projector`."""
    return not load_word_list("needing").isdisjoint(claim.folded)


def _check_row(claim: RowClaim, index: int, stated: Sequence[Amount]) -> RowFinding | None:
    if claim.date:
        return _check_date(claim, index)
    if stated:
        return _check_amount(claim, index, stated[0])
    return _check_flag(claim, index) or _check_words(claim, index)


def _check_date(claim: RowClaim, index: int) -> RowFinding | None:
    found, day = choose_compared_column(claim, None, is_of_dates=True), claim.date
    if claim.may_ask_beyond_table:
        return None
    value = found[1].values[index] if found else None
    if found is None or day is None or value is None:
        return None
    if day.first < YEARS:
        value %= YEARS
    return RowFinding(day.first <= value <= day.last, [index], found[0], (day.start, day.end))


def _check_amount(claim: RowClaim, index: int, amount: Amount) -> RowFinding | None:
    found = choose_compared_column(claim, None, unit=amount.unit)
    value = found[1].values[index] if found else None
    if found is None or value is None:
        return None
    is_true = equals(value, amount.value)
    is_of_named = claim.table.list_columns_by_own_words(claim.folded) == [found[0]]
    is_written = f"{amount.value:g}" in _FIGURE.findall(claim.table.rows[index][found[0]].replace(",", ""))
    if not is_true and (is_written or (claim.has_cell(amount, [index]) and not is_of_named)):
        return None  # the number is in another column, which may be meant, or in a cell whose unit is read otherwise
    return RowFinding(is_true, [index], found[0], amount.span)


def _check_flag(claim: RowClaim, index: int) -> RowFinding | None:
    """Return whether a column of yes and no says yes: `Berghaus has a winter room`."""
    if len(claim.flags) != 1 or claim.named_cells:
        return None
    ((column, cells),) = claim.flags.items()
    is_yes = cells[index]
    if is_yes is None or not claim.table.rows[index][column]:
        return None
    named = [word[1:] for word in claim.words if matches_any_word(word.word, claim.table.column_words[column])]
    return RowFinding(is_yes, [index], column, None if is_yes or not named else named[0])


def _check_words(claim: RowClaim, index: int) -> RowFinding | None:
    """Return whether the cell of another row that a claim names is also in this row: `Wanda works as a server`."""
    if len(claim.named_cells) != 1 or names_empty_cell(
        claim
    ):  # `Joanna works in the bar on Monday`, and has Monday off
        return None
    ((column, cells),) = claim.named_cells.items()
    own = split_cell(claim.table.rows[index][column])
    return RowFinding(own in cells, [index], column) if own else None


def check_count(claim: RowClaim) -> RowFinding | None:
    """Return whether the claimed number of rows is right: `Three members are under 18`."""
    counted = _read_count(claim)
    is_read = not claim.is_question and not claim.mentions and claim.source.is_whole  # a question asks "how many"
    if counted is None or not is_read or not _counts_exactly(claim, counted):
        return None
    question = _make_question(claim, COUNT_PREFIX, [counted.span])
    found = find_rows_in_tables(question, [claim.table], [])
    if found is None or found.extreme or not claim.is_covered:
        return None
    is_true = len(found.row_indices) == counted.value
    # A description is less certain than a limit, because an empty cell may be a "no": it can confirm a number, but not refute it.
    return (
        RowFinding(is_true, found.row_indices, None, counted.span)
        if is_true or asks_for_limited_rows(question)
        else None
    )


def _counts_exactly(claim: RowClaim, counted: Amount) -> bool:
    """Return whether the only numbers are the count and a limit, and no "at least" is before the count."""
    limits = read_limits(claim.masked_text)
    bounds = [bound for limit in limits for bound in (limit.low, limit.high) if bound is not None]
    others = [one for one in (*claim.amounts, *claim.spelled_amounts) if one.span[0] != counted.span[0]]
    is_limit = all(any(equals(one.value, bound) for bound in bounds) for one in others)
    is_of_dates = any(limit.unit is None for limit in limits)
    before = " ".join(word.word for word in claim.words if word.end <= counted.span[0])
    is_bound = before.endswith(tuple(load_phrases(*QUANTITY_LIMITS)))
    return is_limit and not is_bound and (claim.date is None or is_of_dates)


def counts_rows(claim: RowClaim) -> bool:
    """Return whether a claim names no row, begins with a number, and is about the table."""
    return not claim.mentions and bool(claim.content) and _read_count(claim) is not None and claim.is_covered


def _read_count(claim: RowClaim) -> Amount | None:
    """Return the first number of a claim, if it counts: a whole number without a unit."""
    numbers = load_number_words()
    day = range(claim.date.start, claim.date.end) if claim.date else range(0)
    words = ((word, numbers.get(word.word, word.word)) for word in claim.words if word.start not in day)
    first = next((Amount(float(known), "", word[1:]) for word, known in words if known.isdecimal()), None)
    amounts = [one for one in claim.amounts if first is None or one.span[0] <= first.span[0]]
    return None if any(one.unit or one.value % 1 for one in amounts) else first


def check_list(claim: RowClaim) -> RowFinding | None:
    """Return whether the claim describes the rows that it names: `The unpaid invoices are R-1 and R-2`."""
    is_list = (
        len(claim.row_indices) > 1
        and claim.has_consistent_mentions
        and not claim.amounts
        and not has_limit_or_extreme(claim)
    )
    if any(len(cells) > 1 for cells in claim.named_cells.values()) or claim.date or _needs_something(claim):
        return None  # `Tom plays the viola, Ines the cello`
    if not is_list or not claim.source.is_whole or compares_rows(claim) or not claim.is_covered:
        return None
    indices, is_denied = _find_described(claim), bool(count_negators(claim.folded))
    named = set(claim.row_indices)
    if len(indices) == len(claim.table.rows) or not indices:
        return None
    if not named <= indices:
        wrong = next(row for row in claim.mentions if row.row_index not in indices)
        return None if is_denied else RowFinding(False, [wrong.row_index], None, (wrong.start, wrong.end))
    if named == indices or not _says_all(claim):
        return RowFinding(True, claim.row_indices)
    return None if is_denied else RowFinding(None, claim.row_indices)


def _find_described(claim: RowClaim) -> set[int]:
    """Return the indices of the rows with the cells that a claim names, or of the rows without them if the claim is negated."""
    if count_negators(claim.folded):
        described = find_rows_in_tables(_make_question(claim, CHOICE_PREFIX), [claim.table], [])
        return set(described.row_indices) if described else set()
    named = claim.named_cells
    if len(set().union(*named.values())) < len(named):  # two columns have the same cell
        names = claim.table.column_words
        named = {
            column: cells
            for column, cells in named.items()
            if any(matches_any_word(word, claim.folded) for word in names[column])
        }
    return {
        index
        for index, row in enumerate(claim.table.rows)
        if all(split_cell(row[column]) in cells for column, cells in named.items())
        and all(cells[index] for cells in claim.flags.values())
    }


def _says_all(claim: RowClaim) -> bool:
    """Return whether a list claims to be complete: it says "only", or begins right after "are": `The members under 18 are`."""
    before = [word.word for word in claim.words if word.end <= claim.mentions[0].start]
    is_named_last = len(before) > 1 and not load_word_list("being").isdisjoint(before[-LIST_REACH:])
    return is_named_last or not load_word_list("in_all").isdisjoint(claim.folded)


def _make_question(claim: RowClaim, start: str, masked: Sequence[Span] = ()) -> Question:
    """Return the claim as a question, without its names, the `masked` spans and words such as "marked"."""
    reporting = [word[1:] for word in claim.words if word.word in load_word_list("reporting")]
    text = mask(claim.masked_text, [*masked, *reporting]).replace(MASK, "")
    return read_question(f"{start}{' '.join(text.split())}", claim.language)
