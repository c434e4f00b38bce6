"""Claims that name a row and a column: `Ravi is off on Thursday`, beside a table with one column for each day.

Several columns have the same kind of cells, so the words of a cell alone do not tell which column is meant.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from modules.llm_platform.domain.extractive.table_words import is_asked, load_word_list, split_cell
from modules.llm_platform.domain.extractive.tables import Row
from modules.llm_platform.domain.row_claims.claim import RowClaim, RowFinding
from modules.llm_platform.domain.text.negation import count_negators

ENDS: Final = 2  # numbers of a range such as `11-17`
_FIGURES: Final = re.compile(r"\d+(?:[.,:]\d+)?")


class _Named(NamedTuple):
    """The cell of the named row in the named column, by its words, and the columns with cells of the same kind."""

    place: int
    column: int
    words: Row
    alike: frozenset[int]


def check_named_column(claim: RowClaim) -> RowFinding | None:
    """Return whether the named cell has the words or the range of numbers that a claim states; None if it states neither."""
    named = _find_named(claim)
    if named is None or claim.may_ask_else or not claim.is_explained or _has_other_cells(claim, named):
        return None
    value = _find_stated_value(claim, named)
    if value is not None:
        words = [word for word in claim.words if word.word in value]
        return None if claim.amounts else _compare(named, value == named.words, words[0].start, words[-1].end)
    amounts = claim.amounts
    ends = [float(found) for found in _FIGURES.findall(claim.table.rows[named.place][named.column]) if found.isdigit()]
    if any(one.unit for one in amounts) or len(amounts) != ENDS or len(ends) != ENDS:
        return None
    return _compare(named, [one.value for one in amounts] == ends, amounts[0].span[0], amounts[-1].span[1])


def _compare(named: _Named, is_true: bool, start: int, end: int) -> RowFinding:
    return RowFinding(is_true, [named.place], named.column, None if is_true else (start, end))


def names_empty_cell(claim: RowClaim) -> bool:
    """Return whether the named cell says that there is nothing, and the claim does not: `Ravi works on Thursday`."""
    named = _find_named(claim)
    return (
        named is not None
        and load_word_list("lacking").issuperset(named.words)
        and _find_stated_value(claim, named) is None
    )


def _find_named(claim: RowClaim) -> _Named | None:
    """Return the cell; None if the claim names no row or two rows, no column or two columns, or has a "not"."""
    naming = {row.column for row in claim.named}
    columns = [
        at
        for at, name in enumerate(claim.table.names)
        if at not in naming and name and all(is_asked(word, claim.folded) for word in name)
    ]
    if len(claim.places) != 1 or len(columns) != 1 or count_negators(claim.folded):
        return None
    (place,), (column,) = claim.places, columns
    cells = set(claim.table.list_cells(column))
    others = (at for at in range(len(claim.table.columns)) if at not in (column, *naming))
    alike = frozenset(at for at in others if not cells.isdisjoint(claim.table.list_cells(at)))
    return _Named(place, column, split_cell(claim.table.rows[place][column]), alike) if alike else None


def _find_stated_value(claim: RowClaim, named: _Named) -> Row | None:
    """Return the only cell of the named column, or of one that is alike, whose words the claim has."""
    columns = (named.column, *named.alike)
    values = {split_cell(cell) for at in columns for cell in claim.table.list_cells(at)}
    stated = [value for value in values if any(map(str.isalpha, "".join(value))) and set(value).issubset(claim.folded)]
    return stated[0] if len(stated) == 1 else None


def _has_other_cells(claim: RowClaim, named: _Named) -> bool:
    """Return whether the claim names a cell of another kind that differs in this row: `the waiter Joanna`."""
    row = claim.table.rows[named.place]
    others = (at for at in claim.named_cells if at != named.column and at not in named.alike)
    return any(split_cell(row[at]) not in claim.named_cells[at] for at in others)
