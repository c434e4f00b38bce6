"""Check claims that name a row and a column: `Ravi is off on Thursday`, for a table with one column for each day.

Several columns have the same kind of cells, so the words of a cell do not show which column is meant. A claim is only decided if
it says nothing else: `Ravi has the evening off on Thursday` and `Ravi is off the day after Monday` are left open.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from modules.llm_platform.domain.extractive.table_words import load_word_list, matches_any_word, split_cell
from modules.llm_platform.domain.extractive.tables import Row
from modules.llm_platform.domain.row_claims.claim import RowClaim, RowFinding
from modules.llm_platform.domain.text.negation import count_negators
from modules.llm_platform.domain.text.sentences import Span

_RANGE: Final = re.compile(
    r"\b(?:from |between |von |zwischen |de )?(\d{1,2}) ?(?:[-–]| to | and | bis | und | à ) ?(\d{1,2})\b"
)
_CELL_RANGE: Final = re.compile(r"(\d{1,2}) ?[-–] ?(\d{1,2})")


class _NamedCell(NamedTuple):
    """The cell of the named row in the named column. `alike` are other columns that have some of the same cells."""

    row_index: int
    column: int
    text: str
    words: Row
    alike: frozenset[int]


def check_named_column(claim: RowClaim) -> RowFinding | None:
    """Return whether the named cell has the words or the range of numbers that a claim states; None if it states neither."""
    named = _find_named_cell(claim)
    if named is None:
        return None
    value = _find_stated_value(claim, named)
    if value is not None:
        spans = [word[1:] for word in claim.words if word.word in value]
        stated = (spans[0][0], spans[-1][1])
        return _compare(named, value == named.words, stated) if _says_nothing_else(claim, named, [stated]) else None
    found, cell = _RANGE.search(claim.masked_text), _CELL_RANGE.fullmatch(named.text.strip())
    if found is None or cell is None or not _says_nothing_else(claim, named, [found.span()]):
        return None
    return _compare(named, found.groups() == cell.groups(), found.span())


def names_empty_cell(claim: RowClaim) -> bool:
    """Return whether the named cell says that there is nothing, and the claim does not: `Ravi works on Thursday`."""
    named = _find_named_cell(claim)
    return (
        named is not None
        and load_word_list("lacking").issuperset(named.words)
        and _find_stated_value(claim, named) is None
    )


def _compare(named: _NamedCell, is_true: bool, stated: Span) -> RowFinding:
    return RowFinding(is_true, [named.row_index], named.column, None if is_true else stated)


def _find_named_cell(claim: RowClaim) -> _NamedCell | None:
    """Return the cell of the only row and the only column that the claim names.

    Return None if the claim does not name exactly one of each, if it has a "not", if the cell is empty, or if no other column
    has any of the same cells.
    """
    naming = {row.column for row in claim.mentions}
    columns = [
        column
        for column, name in enumerate(claim.table.column_words)
        if column not in naming and name and all(matches_any_word(word, claim.folded) for word in name)
    ]
    if len(claim.row_indices) != 1 or len(columns) != 1 or count_negators(claim.folded):
        return None
    (index,), (column,) = claim.row_indices, columns
    cells = set(filter(split_cell, claim.table.list_cells(column)))
    others = (other for other in range(len(claim.table.columns)) if other not in (column, *naming))
    alike = frozenset(other for other in others if not cells.isdisjoint(claim.table.list_cells(other)))
    text = claim.table.rows[index][column]
    words = split_cell(text)
    return _NamedCell(index, column, text, words, alike) if alike and words else None


def _find_stated_value(claim: RowClaim, named: _NamedCell) -> Row | None:
    """Return the only cell of the named column, or of one that is alike, whose words the claim has."""
    columns = (named.column, *named.alike)
    values = {split_cell(cell) for column in columns for cell in claim.table.list_cells(column)}
    stated = [value for value in values if any(map(str.isalpha, "".join(value))) and set(value).issubset(claim.folded)]
    return stated[0] if len(stated) == 1 else None


def _says_nothing_else(claim: RowClaim, named: _NamedCell, stated: list[Span]) -> bool:
    """Return whether all other words name the row or the column, or join them: "is", "has", "works", "on"."""
    name = claim.table.column_words[named.column]
    joining = load_word_list("joining_cells")
    rest = [word for word in claim.words if not any(start <= word.start < end for start, end in stated)]
    return all(word.word in joining or matches_any_word(word.word, name) for word in rest)
