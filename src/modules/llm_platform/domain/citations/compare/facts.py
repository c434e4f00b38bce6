"""Compare the facts of a claim with the passage that fits it best: numbers with units, dates, names, identifiers, denials.

Each rule takes a `Comparison` and returns the `Mismatch` that refutes the claim, or None. `verdicts` turns it into a verdict.
"""

from typing import Final

from modules.llm_platform.domain.citations.compare.bindings import is_act_of_another
from modules.llm_platform.domain.citations.compare.changes import says_other_direction
from modules.llm_platform.domain.citations.compare.comparison import Comparison
from modules.llm_platform.domain.citations.compare.contrasts import find_contrast
from modules.llm_platform.domain.citations.compare.denials import find_denial
from modules.llm_platform.domain.citations.compare.labelled_values import find_other_label
from modules.llm_platform.domain.citations.compare.mismatches import Mismatch
from modules.llm_platform.domain.citations.compare.name_mismatches import begins_with_other_word, find_name_mismatch
from modules.llm_platform.domain.citations.compare.number_mismatches import (
    count_missing_numbers,
    find_date_mismatch,
    find_number_mismatch,
    find_replaced_date,
)
from modules.llm_platform.domain.citations.compare.swapped_parts import find_swap, may_swap
from modules.llm_platform.domain.citations.compare.unasserted import find_denied_report, is_unasserted
from modules.llm_platform.domain.text.sentences import is_question

CLOSING_QUOTES: Final = ('"', "”", "’", "»", "“", "」", "』")


def find_mismatch(compared: Comparison) -> Mismatch | None:
    """Return the first fact that refutes the claim: a number, unit, date, name, identifier or denial. None without one.

    The sentence with the other fact must otherwise say the same.
    """
    return (
        find_number_mismatch(compared)
        or find_date_mismatch(compared)
        or find_name_mismatch(compared)
        or find_denied_report(compared)
        or find_denial(compared)
        or find_contrast(compared)
        or find_other_label(compared)
        or find_replaced_date(compared)
        or find_swap(compared)
    )


def is_partial_at_best(compared: Comparison) -> bool:
    """Return whether the claim can be partial at best.

    The source lacks one of its numbers, says or may say the same about another subject, or only asks, proposes or supposes it.
    """
    if (
        _is_only_asked(compared)
        or is_unasserted(compared)
        or says_other_direction(compared)
        or count_missing_numbers(compared)
        or may_swap(compared)
        or begins_with_other_word(compared)
    ):
        return True
    best = compared.list_sentences_like_best()
    return all(is_act_of_another(compared.claim, compared.read_facts(sentence)) for sentence in best)


def _is_only_asked(compared: Comparison) -> bool:
    """Return whether the source asks what the claim says, and does not answer: a question says nothing."""
    if is_question(compared.claim.text) or not _asks(compared.passage_facts.text):
        return False
    return all(_asks(compared.read_facts(sentence).text) for sentence in compared.list_sentences_like_best())


def _asks(text: str) -> bool:
    """Return whether a text is a question. `She asked, "Why?"` reports one."""
    bare = text.rstrip(" \t\r\n*_")
    return is_question(bare) and not bare.endswith(CLOSING_QUOTES)
