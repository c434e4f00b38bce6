"""What of a claim a passage lacks: single words, which are most often another wording, and whole statements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from modules.llm_platform.domain.checking.claims import Claim, Word
from modules.llm_platform.domain.checking.words import is_unspaced

LONG_RUN = 4  # content words in a row that the passage does not have: something was added
LONG_UNSPACED_RUN = 9  # the same in pairs of characters
MIN_UNKNOWN_WORDS = 2  # in a clause that says something of its own
ADDED_COVER = 0.34  # of a clause that the passage knows nothing of
WHOLE_CLAUSE_COVER = 0.8  # of a clause that is there as a whole
MIN_BORNE_OUT_WORDS = 2
BORNE_OUT_COVER = 0.5  # of the clause that it was added to


@dataclass(frozen=True, slots=True)
class Run:
    """Content words of the claim in a row that the passage does not have, and the places of the first and the last."""

    words: tuple[Word, ...]
    first: int
    last: int


def cover_of(claim: Claim, matched: Sequence[bool], places: range) -> float:
    """The share of the weight of these words that the passage has."""
    total = sum(claim.weights[place] for place in places)
    return sum(claim.weights[place] for place in places if matched[place]) / total if total else 0.0


def added_places(claim: Claim, matched: Sequence[bool]) -> set[int]:
    """The places of whole statements that the passage knows nothing of: clauses, and long runs of words.

    In a sentence without a clause that is borne out, nothing was added to anything.
    """
    if not _says_something(_unknown(claim, matched, range(len(matched)))):
        return set()
    added = {place for run in runs_of(claim, matched) if _is_long(run) for place in range(run.first, run.last + 1)}
    clauses = claim.clauses
    if len(clauses) > 1:
        covers = [cover_of(claim, matched, clause) for clause in clauses]
        if max(covers) >= BORNE_OUT_COVER:
            for clause, cover in zip(clauses, covers, strict=True):
                if cover <= ADDED_COVER and _says_something(_unknown(claim, matched, clause)):
                    added.update(clause)
    return added


def _unknown(claim: Claim, matched: Sequence[bool], places: range) -> list[Word]:
    return [claim.words[place] for place in places if claim.words[place].is_content and not matched[place]]


def _says_something(words: Sequence[Word]) -> bool:
    """Whether words make a statement, and not just a name or one hyphenated word."""
    return len(words) >= MIN_UNKNOWN_WORDS and not all(word.is_name or word.is_identifier or word.is_part for word in words)


def bears_out_a_clause(claim: Claim, matched: Sequence[bool]) -> bool:
    """Whether one of several clauses is there as a whole."""
    clauses = claim.clauses
    return len(clauses) > 1 and any(
        cover_of(claim, matched, clause) >= WHOLE_CLAUSE_COVER
        and sum(claim.words[place].is_content for place in clause) >= MIN_BORNE_OUT_WORDS
        for clause in clauses
    )


def runs_of(claim: Claim, matched: Sequence[bool]) -> Iterator[Run]:
    places: list[int] = []
    for place, word in enumerate(claim.words):
        if word.is_content and not matched[place]:
            places.append(place)
        elif word.is_content and places:
            yield Run(tuple(claim.words[at] for at in places), places[0], places[-1])
            places = []
    if places:
        yield Run(tuple(claim.words[at] for at in places), places[0], places[-1])


def _is_long(run: Run) -> bool:
    """Whether the run is a statement of its own rather than a changed fact or another wording."""
    if is_unspaced(run.words[0].key):
        return len(run.words) >= LONG_UNSPACED_RUN
    return len(run.words) >= LONG_RUN and not all(word.is_name for word in run.words)
