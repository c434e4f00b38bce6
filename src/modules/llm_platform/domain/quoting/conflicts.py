"""Find two sources that say the same thing of different numbers, or one of them with a not."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from modules.llm_platform.domain.quoting.candidates import Candidate

LOOKED_AT = 12  # candidates, best first
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
    near = [one for one in candidates[:LOOKED_AT] if one.score >= floor and not one.follows and not one.sentence.row]
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
