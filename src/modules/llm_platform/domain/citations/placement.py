"""Where the source has the facts of a sentence: beside what the sentence says of them, or with something else.

A page has most figures and names somewhere. A fact is borne out by one of the sentences that say most of the clause it
stands in; where these have another fact of its kind instead, it was changed, wherever else on the page it stands.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass

from modules.llm_platform.domain.citations.alignment import Passage, SourceText
from modules.llm_platform.domain.citations.claims import Claim, TextFacts
from modules.llm_platform.domain.citations.mismatches import ARTICLES, own_names, replaces_a_name
from modules.llm_platform.domain.citations.numbers import Reading, numbers_in
from modules.llm_platform.domain.citations.words import is_same_word
from modules.llm_platform.domain.text.tokens import fold

MIN_CONTEXT = (
    2  # content words of a clause besides the fact; one with fewer says too little, and the whole claim counts
)
AS_GOOD = 0.9  # of what the best sentence says of the clause, that another must say to bear a fact out
FAIRLY = 0.5  # of the clause around a number, that a sentence far from the passage must say
OWN, BEFORE = 2, 1  # what a word counts in the sentence itself, and in one of the two before it
REACH = 2  # sentences before a passage and behind it that belong to it
SHORT_TEXT = 8  # sentences; a search result or an abstract is of one matter throughout
LOOK_BACK = 24  # characters before a number in which the word before it is looked for

_UNIT = re.compile(r"[0-9](?:[0-9.,'’:/\u00a0\u202f]*[0-9])?[\s\u00a0-]*([^\W\d_]+|[%€$£°])?")
_YEAR = re.compile(r"(?:1[1-9]|20|21)[0-9]{2}\Z")
_LAST_WORD = re.compile(r"([^\W_]+)\W*\Z")

FactsOf = Callable[[int], TextFacts]


@dataclass(frozen=True, slots=True)
class _Number:
    """What tells of what kind a number is: the words around it, folded, and whether it may be a year."""

    before: str
    unit: str
    is_year: bool

    def is_like(self, other: _Number) -> bool:
        if self.is_year and other.is_year:
            return True
        if self.unit and other.unit and is_same_word(self.unit, other.unit):
            return True
        return bool(self.before) and self.before == other.before


class FactPlacement:
    """The facts of one claim in one source."""

    def __init__(self, claim: Claim, source: SourceText, passage: Passage, facts_of: FactsOf) -> None:
        self._claim = claim
        self._source = source
        self._passage = passage
        self._facts_of = facts_of
        self._clauses = [(1 << clause.stop) - (1 << clause.start) for clause in claim.clauses]
        self._content = sum(1 << place for place, word in enumerate(claim.words) if word.is_content)

    def has_number_near(self, at: int) -> bool:
        """Whether a number that the passage lacks stands near it, or elsewhere with what the claim says around it."""
        place = max(0, bisect_right(self._claim.ats, at) - 1)
        clause, fact = next(self._contexts(place)), 1 << place
        enough = FAIRLY * OWN * clause.bit_count()
        near = range(self._passage.first - REACH, self._passage.last + REACH + 1)
        return any(
            mask & fact and mask != fact and (sentence in near or self._said(sentence, clause) >= enough)
            for sentence, mask in self._passage.masks.items()
        )

    def any_changed(self, added: Container[int]) -> bool:
        """Whether the sentences that say most of a clause have another number, name or identifier than the claim.

        Facts at the places `added` belong to statements that were added, and are not looked at.
        """
        claim = self._claim
        for reading, at, spelled in claim.numbers:
            place = max(0, bisect_right(claim.ats, at) - 1)
            if not spelled and place not in added and self._number_changed(reading, at, place):
                return True
        for place, word in enumerate(claim.words):
            if not word.is_content or place in added:
                continue
            if word.is_identifier:
                changed = self._identifier_changed(place)
            else:
                changed = word.written[0].isupper() and self._name_changed(place)
            if changed:
                return True
        return False

    def _number_changed(self, reading: Reading, at: int, place: int) -> bool:
        bearing = self._bearing(place, lambda facts: any(reading & known for known in facts.numbers))
        if not bearing:
            return False
        kind = _number_at(self._claim.text, at, reading)
        return any(
            kind.is_like(_number_at(facts.text, their_at, other))
            for facts in map(self._facts_of, bearing)
            for other, their_at in numbers_in(facts.text)
            if not any(other & mine for mine, _, _ in self._claim.numbers)
        )

    def _identifier_changed(self, place: int) -> bool:
        if not self._source.places_of(self._claim.keys[place]):
            return False  # the passage tells
        return any(
            self._facts_of(sentence).identifiers.difference(self._claim.keys) for sentence in self._bearing(place)
        )

    def _name_changed(self, place: int) -> bool:
        if not self._source.places_of(self._claim.keys[place]):
            return False
        return any(
            replaces_a_name(self._claim, place, self._facts_of(sentence)) or self._names_another(sentence, place)
            for sentence in self._bearing(place)
        )

    def _names_another(self, sentence: int, place: int) -> bool:
        """Whether a sentence has the full name of somebody else, or one that begins with "she" follows such a sentence."""
        if len(self._source.spans) <= SHORT_TEXT:
            return False
        for earlier in range(sentence, max(-1, sentence - REACH - 1), -1):
            facts = self._facts_of(earlier)
            if self._passage.masks.get(earlier, 0) >> place & 1:
                return False
            names = set(own_names(self._claim, facts))
            if any(at + 1 in names for at in names):
                return True
            if facts.content[:1] != [False] or facts.folded[0] in ARTICLES:
                return False  # it speaks of a thing of its own
        return False

    def _bearing(self, place: int, has_it: Callable[[TextFacts], bool] | None = None) -> list[int]:
        """The sentences that say most of the clause around a fact, the fact itself not counted; none where one of them has it.

        None either where one of those has it that say most of this clause and its neighbour, or of the whole claim.
        """
        found: list[int] = []
        best = self._passage.masks[self._passage.ranked[0]]
        for context in self._contexts(place):
            if best >> place & 1 and context & ~best == 0:
                return []  # most often the best sentence says it all
            bearing = self._saying_most(context)
            if any(
                has_it(self._facts_of(sentence)) if has_it else self._passage.masks[sentence] >> place & 1
                for sentence in bearing
            ):
                return []
            found = found or bearing
        return found

    def _contexts(self, place: int) -> Iterator[int]:
        """The other content words of the clause around a fact, with those of its neighbours, and all, each as bits."""
        clauses, fact = self._clauses, 1 << place
        at = next(at for at, clause in enumerate(clauses) if clause & fact)
        beside = (*clauses[at + 1 : at + 2], *clauses[max(0, at - 1) : at])
        wider = [clauses[at], *(clauses[at] | other for other in beside), sum(clauses)]
        for context in dict.fromkeys(bits & self._content & ~fact for bits in wider):
            if context.bit_count() >= MIN_CONTEXT or context == self._content & ~fact:
                yield context

    def _saying_most(self, context: int) -> list[int]:
        said = {sentence: self._said(sentence, context) for sentence in self._passage.ranked}
        enough = max(said.values()) * AS_GOOD
        return [sentence for sentence, much in said.items() if much >= enough] if enough else []

    def _said(self, sentence: int, context: int) -> int:
        masks = self._passage.masks
        own = masks[sentence] & context
        before = (masks.get(sentence - 1, 0) | masks.get(sentence - 2, 0)) & context & ~own
        return OWN * own.bit_count() + BEFORE * before.bit_count()


def _number_at(text: str, at: int, reading: Reading) -> _Number:
    found = _UNIT.match(text, at)
    before = _LAST_WORD.search(text[max(0, at - LOOK_BACK) : at])
    return _Number(
        fold(before[1]) if before else "", fold(found[1] or "") if found else "", any(map(_YEAR.match, reading))
    )
