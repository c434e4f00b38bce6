"""Compare named rows with the average of all rows: `Is the carpet cleaner cheaper than the average?`"""

import math

from modules.llm_platform.domain.extractive.comparatives import (
    ComparedMeasure,
    Comparison,
    compares_otherwise,
    find_comparisons,
)
from modules.llm_platform.domain.extractive.compared_columns import holds_measure
from modules.llm_platform.domain.extractive.measures import list_asked_measures
from modules.llm_platform.domain.extractive.summed_rows import compute_average, compute_figure
from modules.llm_platform.domain.extractive.table_words import load_word_list, matches_any_word
from modules.llm_platform.domain.extractive.tables import is_total
from modules.llm_platform.domain.row_claims.claim import RowClaim, RowFinding
from modules.llm_platform.domain.row_claims.comparisons import choose_compared_column, list_values
from modules.llm_platform.domain.text.negation import count_negators


def compares_with_average(claim: RowClaim) -> bool:
    """Return whether a claim compares named rows with an average: `more than average`, `twice the average`."""
    if not claim.mentions or load_word_list("average").isdisjoint(claim.folded):
        return False
    has_factor = any(not load_word_list(kind).isdisjoint(claim.folded) for kind in ("twice", "half", "times"))
    found = find_comparisons(claim.folded, claim.language)
    return has_factor or any(_is_of_average(claim, compared) for compared in found)


def _is_of_average(claim: RowClaim, compared: Comparison) -> bool:
    return not load_word_list("average").isdisjoint(claim.folded[compared.than + 1 :])


def compare_with_average(claim: RowClaim) -> RowFinding | None:
    """Return whether the named rows have more, or less, than the average; None if it is uncertain what a claim compares.

    A claim that is not a question is only confirmed, because it may mean another average.
    """
    compared = _find_comparison(claim)
    if compared is None:
        return None
    found = [one for by in compared.measures if (one := _compare(claim, compared, by)) is not None]
    if len({one.is_true for one in found}) != 1:
        return None
    return found[0] if found[0].is_true or claim.is_question else None


def _find_comparison(claim: RowClaim) -> Comparison | None:
    """Return the only comparison of a claim, if it is one of named rows with the average of a whole table."""
    found = find_comparisons(claim.folded, claim.language)
    if len(found) != 1 or not claim.mentions or not claim.has_consistent_mentions or not claim.source.is_whole:
        return None
    (compared,) = found
    is_named_before = all(row.end <= claim.words[compared.than].start for row in claim.mentions)
    says_more = claim.amounts or claim.spelled_amounts or claim.date or count_negators(claim.folded)
    is_alone = not says_more and not compares_otherwise(claim.folded, compared)
    has_totals = any(map(is_total, claim.table.rows))
    return compared if _is_of_average(claim, compared) and is_named_before and is_alone and not has_totals else None


def _compare(claim: RowClaim, compared: Comparison, by: ComparedMeasure) -> RowFinding | None:
    found = None if by.is_of_dates else choose_compared_column(claim, by.measure)
    values = list_values(found, claim.row_indices)
    if found is None or not values or not _is_meant(claim, compared, found[0]):
        return None
    column, all_values = found[0], found[1].values
    average = compute_average(claim.table, all_values)
    if average is None:
        return None
    sign = 1 if by.direction == "more" else -1
    is_true = all(sign * value > sign * average and not math.isclose(value, average) for value in values)
    indices = [index for index, value in enumerate(all_values) if value is not None]
    figure = compute_figure([claim.table.rows[index][column] for index in indices], "average")
    span = claim.words[compared.at][1:]
    return RowFinding(is_true, indices, column, span, needs_all_rows=True, average=figure)


def _is_meant(claim: RowClaim, compared: Comparison, column: int) -> bool:
    """Return whether the column holds what a claim measures, and each word names it, or the rows: no `national average`."""
    table, sought = claim.table, list_asked_measures(claim.folded)
    is_sought = not sought or any(holds_measure(one, table.columns[column], table.quantities[column]) for one in sought)
    names = [table.column_words[index] for index in {column, *(row.column for row in claim.mentions)}]
    left_out = load_word_list("average").union(claim.folded[compared.start : compared.at + 1])
    others = [word for word in claim.content if word not in left_out and not table.is_in_title(word)]
    return is_sought and all(any(matches_any_word(word, name) for name in names) for word in others)
