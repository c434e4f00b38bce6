"""Count the independent sources on each side of a disagreement."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from modules.llm_platform.domain.extractive.candidates import Candidate
from modules.llm_platform.domain.extractive.conflicts import states_same_fact

NEIGHBOURS: Final = 2  # the neighbourhood of a sentence has this many sentences on each side of it
SHINGLE_WORDS: Final = 3
SAME_SUBJECT: Final = 0.5  # a voice needs this share of the question's words that the disputed sentence has
SAME_TEXT: Final = 0.8  # neighbourhoods are copies if they share this much of the shingles of the shorter one


@dataclass(frozen=True, slots=True)
class Side:
    """One of two sentences that contradict each other, and how many independent sources say the same."""

    sentence: Candidate
    voices: int


def find_sides(conflict: tuple[Candidate, Candidate], candidates: Sequence[Candidate]) -> tuple[Side, Side]:
    """Return both sides of a conflict with their voices among the sentences of all sources."""
    one, other = conflict
    return Side(one, _count_voices(one, other, candidates)), Side(other, _count_voices(other, one, candidates))


def _count_voices(side: Candidate, other: Candidate, candidates: Sequence[Candidate]) -> int:
    """Return how many sources say what `side` says. Sources with nearly the same neighbourhood are one voice."""
    of_source = {side.source_rank: side}
    enough = SAME_SUBJECT * sum(side.credits.values())
    for candidate in candidates:
        shared = sum(min(credit, candidate.credits.get(number, 0.0)) for number, credit in side.credits.items())
        if shared >= enough and states_same_fact(candidate, side, other):
            of_source.setdefault(candidate.source_rank, candidate)
    neighbourhoods: list[frozenset[tuple[str, ...]]] = []
    for candidate in of_source.values():
        shingles = _make_shingles(_list_words_around(candidate, candidates))
        if all(len(shingles & known) < SAME_TEXT * min(len(shingles), len(known)) for known in neighbourhoods):
            neighbourhoods.append(shingles)
    return len(neighbourhoods)


def _list_words_around(one: Candidate, candidates: Sequence[Candidate]) -> list[str]:
    """Return the words of a sentence and of its neighbours."""
    position = one.sentence.position
    near = [
        other
        for other in candidates
        if other.source_rank == one.source_rank and abs(other.sentence.position - position) <= NEIGHBOURS
    ]
    return [word for other in near for word in other.words]


def _make_shingles(words: Sequence[str]) -> frozenset[tuple[str, ...]]:
    """Return the runs of SHINGLE_WORDS words; a shorter text is one run."""
    ends = range(SHINGLE_WORDS, max(SHINGLE_WORDS, len(words)) + 1)
    return frozenset(tuple(words[end - SHINGLE_WORDS : end]) for end in ends)
