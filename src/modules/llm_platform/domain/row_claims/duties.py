"""Check claims that say who is named in a row of a rota: "Sami locks up in the week of 27 April".

Several columns of a rota have the same names, and each name is in many rows. A claim therefore names the row by its date or by
its first cell, and the column by its own words. A claim without a column is true if any column of the row has the name.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from modules.llm_platform.domain.extractive.dated_rows import list_rows_of_day
from modules.llm_platform.domain.extractive.limits import read_limits
from modules.llm_platform.domain.extractive.table_words import load_word_list, split_cell
from modules.llm_platform.domain.extractive.tables import Row
from modules.llm_platform.domain.row_claims.claim import MAX_UNCOVERED, RowClaim, RowFinding
from modules.llm_platform.domain.row_claims.source_tables import list_placed_words
from modules.llm_platform.domain.text.negation import count_negators

MIN_ROWS: Final = 3  # rows that a rota has at least


class _Duty(NamedTuple):
    """What a claim says: a name, as the words of a cell, for rows and columns of a rota."""

    name: Row
    row_indices: list[int]
    columns: list[int]


def check_duty(claim: RowClaim) -> RowFinding | None:
    """Return whether the cells of the claimed rows and column have the name; None if a row, a name or a column is uncertain."""
    duty = _read_duty(claim)
    if duty is None:
        return None
    rows = [claim.table.rows[index] for index in duty.row_indices]
    has_name = [any(split_cell(row[column]) == duty.name for column in duty.columns) for row in rows]
    of_all = load_word_list("every") | load_word_list("both")
    if len(set(has_name)) > 1 and of_all.isdisjoint(claim.folded):
        return None  # on one of two evenings
    if all(has_name):
        return RowFinding(True, duty.row_indices, duty.columns[0])
    spans = [word[1:] for word in list_placed_words(claim.full_text) if word.word in duty.name]
    return RowFinding(False, duty.row_indices, duty.columns[0], (spans[0][0], spans[-1][1]))


def _read_duty(claim: RowClaim) -> _Duty | None:
    """Return the duty of a claim that says nothing else; None for an amount, a limit, a "not" or "is ill"."""
    if claim.amounts or count_negators(claim.folded) or read_limits(claim.masked_text):
        return None
    if not load_word_list("absent").isdisjoint(claim.folded):
        return None
    words = [word.word for word in list_placed_words(claim.full_text)]
    named = set(claim.table.list_columns_by_own_words(words)) - {0, *claim.table.dates}
    columns = _list_columns_of_names(claim, named)
    names = _keep_longest({cell for column in columns for cell in _list_stated(claim, column, words)})
    indices = _find_rows(claim, columns, words)
    if not indices or len(names) != 1 or len(named) > 1 or not named.issubset(columns):
        return None
    (name,) = names
    cells = {split_cell(cell) for index in indices for cell in claim.table.rows[index]}
    told = {*name, *(word for cell in cells if set(cell).issubset(words) for word in cell)}
    if _count_unknown(claim, told) > (MAX_UNCOVERED if named else 0):
        return None
    return _Duty(name, indices, sorted(named) or columns)


def _find_rows(claim: RowClaim, columns: list[int], words: list[str]) -> list[int]:
    """Return the indices of the only row with the date of the claim, or of the rows with a cell that the claim states.

    That is the first cell of a row, or a cell of another column than `columns`, such as the film of two evenings.
    """
    named = {row.row_index for row in claim.mentions if row.column == 0 and not row.is_part}
    day, dates = claim.date, claim.table.dates
    if len(claim.table.rows) < MIN_ROWS or len(named) > 1 or (named and day):
        return []
    if named:
        return list(named)
    if day is None:
        others = [column for column in range(len(claim.table.columns)) if column not in {*columns, *dates}]
        stated = _keep_longest({cell for column in others for cell in _list_stated(claim, column, words)})
        return [
            index
            for index, row in enumerate(claim.table.rows)
            if len(stated) == 1 and stated & set(map(split_cell, row))
        ]
    found, _ = list_rows_of_day(claim.table, day)
    return found if len(found) == 1 else []


def _keep_longest(cells: set[Row]) -> set[Row]:
    """Return the cells that are not a part of another one."""
    return {cell for cell in cells if not any(set(cell) < set(other) for other in cells)}


def _list_columns_of_names(claim: RowClaim, named: set[int]) -> list[int]:
    """Return the columns that share a cell with another one, and the `named` ones with equal cells.

    If there are none, return the only column with equal cells.
    """
    left_out = {0, *claim.table.dates, *claim.table.quantities, *claim.table.flags}
    columns = [column for column in range(len(claim.table.columns)) if column not in left_out]
    cells = {column: set(filter(None, map(split_cell, claim.table.list_cells(column)))) for column in columns}
    alike = {one for one in columns for other in columns if one != other and not cells[one].isdisjoint(cells[other])}
    repeated = [column for column in columns if len(cells[column]) < len(claim.table.rows)]
    found = alike | named.intersection(repeated)
    return sorted(found) if found else repeated if len(repeated) == 1 else []


def _list_stated(claim: RowClaim, column: int, words: list[str]) -> list[Row]:
    """Return the cells of a column whose words are all in the claim."""
    lacking = load_word_list("lacking")
    cells = {split_cell(cell) for cell in claim.table.list_cells(column)}
    return [cell for cell in cells if cell and not lacking.issuperset(cell) and set(cell).issubset(words)]


def _count_unknown(claim: RowClaim, told: set[str]) -> int:
    """Return the number of content words that neither the table nor the stated cells have."""
    left = [word for word in claim.content if word not in told and word not in load_word_list("duties")]
    return len(left) - claim.table.count_matches(left)
