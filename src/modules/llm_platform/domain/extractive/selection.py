"""Choose the sentences of the sources that answer a question, without a model.

Best source first and its sentences in their order; a sentence of another source needs three quarters of the top score;
what hangs on the sentence before it brings that one along; repetition is left out; three good sentences beat six. Where
neither the question's rare words nor a passage near to it are found, nothing is chosen.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from modules.llm_platform.domain.dtos.research_dtos import Source
from modules.llm_platform.domain.extractive.blocks import Block, strip_markup
from modules.llm_platform.domain.extractive.candidates import (
    LONG_WORDS,
    TITLE_CREDIT,
    Candidate,
    find_candidates,
    overlap,
    same_table,
)
from modules.llm_platform.domain.extractive.question import EXACT_WEIGHT, WEAK_WEIGHT, Question, TermMatcher
from modules.llm_platform.domain.extractive.scoring import Weights, coverage, judge_passages, score, subjects, weigh
from modules.llm_platform.domain.extractive.sentences import Sentence, blocks_of
from modules.llm_platform.domain.text.tokens import words

MAX_QUOTES = 3  # of an answer to a question of one part
MAX_QUOTES_A_PART = 2
OTHER_SOURCE_FLOOR = 0.75  # of the top score
SAME_SOURCE_FLOOR = 0.7
ANSWERS_FROM = 0.41  # share of the question's rare words that what is chosen must hold
LEADER_ANSWERS_FROM = 0.5  # and its best sentence alone, where one thing was asked
PART_ANSWERS_FROM = 0.3
OTHER_PARTS_WEIGHT = 0.15
REPEATS_FROM = 0.6  # shared content words, of the shorter sentence
REPETITION_COST = 0.35
NEIGHBOUR_FLOOR = 0.2  # of the score of the sentence that a neighbour is taken with
PART_GAIN = 0.1  # share of a part's terms that a further sentence must add
LOOKED_AT = 30  # candidates, best first, that conflicts and readings are looked for in


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


@dataclass(slots=True)
class Extraction:
    """What was chosen, in the order to be read, and all that could have been, best first."""

    quotes: list[Quote]
    candidates: list[Candidate]


def select_quotes(question: Question, sources: Sequence[Source]) -> Extraction:
    """The quotes that answer, none when the sources do not."""
    matcher = TermMatcher(question.terms)
    candidates = find_candidates(question, sources, [blocks_of(source.text) for source in sources], matcher)
    weights = weigh(question, candidates, subjects(sources, matcher))
    judge_passages(candidates, weights)
    chosen: list[Candidate] = []
    for part in range(len(question.parts)):
        chosen += _choose(part, question, candidates, weights, chosen)
    ranked = sorted(candidates, key=lambda one: (-one.score, one.rank, one.sentence.position))
    fit = [one for one in ranked[:LOOKED_AT] if one.tells]
    chosen = [one for one in chosen if not any(other is not one and _tells_in_list(other, one) for other in chosen)]
    if coverage(chosen, weights.subject, range(len(weights.subject))) < ANSWERS_FROM or lacks_exact(question, chosen):
        return Extraction([], fit)
    return Extraction(_in_reading_order(chosen, fit), fit)


def _choose(
    part: int,
    question: Question,
    candidates: Sequence[Candidate],
    weights: Weights,
    taken: Sequence[Candidate],
) -> list[Candidate]:
    """The sentences for one part of the question; none when what is taken already answers it, or nothing does."""
    single, asked = len(question.parts) == 1, question.parts[part]
    focus = [weight * (1.0 if number in asked else OTHER_PARTS_WEIGHT) for number, weight in enumerate(weights.ranking)]
    scores = {id(one): score(one, focus, weights, asked, part) for one in candidates}
    ranked = sorted((one for one in candidates if one.fit and one.direct), key=lambda one: (-scores[id(one)], one.rank))
    known = coverage(taken, weights.subject, asked)
    leader = next((one for one in ranked if group_of(one) and one not in taken), None)
    if leader is None:
        return []
    reach = coverage([leader, *taken], weights.subject, asked)
    if reach < (LEADER_ANSWERS_FROM if single else PART_ANSWERS_FROM) or (taken and reach - known < PART_GAIN):
        return []
    behind = {id(one.before): one for one in candidates if one.before is not None}
    top, limit = scores[id(leader)], MAX_QUOTES if single else MAX_QUOTES_A_PART
    chosen: list[Candidate] = []
    for one in ranked:
        if len(chosen) >= limit:
            break
        floor = top * (SAME_SOURCE_FLOOR if one.rank == leader.rank else OTHER_SOURCE_FLOOR)
        group = [member for member in group_of(one) if member not in chosen and member not in taken]
        repeats = max((overlap(one, other) for other in (*taken, *chosen)), default=0.0)
        if any(shows(other, one) for other in (*taken, *chosen)):
            continue
        if not group or repeats >= REPEATS_FROM or len(chosen) + len(group) > limit:
            continue
        if scores[id(one)] - REPETITION_COST * repeats * top >= floor:
            chosen += group
            if one is leader and single and one.sentence.term:
                chosen += _going_on(one, behind, limit - len(chosen))
    return chosen


def _going_on(one: Candidate, behind: Mapping[int, Candidate], most: int) -> list[Candidate]:
    """The sentences right behind the one that explains a term: they tell more of it than the next best elsewhere."""
    found: list[Candidate] = []
    following = behind.get(id(one))
    while following is not None and len(found) < most and not (found or [one])[-1].follows:
        whole = following.tells and following.sentence.whole and len(following.words) <= LONG_WORDS
        if not whole or not (following.hanging or following.score >= NEIGHBOUR_FLOOR * one.score):
            break
        found.append(following)
        following = behind.get(id(following))
    return found


def lacks_exact(question: Question, chosen: Sequence[Candidate]) -> bool:
    """Whether an option, sign or identifier of the question stands nowhere in what was chosen, nor above it."""
    exact = [number for number, term in enumerate(question.terms) if term.weight >= EXACT_WEIGHT]
    return any(all(one.met.get(number, 0.0) < TITLE_CREDIT for one in chosen) for number in exact)


def _tells_in_list(taken: Candidate, one: Candidate) -> bool:
    return any(one.sentence.text in strip_markup(block.text) for block in taken.follows)


def shows(taken: Candidate, one: Candidate) -> bool:
    """Whether what was taken is shown with what this one says."""
    return same_table(taken, one) or _tells_in_list(taken, one)


def group_of(one: Candidate) -> list[Candidate]:
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
    return [Quote(one.sentence, one.source, one.lead, one.above, one.follows, says_the_same(one, fit)) for one in told]


def says_the_same(one: Candidate, fit: Sequence[Candidate]) -> list[int]:
    """Other sources that hold the very same words."""
    same = {other.source.index for other in fit if other.rank != one.rank and other.words == one.words}
    return sorted(same)


# Find two sources that say the same thing of different numbers, or one of them with a not.


CONFLICTS_AMONG = 12  # candidates, best first
CLOSE_TO_TOP = 0.7  # of the best score: what is not shown need not be compared
SAME_STATEMENT = 0.7  # shared words other than numbers, of the longer sentence
SAME_STATEMENT_NEGATED = 0.75
MIN_WORDS = 4

_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_YEAR = re.compile(r"(?:1[5-9]|20)\d\d")
_VERSION = re.compile(r"\b[A-Za-z][\w-]*[ -]v?\d+(?:\.\d+)+|\bv\d+(?:\.\d+)*\b|\b\d+\.\d+\.\d+")
_NEGATION = re.compile(
    r"\b(?:not|no|never|cannot|without|neither|nor|none|nicht|kein\w*|nie|niemals|ohne|ne|pas|jamais|aucun\w*|sans"
    r"|nunca|jamás|ningún|ninguna"
    r"|sin|non|mai|nessun\w*|senza|não|nem|sem|нет|не|нельзя|никогда|без|niet|geen|nooit|zonder|nie|bez)\b"
    r"|\w+n['’]t\b|不|没|未|ない|ません|않|없",
    re.IGNORECASE,
)


def find_conflict(candidates: Sequence[Candidate]) -> tuple[Candidate, Candidate] | None:
    """The best pair of sentences of different sources that contradict each other, better-ranked one first."""
    if not candidates:
        return None
    floor = CLOSE_TO_TOP * candidates[0].score
    near = [
        one for one in candidates[:CONFLICTS_AMONG] if one.score >= floor and not one.follows and not one.sentence.row
    ]
    for one, other in itertools.combinations(near, 2):
        if one.source.index != other.source.index and _contradict(one, other):
            return one, other
    return None


def _contradict(one: Candidate, other: Candidate) -> bool:
    first, second = _statement(one), _statement(other)
    if min(len(first), len(second)) < MIN_WORDS:
        return False
    alike = len(first & second) / max(len(first), len(second))
    if alike < SAME_STATEMENT or _versions(one) != _versions(other):
        return False
    if _numbers_differ(one.sentence.text, other.sentence.text):
        return True
    return alike >= SAME_STATEMENT_NEGATED and _negations(one) != _negations(other) and _same_numbers(one, other)


def _statement(one: Candidate) -> set[str]:
    """The words that are no numbers and no negation."""
    return {word for word in one.words if not _NUMBER.fullmatch(word) and not _NEGATION.fullmatch(word)}


def _numbers_differ(one: str, other: str) -> bool:
    """Each has a number that the other lacks. Where the years differ too, it is two times, not two opinions."""
    mine, theirs = set(_NUMBER.findall(one)), set(_NUMBER.findall(other))
    only_mine, only_theirs = mine - theirs, theirs - mine
    if not only_mine or not only_theirs:
        return False
    years = [{number for number in only if _YEAR.fullmatch(number)} for only in (only_mine, only_theirs)]
    dated = all(years)
    others = bool(only_mine - years[0] and only_theirs - years[1])
    return not (dated and others)


def _same_numbers(one: Candidate, other: Candidate) -> bool:
    return set(_NUMBER.findall(one.sentence.text)) == set(_NUMBER.findall(other.sentence.text))


def _negations(one: Candidate) -> int:
    return len(_NEGATION.findall(one.sentence.text)) % 2


def _versions(one: Candidate) -> set[str]:
    """Numbers that belong to a name: `Python 3.11` and `Python 3.12` are two things."""
    return {found.casefold() for found in _VERSION.findall(one.sentence.text)}


# See when a short question has several readings: sources on Mercury (planet) and Mercury (element).


MAX_READINGS = 5
MAX_SUBJECT_WORDS = 3

# "Mercury (planet)", "Mercury (planet) - An Encyclopedia"; "Mercury, the planet"; fullwidth brackets too.
_QUALIFIED = re.compile(r"^\s*(?P<base>[^()（）|]{1,60}?)\s*[(（](?P<qualifier>[^()（）]{2,50})[)）]")
_APPOSED = re.compile(
    r"^\s*(?P<base>[^,|]{1,40}),\s+(?P<qualifier>(?:the|an?|der|die|das|le|la|el|il|o)\s[^,|(]{2,40})\s*(?:[|–—-]|$)"
)


@dataclass(frozen=True, slots=True)
class Reading:
    """One thing that the question may mean, and the sentence that says what it is."""

    title: str
    opening: Candidate


@dataclass(frozen=True, slots=True)
class Readings:
    """The ambiguous word as the sources write it, and what it can mean, best source first."""

    subject: str
    readings: tuple[Reading, ...]


def find_readings(question: Question, candidates: Sequence[Candidate]) -> Readings | None:
    """The readings when the question names nothing that would choose between them; None when it does."""
    asked = {term.word for term in question.terms if term.weight > WEAK_WEIGHT}
    if not 0 < len(asked) <= MAX_SUBJECT_WORDS:
        return None
    found: dict[str, tuple[str, Reading]] = {}
    for opening in _openings(candidates):
        title = _QUALIFIED.match(opening.source.title) or _APPOSED.match(opening.source.title)
        if not title or set(words(title["base"])) != asked:
            continue
        qualifier = " ".join(words(title["qualifier"]))
        found.setdefault(qualifier, (title["base"], Reading(title.group().rstrip(" |–—-"), opening)))
    if len(found) < 2:
        return None
    readings = tuple(reading for _, reading in found.values())[:MAX_READINGS]
    return Readings(next(iter(found.values()))[0], readings)


def _openings(candidates: Sequence[Candidate]) -> list[Candidate]:
    """For each source, best first, the sentence that fits the question best and stands by itself."""
    best: dict[int, Candidate] = {}
    for one in candidates:
        if not one.hanging and not one.follows and not one.sentence.row:
            best.setdefault(one.rank, one)
    return [best[rank] for rank in sorted(best)]
