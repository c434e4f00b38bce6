"""Choose the sentences of the sources that answer a question, without a model.

Best source first and its sentences in their order; a sentence of another source needs three quarters of the top score;
what hangs on the sentence before it brings that one along; repetition is left out; three good sentences beat six. Where
neither the question's rare words nor a passage near to it are found, nothing is chosen.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from modules.llm_platform.domain.dtos.research_dtos import Source
from modules.llm_platform.domain.quoting.blocks import Block
from modules.llm_platform.domain.quoting.candidates import Candidate, find_candidates, met_terms, overlap, same_table
from modules.llm_platform.domain.quoting.markup import clean
from modules.llm_platform.domain.quoting.question import INFLECTED, NAME_WEIGHT, WEAK_WEIGHT, Question, TermMatcher
from modules.llm_platform.domain.quoting.sentences import Sentence
from modules.llm_platform.domain.quoting.shape import LONG_WORDS
from modules.llm_platform.domain.text import words

MAX_QUOTES = 3  # of an answer to a question of one part
MAX_QUOTES_A_PART = 2
OTHER_SOURCE_FLOOR = 0.75  # of the top score
SAME_SOURCE_FLOOR = 0.7
ANSWERS_FROM = 0.41  # share of the question's rare words that what is chosen must hold
PART_ANSWERS_FROM = 0.3
SOURCE_CREDIT = 0.25  # a term anywhere in the source counts this much for each of its sentences
OTHER_PARTS_WEIGHT = 0.15
PASSAGE_SHARE = 0.15  # of the score: how well the whole source fits
RANK_STEP = 0.05  # what each place in the list of sources costs
OFF_SUBJECT = 0.4  # factor for a source that lacks a name which others have
BESIDE_SUBJECT = 0.7  # factor for one that holds it somewhere, where others have it in their title
REPEATS_FROM = 0.6  # shared content words, of the shorter sentence
REPETITION_COST = 0.35
PART_GAIN = 0.1  # share of a part's terms that a further sentence must add
SHARPNESS = 1.5  # exponent on the share of terms: a sentence with one term less is a lot less
LOOKED_AT = 30  # candidates, best first, that conflicts and readings are looked for in
SUBJECT_TITLE_WORDS = 3  # a title of more words names no subject


@dataclass(slots=True)
class Quote:
    """A sentence that was chosen. `follows` are the blocks that it announces, `also` other sources that say the same.

    `lead` is said before it, `above` is the code that it speaks of.
    """

    sentence: Sentence
    source: Source
    lead: str = ""
    above: Block | None = None
    follows: tuple[Block, ...] = ()
    also: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Weights:
    """What each term counts; one that stands nowhere is the rarest.

    `ranking` is by rarity alone and tells sentences apart. `subject` raises names and words that are titles and tells
    whether the sources are about the question at all; `names` are those terms, as far as they stand in some source,
    `titles` those of them that are in a title.
    """

    ranking: list[float]
    subject: list[float]
    names: frozenset[int]
    titles: frozenset[int]


@dataclass(slots=True)
class Extraction:
    """What was chosen, in the order to be read, and all that could have been, best first."""

    quotes: list[Quote]
    candidates: list[Candidate]


def extract(question: Question, sources: Sequence[Source]) -> Extraction:
    """The quotes that answer, none when the sources do not."""
    matcher = TermMatcher(question.terms)
    candidates = find_candidates(question, sources, matcher)
    weights = _weigh(question, candidates, _subjects(sources, matcher))
    _judge_passages(candidates, weights)
    chosen: list[Candidate] = []
    for part in range(len(question.parts)):
        chosen += _choose(part, question, candidates, weights, chosen)
    ranked = sorted(candidates, key=lambda one: (-one.score, one.rank, one.sentence.position))
    fit = [one for one in ranked[:LOOKED_AT] if one.tells]
    if _coverage(chosen, weights.subject, range(len(weights.subject))) < ANSWERS_FROM:
        return Extraction([], fit)
    return Extraction(_in_reading_order(chosen, fit), fit)


def _subjects(sources: Sequence[Source], matcher: TermMatcher) -> set[int]:
    """The terms that are the title or the address of some source, or nearly: they are likely what is asked about."""
    titles = [words(title) for source in sources for title in (source.title, _page(source.url))]
    return {number for title in titles if len(title) <= SUBJECT_TITLE_WORDS for number in met_terms(title, matcher)}


def _page(url: str) -> str:
    """What a page is called in its address: `asyncio-task` of `https://docs.example.org/library/asyncio-task.html`."""
    name = url.rstrip("/").rpartition("/")[2].partition("?")[0]
    return name.rpartition(".")[0] or name


def _weigh(question: Question, candidates: Sequence[Candidate], titles: set[int]) -> _Weights:
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
    return _Weights(
        ranking=[min(term.weight, 1.0) * rare for term, rare in zip(question.terms, rarity, strict=True)],
        subject=[weight * rare for weight, rare in zip(subject, rarity, strict=True)],
        names=names,
        titles=names & titles,
    )


def _judge_passages(candidates: Sequence[Candidate], weights: _Weights) -> None:
    """Give each candidate the fit of its whole source, and its score for the whole question."""
    everything = range(len(weights.ranking))
    for _, group in itertools.groupby(candidates, key=lambda one: one.rank):
        members = list(group)
        passage = _coverage(members, weights.ranking, everything)
        around = dict.fromkeys((number for one in members for number in one.met), SOURCE_CREDIT)
        for one in members:
            one.met = around | {number: max(credit, SOURCE_CREDIT) for number, credit in one.met.items()}
            one.passage = passage
            one.score = _score(one, weights.ranking, weights, everything)


def _score(one: Candidate, focus: Sequence[float], weights: _Weights, asked: Iterable[int], part: int | None = None) -> float:
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


def _coverage(chosen: Iterable[Candidate], weights: Sequence[float], numbers: Iterable[int]) -> float:
    """The share of these terms, by weight, that the candidates hold together."""
    met: dict[int, float] = {}
    for one in chosen:
        for number, credit in one.met.items():
            met[number] = max(met.get(number, 0.0), credit)
    own = {number: weights[number] for number in numbers}
    total = sum(own.values())
    return sum(weight * met.get(number, 0.0) for number, weight in own.items()) / total if total else 0.0


def _choose(
    part: int,
    question: Question,
    candidates: Sequence[Candidate],
    weights: _Weights,
    taken: Sequence[Candidate],
) -> list[Candidate]:
    """The sentences for one part of the question; none when what is taken already answers it, or nothing does."""
    single, asked = len(question.parts) == 1, question.parts[part]
    focus = [weight * (1.0 if number in asked else OTHER_PARTS_WEIGHT) for number, weight in enumerate(weights.ranking)]
    scores = {id(one): _score(one, focus, weights, asked, part) for one in candidates}
    ranked = sorted((one for one in candidates if one.fit and one.direct), key=lambda one: (-scores[id(one)], one.rank))
    known = _coverage(taken, weights.subject, asked)
    leader = next((one for one in ranked if _group(one) and one not in taken), None)
    if leader is None:
        return []
    reach = _coverage([leader, *taken], weights.subject, asked)
    if reach < PART_ANSWERS_FROM or (taken and reach - known < PART_GAIN):
        return []
    top, limit = scores[id(leader)], MAX_QUOTES if single else MAX_QUOTES_A_PART
    chosen: list[Candidate] = []
    for one in ranked:
        if len(chosen) >= limit:
            break
        floor = top * (SAME_SOURCE_FLOOR if one.rank == leader.rank else OTHER_SOURCE_FLOOR)
        group = [member for member in _group(one) if member not in chosen and member not in taken]
        repeats = max((overlap(one, other) for other in (*taken, *chosen)), default=0.0)
        if any(_shows(other, one) for other in (*taken, *chosen)):
            continue
        if not group or repeats >= REPEATS_FROM or len(chosen) + len(group) > limit:
            continue
        if scores[id(one)] - REPETITION_COST * repeats * top >= floor:
            chosen += group
    return chosen


def _shows(taken: Candidate, one: Candidate) -> bool:
    """Whether what was taken is shown with what this one says."""
    return same_table(taken, one) or any(one.sentence.text in clean(block.text) for block in taken.follows)


def _group(one: Candidate) -> list[Candidate]:
    """The sentence, with the one before it where it hangs on that; empty where that one cannot stand either."""
    if not one.tells:
        return []
    if not one.hanging:
        return [one]
    before = one.before
    if before is None or not before.tells or before.hanging or before.follows or not before.sentence.whole:
        return []
    return [before, one] if len(before.words) <= LONG_WORDS else []


def _in_reading_order(chosen: Sequence[Candidate], fit: Sequence[Candidate]) -> list[Quote]:
    """Sources as they were first chosen from, sentences as they stand in their source."""
    order: dict[int, int] = {}
    for one in chosen:
        order.setdefault(one.rank, len(order))
    told = sorted(chosen, key=lambda one: (order[one.rank], one.sentence.position))
    return [Quote(one.sentence, one.source, one.lead, one.above, one.follows, _says_the_same(one, fit)) for one in told]


def _says_the_same(one: Candidate, fit: Sequence[Candidate]) -> list[int]:
    """Other sources that hold the very same words."""
    same = {other.source.index for other in fit if other.rank != one.rank and other.words == one.words}
    return sorted(same)
