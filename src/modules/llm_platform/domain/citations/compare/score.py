"""The probability that a source supports a sentence: a logistic regression over a few shares and counts.

`scripts/fit_citation_check.py` fits the weights of `citation_weights.json` to labelled sentences.
"""

from collections.abc import Sequence
from functools import cache
from math import exp, log1p
from typing import Final, NamedTuple

from modules.llm_platform.domain.citations.compare.comparison import Comparison
from modules.llm_platform.domain.citations.compare.name_mismatches import count_missing_names
from modules.llm_platform.domain.citations.compare.number_mismatches import count_missing_numbers
from modules.llm_platform.domain.citations.compare.replaced_words import is_word_replaced
from modules.llm_platform.domain.citations.read.claims import Claim
from modules.llm_platform.domain.text.data_files import load_data

GRAM_CHARS: Final = 4
MIN_CLAUSE_WORDS: Final = 2  # content words


class Features(NamedTuple):
    """The inputs of the score. Shares are 0..1. Counts are logarithmic, so each further item adds less."""

    grams: float  # share of the sentence's runs of four characters in the passage; also matches inflected forms
    weakest_clause: float  # share of content words in the passage, for the clause with the lowest share
    numbers: float  # numbers of the claim
    missing_numbers: float  # numbers that are in no sentence about the claim
    missing_names: float  # names that the whole source lacks
    replaced: float  # 1 if the claim copies a sentence with a word replaced


class Weights(NamedTuple):
    """The weights of the features, and the scores of verdicts.

    - `partial` and `supported` are the lowest scores that give these verdicts.
    - `refuted` is the highest score of an unsupported sentence.
    """

    bias: float
    features: Features
    partial: float
    supported: float
    refuted: float


@cache
def load_score_weights() -> Weights:
    data = load_data("citation_weights")
    return Weights(data["bias"], Features(**data["features"]), data["partial"], data["supported"], data["refuted"])


def compute_features(compared: Comparison) -> Features:
    """Return the features of a claim and the passage that fits it best."""
    claim = compared.claim
    return Features(
        grams=_measure_shared_grams(claim.facts.normalized, compared.passage_facts.normalized),
        weakest_clause=_measure_weakest_clause(claim, compared.passage.matched),
        numbers=log1p(len(claim.numbers)),
        missing_numbers=log1p(count_missing_numbers(compared)),
        missing_names=log1p(count_missing_names(compared)),
        replaced=float(is_word_replaced(compared)),
    )


def compute_probability(features: Sequence[float]) -> float:
    """Return the probability that a sentence with these features is supported, 0 to 1."""
    fitted = load_score_weights()
    return 1 / (
        1 + exp(-fitted.bias - sum(weight * value for weight, value in zip(fitted.features, features, strict=True)))
    )


def _measure_weakest_clause(claim: Claim, matched: int) -> float:
    """Return the lowest share of matched content words among the clauses of the claim. Short clauses do not count."""
    clauses = [claim.content & clause for clause in claim.clauses]
    long = [clause for clause in clauses if clause.bit_count() >= MIN_CLAUSE_WORDS] or [claim.content]
    return min((clause & matched).bit_count() / clause.bit_count() for clause in long)


def _measure_shared_grams(words: str, text: str) -> float:
    """Return the share of the runs of four characters of `words` that `text` has; both are normalized."""
    runs = [words[at : at + GRAM_CHARS] for at in range(len(words) - GRAM_CHARS + 1)]
    return sum([run in text for run in runs]) / len(runs) if runs else 0.0
