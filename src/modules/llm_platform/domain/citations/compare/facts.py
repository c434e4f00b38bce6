"""Compare the facts of a claim with the passage that fits it best: numbers with units, dates, names, identifiers, denials.

Each rule takes a `Comparison` and returns the `Change` that refutes the claim, or None. `verdicts` turns it into a verdict.
"""

from modules.llm_platform.domain.citations.compare.bindings import is_act_of_another
from modules.llm_platform.domain.citations.compare.changed_names import find_changed_name
from modules.llm_platform.domain.citations.compare.changed_numbers import (
    count_missing_numbers,
    find_changed_date,
    find_changed_number,
    find_replaced_date,
)
from modules.llm_platform.domain.citations.compare.changes import Change
from modules.llm_platform.domain.citations.compare.comparison import Comparison
from modules.llm_platform.domain.citations.compare.contrasts import find_contrast
from modules.llm_platform.domain.citations.compare.denials import find_denial


def find_change(compared: Comparison) -> Change | None:
    """Return the first fact that refutes the claim: a number, unit, date, name, identifier or denial. None without one.

    The sentence with the other fact must otherwise say the same.
    """
    return (
        find_changed_number(compared)
        or find_changed_date(compared)
        or find_changed_name(compared)
        or find_denial(compared)
        or find_contrast(compared)
        or find_replaced_date(compared)
    )


def is_partial_at_best(compared: Comparison) -> bool:
    """Return whether the source lacks a number of the claim, or makes the claim about another subject."""
    if count_missing_numbers(compared):
        return True
    best = compared.list_sentences_like_best()
    return all(is_act_of_another(compared.claim, compared.read_facts(sentence)) for sentence in best)
