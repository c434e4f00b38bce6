"""Score how well a sentence answers a question: by its terms and their rarity, its form, its source and source rank.

`weigh_terms` and `score_candidates` take the candidates of all sources. `selection` then chooses by the scores.
"""

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from modules.llm_platform.domain.extractive.candidates import Candidate, raise_credits
from modules.llm_platform.domain.extractive.question import INFLECTED_CREDIT, NAME_WEIGHT, Question

SOURCE_CREDIT = 0.25  # every sentence gets this credit for a term that is anywhere in its source
SOURCE_SHARE = 0.15  # the match of the whole source makes up this share of the score
RANK_STEP = 0.05  # the score is divided by 1 plus this times the rank of the source
OFF_SUBJECT = 0.4  # factor for the sentences of a source that lacks a name of the question which another source has
SHARPNESS = 1.5  # exponent on the share of terms


@dataclass(frozen=True, slots=True)
class TermWeights:
    """The weight of each term. A term that no source has counts as the rarest.

    - `ranking` ranks sentences. It weighs terms by rarity, and names no higher than other terms.
    - `subject` decides whether the sources are about the question at all. It weighs names higher.
    - `names` are the names of the question that at least one source has.
    """

    ranking: list[float]
    subject: list[float]
    names: frozenset[int]


def weigh_terms(question: Question, candidates: Sequence[Candidate]) -> TermWeights:
    total = max(len(candidates), 1)
    counts = [0] * len(question.terms)  # the candidates that have each term
    for candidate in candidates:
        for number, credit in candidate.credits.items():
            counts[number] += credit >= INFLECTED_CREDIT
    rarity = [math.log(1.0 + total / max(count, 1)) for count in counts]
    names = frozenset(
        number for number, term in enumerate(question.terms) if term.weight >= NAME_WEIGHT and counts[number]
    )
    return TermWeights(
        ranking=[min(term.weight, 1.0) * rare for term, rare in zip(question.terms, rarity, strict=True)],
        subject=[term.weight * rare for term, rare in zip(question.terms, rarity, strict=True)],
        names=names,
    )


def score_candidates(candidates: Sequence[Candidate], weights: TermWeights) -> None:
    """Set the `source_match` and `score` of each candidate, and add the terms of its source to `credits`."""
    all_terms = range(len(weights.ranking))
    for _, group in itertools.groupby(candidates, key=lambda candidate: candidate.source_rank):
        members = list(group)
        source_match = measure_coverage(members, weights.ranking, all_terms)
        around = dict.fromkeys((number for candidate in members for number in candidate.credits), SOURCE_CREDIT)
        for candidate in members:
            candidate.credits = around | {
                number: max(credit, SOURCE_CREDIT) for number, credit in candidate.credits.items()
            }
            candidate.source_match = source_match
            candidate.score = score_candidate(candidate, weights.ranking, weights, all_terms)


def get_rank_key(candidate: Candidate) -> tuple[float, int, int]:
    """Return the sort key for the highest score first; equal scores keep the order of the sources and sentences."""
    return -candidate.score, candidate.source_rank, candidate.sentence.position


def score_candidate(candidate: Candidate, focus: Sequence[float], weights: TermWeights, asked: Iterable[int]) -> float:
    """Return the score of a sentence. `focus` has the weight of each term.

    `asked` are the indices of terms. The score is multiplied by OFF_SUBJECT if one of `weights.names` is among them and the
    sentence has no credit for it.
    """
    total = sum(focus)
    share = sum(focus[number] * credit for number, credit in candidate.credits.items()) / total if total else 0.0
    sharp: float = share**SHARPNESS
    match = (1 - SOURCE_SHARE) * sharp + SOURCE_SHARE * candidate.source_match
    on_subject = OFF_SUBJECT if weights.names.intersection(asked) - candidate.credits.keys() else 1.0
    return match * candidate.quality * on_subject / (1 + RANK_STEP * candidate.source_rank)


def measure_coverage(chosen: Iterable[Candidate], weights: Sequence[float], numbers: Iterable[int]) -> float:
    """Return the share of these terms that the candidates have together, weighted by `weights`."""
    term_credits: dict[int, float] = {}
    for candidate in chosen:
        raise_credits(term_credits, candidate.credits.items())
    own = {number: weights[number] for number in numbers}
    total = sum(own.values())
    return sum(weight * term_credits.get(number, 0.0) for number, weight in own.items()) / total if total else 0.0
