"""Check a claimed total or average of a column: `Lyon had 1,865 visitors in total`."""

from statistics import fmean
from typing import Final

from modules.llm_platform.domain.extractive.question import read_question
from modules.llm_platform.domain.extractive.summed_rows import asks_for_sum, find_summed_rows
from modules.llm_platform.domain.extractive.tables import is_total
from modules.llm_platform.domain.row_claims.claim import RowClaim, RowFinding, equals
from modules.llm_platform.domain.row_claims.source_tables import MASK, mask

ROUNDED_TO: Final = (0, 1, 2)  # decimals: an average may be rounded


def check_sum(claim: RowClaim) -> RowFinding | None:
    """Return whether the only number of a claim is the total or the average of the rows that it names; None if it claims neither.

    A table with a row of totals is left to the other checks.
    """
    is_readable = claim.source.is_whole and not claim.is_question and not claim.is_approximate
    if not is_readable or len(claim.amounts) != 1 or any(map(is_total, claim.table.rows)):
        return None
    (amount,) = claim.amounts
    question = read_question(mask(claim.full_text, [amount.span]).replace(MASK, ""), claim.language)
    found = find_summed_rows(question, [claim.table], []) if asks_for_sum(question) else None
    if found is None:
        return None
    column = found.table.columns.index(found.column)
    values = [value for at in found.row_indices if (value := found.table.quantities[column].values[at]) is not None]
    if found.sum_kind == "total":
        is_true = equals(sum(values), amount.value)
    else:
        is_true = any(equals(round(fmean(values), places), amount.value) for places in ROUNDED_TO)
    return RowFinding(is_true, found.row_indices, claimed=None if is_true else amount.span, needs_all_rows=True)
