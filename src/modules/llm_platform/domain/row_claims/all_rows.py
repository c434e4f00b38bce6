"""Answer yes-or-no questions about all rows of a table: `Is anyone under 18?`, `Do all cars have a tow bar?`"""

from collections.abc import Sequence
from typing import Final

from modules.llm_platform.domain.extractive.limits import Limit, read_limits
from modules.llm_platform.domain.extractive.measures import Direction
from modules.llm_platform.domain.extractive.row_limits import (
    choose_column,
    filter_rows_within,
    read_columns,
    read_limit_question,
)
from modules.llm_platform.domain.extractive.superlatives import EXTREMES_BY_DIRECTION
from modules.llm_platform.domain.extractive.table_words import load_word_list, matches_any_word
from modules.llm_platform.domain.extractive.tables import MAX_COUNTED, Decision, RowsFound, filter_rows
from modules.llm_platform.domain.row_claims.beyond_cells import is_beyond_cells
from modules.llm_platform.domain.row_claims.claim import RowClaim, equals
from modules.llm_platform.domain.text.negation import count_negators

DECISIONS: Final[dict[bool, Decision]] = {True: "yes", False: "no"}


def decide_all_rows(claim: RowClaim) -> RowsFound | None:
    """Return the answer to a question about all rows: whether any or every row is within a limit, or every row says yes.

    Rows within the limit prove "any", and rows beyond it disprove "all". If there are no such rows, or too many to show, the row
    with the lowest or highest value is shown.
    """
    if claim.mentions or not claim.source.is_whole or not claim.is_covered or claim.superlative is not None:
        return None
    if is_beyond_cells(claim) or claim.may_ask_beyond_table:
        return None
    for limit in read_limits(claim.masked_text):
        if (found := _decide_limit(claim, limit)) is not None:
            return found
    return None if read_limits(claim.masked_text) else _decide_flag(claim)


def _decide_limit(claim: RowClaim, limit: Limit) -> RowsFound | None:
    asked, table = read_limit_question(limit, claim.language), claim.table
    columns = read_columns(table, limit)
    column = None if count_negators(asked.words) else choose_column(table, columns, asked, must_divide=False)
    if column is None:
        return None
    values = columns[column].values
    indices = filter_rows(
        table, [word for word in asked.content if not matches_any_word(word, table.column_words[column])]
    )
    known = [index for index in indices if values[index] is not None]
    bounds = [bound for bound in (limit.low, limit.high) if bound is not None]
    others = [one for one in claim.amounts if not any(equals(one.value, bound) for bound in bounds)]
    if limit.unit is not None and others:
        return None  # `any bike over 14 kg and under £1000`
    if not known or len(bounds) > 1 or (_asks_for_all(claim) and len(known) < len(indices)):
        return None
    within = filter_rows_within(columns[column], limit)
    decisive = [index for index in known if (index in within) is not _asks_for_all(claim)]
    is_yes = bool(decisive) is not _asks_for_all(claim)
    if 0 < len(decisive) <= MAX_COUNTED:
        return _show(claim, decisive, is_yes=is_yes)
    return _show_nearest(claim, limit, column, known, is_yes=is_yes)


def _show_nearest(claim: RowClaim, limit: Limit, column: int, indices: Sequence[int], *, is_yes: bool) -> RowsFound:
    """Return the rows with the lowest or highest value: if the lowest value is not below a limit, no value is."""
    is_of_dates = column in claim.table.dates
    values = (claim.table.dates if is_of_dates else claim.table.quantities)[column].values
    direction: Direction = "less" if (limit.low is None) is not _asks_for_all(claim) else "more"
    best = (min if direction == "less" else max)(value for index in indices if (value := values[index]) is not None)
    shown = tuple(index for index in indices if values[index] == best)[:MAX_COUNTED]
    extreme, decision = EXTREMES_BY_DIRECTION[direction, is_of_dates], DECISIONS[is_yes]
    return RowsFound(claim.table, shown, len(indices), extreme, claim.table.columns[column], decision)


def _decide_flag(claim: RowClaim) -> RowsFound | None:
    """Return the rows that say no in a yes-or-no column, if the question asks whether all rows say yes.

    None if the question is about some rows, if a cell has other words, or if no row or too many rows say no. An empty cell says
    nothing.
    """
    if len(claim.flags) != 1 or claim.named_cells or not _asks_for_all(claim) or claim.amounts or claim.date:
        return None
    ((column, cells),) = claim.flags.items()
    if None in cells:
        return None
    lacking = [index for index, is_yes in enumerate(cells) if not is_yes and claim.table.rows[index][column].strip()]
    return _show(claim, lacking, is_yes=False) if 0 < len(lacking) <= MAX_COUNTED else None


def _show(claim: RowClaim, indices: Sequence[int], *, is_yes: bool) -> RowsFound:
    return RowsFound(claim.table, tuple(indices), len(claim.table.rows), decision=DECISIONS[is_yes])


def _asks_for_all(claim: RowClaim) -> bool:
    return not load_word_list("every").isdisjoint(claim.folded)
