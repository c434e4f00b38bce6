"""Check claims that say who is named in a row of a rota: "Sami locks up in the week of 27 April".

Several columns of a rota have the same names, and each name is in many rows. A claim therefore names the row by its date or by
its first cell, and the column by its own words. A claim without a column is true if any column of the row has the name.
"""

from __future__ import annotations

from typing import Final

from modules.llm_platform.domain.extractive.limits import read_limits
from modules.llm_platform.domain.extractive.quantities import YEARS
from modules.llm_platform.domain.extractive.table_words import load_word_list, split_cell
from modules.llm_platform.domain.extractive.tables import Row
from modules.llm_platform.domain.row_claims.claim import MAX_UNCOVERED, RowClaim, RowFinding
from modules.llm_platform.domain.row_claims.source_tables import list_placed_words
from modules.llm_platform.domain.text.negation import count_negators

MIN_ROWS: Final = 3  # of a rota


def check_duty(claim: RowClaim) -> RowFinding | None:
    """Return whether the cell of the claimed row and column has the name; None if a row, a name or a column is uncertain."""
    index = _find_row(claim)
    if index is None or claim.amounts or count_negators(claim.folded) or read_limits(claim.masked_text):
        return None
    words = list_placed_words(claim.full_text)
    folded = [word.word for word in words]
    columns = _list_columns_of_names(claim)
    stated = {cell for column in columns for cell in _list_stated(claim, column, folded)}
    stated = {cell for cell in stated if not any(set(cell) < set(other) for other in stated)}
    named = set(claim.table.list_columns_by_own_words(folded)) - {0, *claim.table.dates}
    if len(stated) != 1 or len(named) > 1 or not named.issubset(columns):
        return None
    (name,) = stated
    if _count_unknown(claim, name) > MAX_UNCOVERED:
        return None
    kept = sorted(named) or columns
    is_true = any(split_cell(claim.table.rows[index][column]) == name for column in kept)
    spans = [word[1:] for word in words if word.word in name]
    return RowFinding(is_true, [index], kept[0], None if is_true else (spans[0][0], spans[-1][1]))


def _find_row(claim: RowClaim) -> int | None:
    """Return the index of the only row with the date of the claim, or of the row whose first cell the claim names."""
    named = {row.row_index for row in claim.mentions if row.column == 0 and not row.is_part}
    day, dates = claim.date, claim.table.dates
    if len(claim.table.rows) < MIN_ROWS:
        return None
    if day is None:
        return min(named) if len(named) == 1 else None
    if len(dates) != 1 or named:
        return None
    (column,) = dates.values()
    values = [value if value is None or day.first >= YEARS else value % YEARS for value in column.values]
    found = [index for index, value in enumerate(values) if value is not None and day.first <= value <= day.last]
    return found[0] if len(found) == 1 else None


def _list_columns_of_names(claim: RowClaim) -> list[int]:
    """Return the columns that share a cell with another column; if there are none, the only column with equal cells."""
    left_out = {0, *claim.table.dates, *claim.table.quantities, *claim.table.flags}
    columns = [column for column in range(len(claim.table.columns)) if column not in left_out]
    cells = {column: set(filter(None, map(split_cell, claim.table.list_cells(column)))) for column in columns}
    alike = [
        one for one in columns if any(one != other and not cells[one].isdisjoint(cells[other]) for other in columns)
    ]
    repeated = [column for column in columns if len(cells[column]) < len(claim.table.rows)]
    return alike or (repeated if len(repeated) == 1 else [])


def _list_stated(claim: RowClaim, column: int, words: list[str]) -> list[Row]:
    """Return the cells of a column whose words are all in the claim."""
    lacking = load_word_list("lacking")
    cells = {split_cell(cell) for cell in claim.table.list_cells(column)}
    return [cell for cell in cells if cell and not lacking.issuperset(cell) and set(cell).issubset(words)]


def _count_unknown(claim: RowClaim, name: Row) -> int:
    """Return the number of content words that neither the table nor the stated name has."""
    left = [word for word in claim.content if word not in name]
    return len(left) - claim.table.count_matches(left)
