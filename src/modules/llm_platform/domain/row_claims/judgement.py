"""Judge claims about the rows of a table by what the cells say: `Tom is under 18`, `Ines is older than Ben`, `Three are paid`.

The words of such a claim are not in the table: a row has the age 16, but not the words "under 18". The claim is therefore read
like a question (`extractive.row_questions`), and the rows that it names are compared with the rows that answer that question.
There is no finding if it is uncertain what the claim compares, or if the claim also says something else.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from modules.llm_platform.domain.row_claims.averages import compare_with_average, compares_with_average
from modules.llm_platform.domain.row_claims.beyond_cells import is_beyond_cells, says_more_of_rows
from modules.llm_platform.domain.row_claims.claim import RowClaim, RowFinding, read_row_claims
from modules.llm_platform.domain.row_claims.comparisons import compare_named_rows, compares_rows, compares_with_unnamed
from modules.llm_platform.domain.row_claims.compound_claims import is_one_statement, split_statements
from modules.llm_platform.domain.row_claims.duties import check_duty
from modules.llm_platform.domain.row_claims.named_columns import check_named_column, names_empty_cell
from modules.llm_platform.domain.row_claims.row_sets import (
    check_cell,
    check_count,
    check_extreme,
    check_limit,
    check_list,
    counts_rows,
    has_limit_or_extreme,
)
from modules.llm_platform.domain.row_claims.source_tables import SourceTable
from modules.llm_platform.domain.row_claims.sums import check_sum

CHECKS: Final[Sequence[Callable[[RowClaim], RowFinding | None]]] = (
    check_extreme,
    check_limit,
    check_named_column,
    check_duty,
    check_cell,
    check_count,
    check_list,
)


class RowJudgement(NamedTuple):
    """What the tables of a source say about a claim.

    - `claim` and `finding` come from the only table that decides the claim. They are None if no table or several tables do.
    - `is_uncertain` is True if the claim compares or counts rows, but it is not certain what the cells say.
    - `has_other_number` is True if the claim is about one row, and has a number that only other rows have.
    """

    claim: RowClaim | None = None
    finding: RowFinding | None = None
    is_uncertain: bool = False
    has_other_number: bool = False


NOTHING: Final = RowJudgement()


def judge_rows(text: str, tables: Sequence[SourceTable], language: str, *, is_question: bool = False) -> RowJudgement:
    """Return what the tables say. `is_question` is True for a question, which is read more strictly."""
    if not tables:
        return NOTHING
    claims = list(read_row_claims(text, tables, language, is_question=is_question))
    found = [(claim, finding) for claim in claims if (finding := _check_claim(claim)) is not None]
    if len(found) == 1:
        return RowJudgement(*found[0])
    return RowJudgement(
        is_uncertain=any(map(_compares_or_counts, claims)), has_other_number=any(map(_has_other_number, claims))
    )


def _check_claim(claim: RowClaim) -> RowFinding | None:
    """Return what the cells say; None if the claim gives a reason or says more than the cells of single rows, except a sum."""
    if (added := check_sum(claim)) is not None:
        return added
    if is_beyond_cells(claim):
        return None
    return _check_statement(claim) if is_one_statement(claim) else _check_statements(split_statements(claim))


def _check_statements(statements: Sequence[Sequence[RowClaim]]) -> RowFinding | None:
    """Return what the cells say about all statements: false if one is wrong, None if one is uncertain."""
    found = [_check_interpretations(interpretations) for interpretations in statements]
    wrong = next((one for one in found if one is not None and one.is_true is False), None)
    if wrong is not None:
        return wrong
    known = [one for one in found if one is not None and one.is_true]
    indices = dict.fromkeys(index for one in known for index in one.row_indices)
    return RowFinding(True, list(indices)) if known and len(known) == len(found) else None


def _check_interpretations(interpretations: Sequence[RowClaim]) -> RowFinding | None:
    """Return the finding of a statement; None if its interpretations lead to different findings."""
    found = [_check_statement(claim) for claim in interpretations if is_one_statement(claim)]
    known = [one for one in found if one is not None]
    return known[0] if len({one.is_true for one in known}) == 1 else None


def _check_statement(claim: RowClaim) -> RowFinding | None:
    if compares_rows(claim):
        return compare_named_rows(claim)
    if compares_with_average(claim):
        return compare_with_average(claim)
    return next((finding for check in CHECKS if (finding := check(claim)) is not None), None)


def _has_other_number(claim: RowClaim) -> bool:
    """Return whether a claim about one row has a number without a unit that only other rows have: `ordered 40 slipcases`."""
    others = range(len(claim.table.rows))
    return len(claim.row_indices) == 1 and any(
        not one.unit and not claim.has_cell(one, claim.row_indices) and claim.has_cell(one, others)
        for one in claim.amounts
    )


def _compares_or_counts(claim: RowClaim) -> bool:
    """Return whether a claim compares or counts rows, so that shared words cannot decide it."""
    is_of_several = not is_one_statement(claim) or any(len(cells) > 1 for cells in claim.named_cells.values())
    joins_rows = len(claim.row_indices) > 1 and is_of_several  # `Tom plays the viola and Ines the cello`
    is_of_some = bool(claim.mentions) and has_limit_or_extreme(claim)
    return (
        joins_rows
        or is_of_some
        or names_empty_cell(claim)
        or says_more_of_rows(claim)
        or counts_rows(claim)
        or compares_rows(claim)
        or compares_with_unnamed(claim)
        or compares_with_average(claim)
    )
