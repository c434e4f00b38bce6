"""Detect why sources give no single answer: they contradict each other, or the question is ambiguous.

"The bridge has 4 lanes" contradicts "The bridge has 6 lanes". The question "What is a jaguar?" is ambiguous if one source is
titled "Jaguar (animal)" and another one "Jaguar (car)".
"""

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from modules.llm_platform.domain.extractive.candidates import Candidate
from modules.llm_platform.domain.extractive.question import WEAK_WEIGHT, Question
from modules.llm_platform.domain.text.negation import count_negators, load_negation_words
from modules.llm_platform.domain.text.tokens import split_words

MAX_CONFLICT_CANDIDATES = 12  # candidates, best first
CLOSE_TO_TOP = 0.7  # only candidates with this share of the best score are compared
SAME_STATEMENT = 0.7  # sentences say the same if they share this much of the words of the longer one, without numbers
SAME_STATEMENT_NEGATED = 0.75  # the same share, if only one of them is negated
MIN_STATEMENT_WORDS = 4
MAX_MEANINGS = 5
MAX_SUBJECT_WORDS = 3

_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_YEAR = re.compile(r"(?:1[5-9]|20)\d\d")
_VERSION = re.compile(r"\b[A-Za-z][\w-]{0,60}[ -]v?\d+(?:\.\d+)+|\bv\d+(?:\.\d+)*\b|\b\d+\.\d+\.\d+")
_UNSPACED_NEGATION = re.compile("不|没|未|ない|ません|않|없")
# "Mercury (planet)", "Mercury (planet) - An Encyclopedia"; "Mercury, the planet"; fullwidth brackets too.
_QUALIFIED = re.compile(r"^\s*(?P<base>[^\s()（）|][^()（）|]{0,59}?)\s*[(（](?P<qualifier>[^()（）]{2,50})[)）]")
_APPOSED = re.compile(
    r"^\s*(?P<base>[^,|]{1,40}),\s+(?P<qualifier>(?:the|an?|der|die|das|le|la|el|il|o)\s[^,|(]{2,40})\s*(?:[|–—-]|$)"
)


def find_conflict(candidates: Sequence[Candidate], *, of_figures: bool = True) -> tuple[Candidate, Candidate] | None:
    """Return the best pair of sentences of different sources that contradict each other, the better-ranked one first.

    Without `of_figures`, different figures are not a contradiction: one sentence must deny what the other says.
    """
    if not candidates:
        return None
    floor = CLOSE_TO_TOP * candidates[0].score
    near = [one for one in candidates if one.score >= floor and not one.attachments and not one.sentence.row]
    if not of_figures and len({_is_negated(one) for one in near}) < 2:
        return None
    compared = itertools.islice((one for one in near if one.is_quotable), MAX_CONFLICT_CANDIDATES)
    for one, other in itertools.combinations(map(_Statement, compared), 2):
        if one.candidate.source_rank != other.candidate.source_rank and _are_contradictory(
            one, other, of_figures=of_figures
        ):
            return one.candidate, other.candidate
    return None


class _Statement:
    """A sentence, prepared for comparison. `words` has no numbers and negations."""

    def __init__(self, candidate: Candidate) -> None:
        negators = load_negation_words().negators
        self.candidate = candidate
        self.words = {
            word
            for word in candidate.words
            if not (_NUMBER.fullmatch(word) or word in negators or _UNSPACED_NEGATION.fullmatch(word))
        }
        self.numbers = frozenset(_NUMBER.findall(candidate.sentence.text))
        # `Python 3.11` and `Python 3.12` are different subjects.
        self.versions = {found.casefold() for found in _VERSION.findall(candidate.sentence.text)}


def _are_contradictory(one: _Statement, other: _Statement, *, of_figures: bool) -> bool:
    if min(len(one.words), len(other.words)) < MIN_STATEMENT_WORDS:
        return False
    alike = len(one.words & other.words) / max(len(one.words), len(other.words))
    if alike < SAME_STATEMENT or one.versions != other.versions:
        return False
    if of_figures and _numbers_differ(one.numbers, other.numbers):
        return True
    is_denied = _is_negated(one.candidate) != _is_negated(other.candidate)
    return alike >= SAME_STATEMENT_NEGATED and is_denied and one.numbers == other.numbers


def states_same_fact(one: Candidate, side: Candidate, other: Candidate) -> bool:
    """Return whether a sentence says what `side` of a conflict says, and not what `other` says.

    If the sides differ in figures, the sentence must have the figures that only `side` has, and none that only `other` has. If
    one side denies the other, the sentence must have the words of `side` and be negated like it.
    """
    figures, mine, theirs = (set(_NUMBER.findall(found.sentence.text)) for found in (one, side, other))
    if mine - theirs and theirs - mine:
        return mine - theirs <= figures and not (theirs - mine) & figures
    first, second = _Statement(one).words, _Statement(side).words
    alike = len(first & second) / max(1, len(first), len(second))
    return alike >= SAME_STATEMENT and figures == mine and _is_negated(one) == _is_negated(side)


def _numbers_differ(mine: frozenset[str], theirs: frozenset[str]) -> bool:
    """Return whether each has a number that the other lacks. If years differ too, they are about different times."""
    only_mine, only_theirs = mine - theirs, theirs - mine
    if not only_mine or not only_theirs:
        return False
    years = [{number for number in only if _YEAR.fullmatch(number)} for only in (only_mine, only_theirs)]
    dated = all(years)
    others = bool(only_mine - years[0] and only_theirs - years[1])
    return not (dated and others)


def _is_negated(one: Candidate) -> bool:
    """Return whether the sentence has an odd number of negations. Two negations cancel each other."""
    count = count_negators([word.replace("’", "'") for word in one.words])
    return (count + len(_UNSPACED_NEGATION.findall(one.sentence.text))) % 2 == 1


@dataclass(frozen=True, slots=True)
class Meaning:
    """One meaning of the question, and the sentence that describes it."""

    title: str
    opening: Candidate


@dataclass(frozen=True, slots=True)
class Meanings:
    """The ambiguous word as the sources write it, and its meanings, best source first."""

    subject: str
    meanings: tuple[Meaning, ...]


def find_meanings(question: Question, candidates: Sequence[Candidate]) -> Meanings | None:
    """Return the meanings of an ambiguous question; None when the question is not ambiguous."""
    asked = {term.word for term in question.terms if term.weight > WEAK_WEIGHT}
    if not 0 < len(asked) <= MAX_SUBJECT_WORDS:
        return None
    openings: dict[int, Candidate] = {}  # by source rank: the best sentence of each source that can be understood alone
    for one in candidates:
        if not one.is_dependent and not one.attachments and not one.sentence.row:
            openings.setdefault(one.source_rank, one)
    found: dict[str, tuple[str, Meaning]] = {}
    for source_rank in sorted(openings):
        opening = openings[source_rank]
        title = _QUALIFIED.match(opening.source.title) or _APPOSED.match(opening.source.title)
        if not title or set(split_words(title["base"])) != asked:
            continue
        qualifier = " ".join(split_words(title["qualifier"]))
        found.setdefault(qualifier, (title["base"], Meaning(title.group().rstrip(" |–—-"), opening)))
    if len(found) < 2:
        return None
    subject = next(iter(found.values()))[0]
    return Meanings(subject, tuple(meaning for _, meaning in found.values())[:MAX_MEANINGS])
