"""Find opposites between a claim and its source that no other comparison finds.

| a claim says | its source says | function |
|---|---|---|
| all positions | 74 of the 90 positions | `compare_quantities` |
| voted for the budget | voted against it | `compare_stances` |
| everyone voted for it | three votes against | `compare_votes` |
| until 30 June | after 30 June | `compare_times` |
| 600 euros a year, £32 an hour | 600 euros once, £32 for half an hour | `compare_periods` |
| at least three years | at most three years | `compare_bounds` |
| grew by 12 percent in the south | grew by 12 percent in the north and fell by 4 percent in the south | `compare_clauses` |
| children pay £8 | adults pay £12, children £5 and pensioners £8 | `compare_items` |
| Ole is the chair | Ina Berg (chair), Ole Hansen (treasurer) | `compare_roles` |
| the rent is £700 | the rent increased from £700 to £750 | `compare_old_values` |
| the rent went down | the rent increased from £700 to £750 | `compare_directions` |
| parking is free | parking costs £5 | `compare_charges` |
| children are never admitted | children are admitted only if an adult is with them | `compare_exceptions` |
| 工会支持 | 工会反对 | `compare_han_verbs` |

Each comparison takes a claim and one sentence, and requires the same words around the two opposites. It returns the spans of
the opposites. None means that there are no opposites, or that one text has both.
"""

from collections.abc import Callable
from typing import Final

from modules.llm_platform.domain.citations.compare.changes import compare_directions, compare_old_values
from modules.llm_platform.domain.citations.compare.charges import compare_charges
from modules.llm_platform.domain.citations.compare.comparison import Comparison
from modules.llm_platform.domain.citations.compare.denied_alternatives import compare_exceptions
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
    compare_votes,
)
from modules.llm_platform.domain.citations.read.claims import Claim, TextFacts

COMPARISONS: Final[tuple[Callable[[Claim, TextFacts], SpanPair | None], ...]] = (
    compare_quantities,
    compare_stances,
    compare_votes,
    compare_times,
    compare_periods,
    compare_bounds,
    compare_clauses,
    compare_items,
    compare_roles,
    compare_old_values,
    compare_directions,
    compare_charges,
    compare_exceptions,
    compare_han_verbs,
)


def find_contrast(compared: Comparison) -> Mismatch | None:
    """Return the opposite in the best sentence; None if another sentence shares the same words and has no opposite."""
    best, *alike = compared.list_sentences_like_best()
    spans = _compare_with_sentence(compared.claim, compared.read_facts(best))
    if spans is None:
        return None
    if any(_compare_with_sentence(compared.claim, compared.read_facts(sentence)) is None for sentence in alike):
        return None
    claimed, found = spans
    theirs = compared.read_facts(best).text
    are_numbers = compared.claim.text[claimed[0]].isdigit() and theirs[found[0]].isdigit()
    return Mismatch("number" if are_numbers else "negation", claimed, compared.locate(best, found))


def _compare_with_sentence(claim: Claim, sentence: TextFacts) -> SpanPair | None:
    """Return the spans of the first opposites that a comparison finds; None if there is none."""
    return next((spans for compare in COMPARISONS if (spans := compare(claim, sentence)) is not None), None)
