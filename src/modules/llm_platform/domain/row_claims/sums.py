"""Check a claimed total or average of a column: `Lyon had 1,865 visitors in total`."""

from statistics import fmean

from modules.llm_platform.domain.extractive.limits import read_limits
from modules.llm_platform.domain.extractive.question import read_question
from modules.llm_platform.domain.extractive.summed_rows import asks_for_sum, find_summed_rows
from modules.llm_platform.domain.extractive.table_words import load_word_list
from modules.llm_platform.domain.extractive.tables import is_total
from modules.llm_platform.domain.row_claims.claim import Amount, RowClaim, RowFinding, equals
from modules.llm_platform.domain.row_claims.source_tables import MASK, mask
from modules.llm_platform.domain.text.numbers import PERCENT


def check_sum(claim: RowClaim) -> RowFinding | None:
    """Return that the only number of a claim is the total or the average of the rows that it names; None if it is not.

    A sum confirms a claim and never refutes one, because another number may count or compare the rows. A table with a row of
    totals is left to the other checks.
    """
    is_readable = claim.source.is_whole and not claim.is_question and not claim.is_approximate
    if not is_readable or len(claim.amounts) != 1 or any(map(is_total, claim.table.rows)) or _is_about_parts(claim):
        return None
    (amount,) = claim.amounts
    question = read_question(mask(claim.full_text, [amount.span]).replace(MASK, ""), claim.language)
    found = find_summed_rows(question, [claim.table], []) if asks_for_sum(question) else None
    if found is None:
        return None
    column = found.table.quantities[found.table.columns.index(found.column)]
    values = [value for at in found.row_indices if (value := column.values[at]) is not None]
    if amount.unit and column.unit and amount.unit != column.unit:
        return None
    is_true = (
        equals(sum(values), amount.value) if found.sum_kind == "total" else _is_rounded(amount, fmean(values), claim)
    )
    return RowFinding(True, found.row_indices, needs_all_rows=True) if is_true else None


def _is_about_parts(claim: RowClaim) -> bool:
    """Return whether a claim is about a share of the total, a limit, or each row alone."""
    has_share = " of the total" in f" {' '.join(claim.folded)}" or PERCENT in claim.full_text
    return has_share or bool(read_limits(claim.full_text)) or not load_word_list("each").isdisjoint(claim.folded)


def _is_rounded(amount: Amount, value: float, claim: RowClaim) -> bool:
    """Return whether a claimed average is the exact one, rounded to the digits that the claim writes."""
    _, sign, decimals = claim.full_text[slice(*amount.span)].rpartition(".")
    places = len(decimals) - len(decimals.lstrip("0123456789")) if sign else 0
    return equals(value, amount.value) or abs(value - amount.value) <= 0.5 * 10.0**-places + 1e-9
