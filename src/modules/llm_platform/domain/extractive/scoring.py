"""How well a sentence fits a question: its share of the question's words by rarity, its source, its shape, its place."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from modules.llm_platform.domain.dtos.research_dtos import Source
from modules.llm_platform.domain.extractive.candidates import Candidate, met_terms
from modules.llm_platform.domain.extractive.question import INFLECTED, NAME_WEIGHT, WEAK_WEIGHT, Question, TermMatcher
from modules.llm_platform.domain.text.tokens import words

SOURCE_CREDIT = 0.25  # a term anywhere in the source counts this much for each of its sentences
PASSAGE_SHARE = 0.15  # of the score: how well the whole source fits
RANK_STEP = 0.05  # what each place in the list of sources costs
OFF_SUBJECT = 0.4  # factor for a source that lacks a name which others have
BESIDE_SUBJECT = 0.7  # factor for one that holds it somewhere, where others have it in their title
SHARPNESS = 1.5  # exponent on the share of terms: a sentence with one term less is a lot less
SUBJECT_TITLE_WORDS = 3  # a title of more words names no subject


@dataclass(frozen=True, slots=True)
class Weights:
    """What each term counts; one that stands nowhere is the rarest.

    `ranking` is by rarity alone and tells sentences apart. `subject` raises names and words that are titles and tells
    whether the sources are about the question at all; `names` are those terms, as far as they stand in some source,
    `titles` those of them that are in a title.
    """

    ranking: list[float]
    subject: list[float]
    names: frozenset[int]
    titles: frozenset[int]


def subjects(sources: Sequence[Source], matcher: TermMatcher) -> set[int]:
    """The terms that are the title or the address of some source, or nearly: they are likely what is asked about."""
    titles = [words(title) for source in sources for title in (source.title, _page(source.url))]
    return {number for title in titles if len(title) <= SUBJECT_TITLE_WORDS for number in met_terms(title, matcher)}


def _page(url: str) -> str:
    """What a page is called in its address: `asyncio-task` of `https://docs.example.org/library/asyncio-task.html`."""
    name = url.rstrip("/").rpartition("/")[2].partition("?")[0]
    return name.rpartition(".")[0] or name


def weigh(question: Question, candidates: Sequence[Candidate], titles: set[int]) -> Weights:
    total = max(len(candidates), 1)
    counts = [0] * len(question.terms)
    for candidate in candidates:
        for number, credit in candidate.met.items():
            counts[number] += credit >= INFLECTED
    rarity = [math.log(1.0 + total / max(count, 1)) for count in counts]
    subject = [
        term.weight if term.weight == WEAK_WEIGHT or number not in titles else max(term.weight, NAME_WEIGHT)
        for number, term in enumerate(question.terms)
    ]
    names = frozenset(number for number, weight in enumerate(subject) if weight >= NAME_WEIGHT and counts[number])
    return Weights(
        ranking=[min(term.weight, 1.0) * rare for term, rare in zip(question.terms, rarity, strict=True)],
        subject=[weight * rare for weight, rare in zip(subject, rarity, strict=True)],
        names=names,
        titles=names & titles,
    )


def judge_passages(candidates: Sequence[Candidate], weights: Weights) -> None:
    """Give each candidate the fit of its whole source, and its score for the whole question."""
    everything = range(len(weights.ranking))
    for _, group in itertools.groupby(candidates, key=lambda one: one.rank):
        members = list(group)
        passage = coverage(members, weights.ranking, everything)
        around = dict.fromkeys((number for one in members for number in one.met), SOURCE_CREDIT)
        for one in members:
            one.met = around | {number: max(credit, SOURCE_CREDIT) for number, credit in one.met.items()}
            one.passage = passage
            one.score = score(one, weights.ranking, weights, everything)


def score(
    one: Candidate, focus: Sequence[float], weights: Weights, asked: Iterable[int], part: int | None = None
) -> float:
    sharp: float = _share(one.met, focus) ** SHARPNESS
    fits = (1 - PASSAGE_SHARE) * sharp + PASSAGE_SHARE * one.passage
    names = weights.names.intersection(asked)
    subject = 1.0
    if names - one.met.keys():
        subject = OFF_SUBJECT
    elif any(one.met[number] <= SOURCE_CREDIT for number in names & weights.titles):
        subject = BESIDE_SUBJECT
    quality = max(one.qualities) if part is None else one.qualities[part]
    return fits * quality * subject / (1 + RANK_STEP * one.rank)


def _share(met: Mapping[int, float], weights: Sequence[float]) -> float:
    total = sum(weights)
    return sum(weights[number] * credit for number, credit in met.items()) / total if total else 0.0


def coverage(chosen: Iterable[Candidate], weights: Sequence[float], numbers: Iterable[int]) -> float:
    """The share of these terms, by weight, that the candidates hold together."""
    met: dict[int, float] = {}
    for one in chosen:
        for number, credit in one.met.items():
            met[number] = max(met.get(number, 0.0), credit)
    own = {number: weights[number] for number in numbers}
    total = sum(own.values())
    return sum(weight * met.get(number, 0.0) for number, weight in own.items()) / total if total else 0.0
