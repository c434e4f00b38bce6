"""See when a short question has several readings: sources on Mercury (planet) and Mercury (element)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from modules.llm_platform.domain.quoting.candidates import Candidate
from modules.llm_platform.domain.quoting.question import WEAK_WEIGHT, Question
from modules.llm_platform.domain.text import words

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
