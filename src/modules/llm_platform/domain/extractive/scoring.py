"""Score how well a sentence answers a question: by its terms and their rarity, its source, its form and its rank."""

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from modules.llm_platform.domain.extractive.candidates import Candidate
from modules.llm_platform.domain.extractive.question import INFLECTED_CREDIT, NAME_WEIGHT, Question

SOURCE_CREDIT = 0.25  # every sentence gets this credit for a term that is anywhere in its source
PASSAGE_SHARE = 0.15  # the match of the whole source makes up this share of the score
RANK_STEP = 0.05  # the score is divided by 1 plus this times the rank of the source
OFF_SUBJECT = 0.4  # factor for a sentence without a name of the question that another source has
SHARPNESS = 1.5  # exponent on the share of terms


@dataclass(frozen=True, slots=True)
class Weights:
    """The weight of each term. A term that no source has counts as the rarest.

    - `ranking` ranks sentences. It weighs terms by rarity, and names no higher than other terms.
    - `subject` decides whether the sources are about the question at all. It weighs names higher.
    - `names` are the names of the question that at least one source has.
    """

    ranking: list[float]
    subject: list[float]
    names: frozenset[int]


def weigh(question: Question, candidates: Sequence[Candidate]) -> Weights:
    total = max(len(candidates), 1)
    counts = [0] * len(question.terms)
    for candidate in candidates:
        for number, credit in candidate.met.items():
            counts[number] += credit >= INFLECTED_CREDIT
    rarity = [math.log(1.0 + total / max(count, 1)) for count in counts]
    names = frozenset(n for n, term in enumerate(question.terms) if term.weight >= NAME_WEIGHT and counts[n])
    return Weights(
        ranking=[min(term.weight, 1.0) * rare for term, rare in zip(question.terms, rarity, strict=True)],
        subject=[term.weight * rare for term, rare in zip(question.terms, rarity, strict=True)],
        names=names,
    )


def score_candidates(candidates: Sequence[Candidate], weights: Weights) -> None:
    """Set the `passage` and `score` of each candidate, and add the terms of its source to `met`."""
    everything = range(len(weights.ranking))
    for _, group in itertools.groupby(candidates, key=lambda candidate: candidate.rank):
        members = list(group)
        passage = coverage(members, weights.ranking, everything)
        around = dict.fromkeys((number for candidate in members for number in candidate.met), SOURCE_CREDIT)
        for candidate in members:
            candidate.met = around | {number: max(credit, SOURCE_CREDIT) for number, credit in candidate.met.items()}
            candidate.passage = passage
            candidate.score = score(candidate, weights.ranking, weights, everything)


def best_first(candidate: Candidate) -> tuple[float, int, int]:
    """Return the sort key for the highest score first; equal scores keep the order of the sources and sentences."""
    return -candidate.score, candidate.rank, candidate.sentence.position


def score(candidate: Candidate, focus: Sequence[float], weights: Weights, asked: Iterable[int]) -> float:
    """Return how well the sentence matches the terms, weighted by `focus`, in its source and by its form."""
    total = sum(focus)
    share = sum(focus[number] * credit for number, credit in candidate.met.items()) / total if total else 0.0
    sharp: float = share**SHARPNESS
    fits = (1 - PASSAGE_SHARE) * sharp + PASSAGE_SHARE * candidate.passage
    subject = OFF_SUBJECT if weights.names.intersection(asked) - candidate.met.keys() else 1.0
    return fits * candidate.quality * subject / (1 + RANK_STEP * candidate.rank)


def coverage(chosen: Iterable[Candidate], weights: Sequence[float], numbers: Iterable[int]) -> float:
    """Return the share of these terms that the candidates have together, weighted by `weights`."""
    met: dict[int, float] = {}
    for candidate in chosen:
        for number, credit in candidate.met.items():
            met[number] = max(met.get(number, 0.0), credit)
    own = {number: weights[number] for number in numbers}
    total = sum(own.values())
    return sum(weight * met.get(number, 0.0) for number, weight in own.items()) / total if total else 0.0
