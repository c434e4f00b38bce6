"""Find opposites between a claim and its source that no other comparison finds.

| a claim says | its source says | function |
|---|---|---|
| all positions | 74 of the 90 positions | `compare_quantities` |
| voted for the budget, supported it | voted against it | `compare_stances` |
| until 30 June | after 30 June | `compare_times` |
| 600 euros a year, £32 an hour | 600 euros once, £32 for half an hour | `compare_periods` |
| at least three years | at most three years | `compare_bounds` |
| grew by 12 percent in the south | grew by 12 percent in the north and fell by 4 percent in the south | `compare_clauses` |
| children pay £8 | adults pay £12, children £5 and pensioners £8 | `compare_items` |
| Ole is the chair | Ina Berg (chair), Ole Hansen (treasurer) | `compare_roles` |
| 工会支持 | 工会反对 | `compare_han_verbs` |

Each comparison takes a claim and one sentence, and requires the same words around the two opposites. It returns the spans of
the opposites. None means that there are no opposites, or that one text has both.
"""

from collections.abc import Callable
from typing import Final

from modules.llm_platform.domain.citations.compare.comparison import Comparison
from modules.llm_platform.domain.citations.compare.listed_numbers import compare_items
from modules.llm_platform.domain.citations.compare.mismatches import Mismatch, SpanPair
from modules.llm_platform.domain.citations.compare.number_contrasts import (
    compare_bounds,
    compare_clauses,
    compare_periods,
)
from modules.llm_platform.domain.citations.compare.word_contrasts import (
    compare_han_verbs,
    compare_quantities,
    compare_roles,
    compare_stances,
    compare_times,
)
from modules.llm_platform.domain.citations.read.claims import Claim, TextFacts
from modules.llm_platform.domain.text.positions import SentenceNumber

COMPARISONS: Final[tuple[Callable[[Claim, TextFacts], SpanPair | None], ...]] = (
    compare_quantities,
    compare_stances,
    compare_times,
    compare_periods,
    compare_bounds,
    compare_clauses,
    compare_items,
    compare_roles,
    compare_han_verbs,
)


def find_contrast(compared: Comparison) -> Mismatch | None:
    """Return the opposite in the best sentence, or in a sentence of the passage that adds words of the claim.

    None if another sentence shares the words of the best one and has no opposite.
    """
    best, *alike = compared.list_sentences_like_best()
    contrast = _find_contrast_in(compared, best)
    if contrast is None:
        added = (_find_contrast_in(compared, sentence) for sentence in compared.list_sentences_beside_best())
        return next((found for found in added if found is not None), None)
    return contrast if all(_find_contrast_in(compared, sentence) is not None for sentence in alike) else None


def _find_contrast_in(compared: Comparison, sentence: SentenceNumber) -> Mismatch | None:
    """Return the first opposites that a comparison finds in a sentence of the source; None if there are none."""
    claim, facts = compared.claim, compared.read_facts(sentence)
    spans = next((spans for compare in COMPARISONS if (spans := compare(claim, facts)) is not None), None)
    if spans is None:
        return None
    claimed, found = spans
    are_numbers = claim.text[claimed[0]].isdigit() and facts.text[found[0]].isdigit()
    return Mismatch("number" if are_numbers else "negation", claimed, compared.locate(sentence, found))
