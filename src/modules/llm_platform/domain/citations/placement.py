"""Check that the source has a fact where it speaks of the same thing, and not just anywhere.

A page has most numbers and names somewhere. A fact is confirmed by one of the sentences that share most of the clause around
it. Where these have another fact of its kind instead, it was changed, even if it stands elsewhere on the page.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass
from typing import Final

from modules.llm_platform.domain.citations.alignment import Passage, SourceText
from modules.llm_platform.domain.citations.claims import Claim, TextFacts
from modules.llm_platform.domain.citations.mismatches import is_name_replaced
from modules.llm_platform.domain.text.numbers import Reading, numbers_in
from modules.llm_platform.domain.text.stemming import is_same_word
from modules.llm_platform.domain.text.tokens import fold

MIN_CONTEXT: Final = 2  # content words of a clause besides the fact; with fewer the whole claim is the context
NEARLY_BEST: Final = 0.9  # of the score of the best sentence, that a confirming one must have
FAR_SHARE: Final = 0.5  # of the clause around a number, that a sentence far from the passage must have
OWN_WEIGHT, BEFORE_WEIGHT = 2, 1  # of a word in the sentence itself, and in one of the two before it
REACH: Final = 2  # sentences before and behind a passage that belong to it
WORD_BEFORE_CHARS: Final = 24  # before a number, in which the word before it is looked for

_UNIT = re.compile(r"[0-9](?:[0-9.,'’:/\u00a0\u202f]*[0-9])?[\s\u00a0-]*([^\W\d_]+|[%€$£°])?")
_YEAR = re.compile(r"(?:1[1-9]|20|21)[0-9]{2}\Z")
_LAST_WORD = re.compile(r"([^\W_]+)\W*\Z")

FactsOf = Callable[[int], TextFacts]


@dataclass(frozen=True, slots=True)
class _Number:
    """The kind of a number: the folded words around it, and whether it may be a year."""

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
        """Whether the number at this offset stands near the passage, or elsewhere in the same context."""
        place = max(0, bisect_right(self._claim.ats, at) - 1)
        clause, fact = next(self._contexts(place)), 1 << place
        enough = FAR_SHARE * OWN_WEIGHT * clause.bit_count()
        near = range(self._passage.first - REACH, self._passage.last + REACH + 1)
        return any(
            mask & fact and mask != fact and (sentence in near or self._score(sentence, clause) >= enough)
            for sentence, mask in self._passage.masks.items()
        )

    def is_any_changed(self, added: Container[int]) -> bool:
        """Whether the sentences about a fact have another number, name or identifier than the claim.

        Facts at the places `added` belong to added statements and are skipped.
        """
        claim = self._claim
        for reading, at, spelled in claim.numbers:
            place = max(0, bisect_right(claim.ats, at) - 1)
            if not spelled and place not in added and self._is_number_changed(reading, at, place):
                return True
        for place, word in enumerate(claim.words):
            if not word.is_content or place in added:
                continue
            if word.is_identifier:
                changed = self._is_identifier_changed(place)
            else:
                changed = word.written[0].isupper() and self._is_name_changed(place)
            if changed:
                return True
        return False

    def _is_number_changed(self, reading: Reading, at: int, place: int) -> bool:
        sentences = self._confirming_sentences(place, lambda facts: any(reading & known for known in facts.numbers))
        if not sentences:
            return False
        kind = _number_at(self._claim.text, at, reading)
        return any(
            kind.is_like(_number_at(facts.text, their_at, other))
            for facts in map(self._facts_of, sentences)
            for other, their_at in numbers_in(facts.text)
            if not any(other & mine for mine, _, _ in self._claim.numbers)
        )

    def _is_identifier_changed(self, place: int) -> bool:
        if not self._source.sentences_with(self._claim.keys[place]):
            return False  # `name_mismatch` decides
        return any(
            self._facts_of(sentence).identifiers.difference(self._claim.keys)
            for sentence in self._confirming_sentences(place)
        )

    def _is_name_changed(self, place: int) -> bool:
        if not self._source.sentences_with(self._claim.keys[place]):
            return False
        return any(
            is_name_replaced(self._claim, place, self._facts_of(sentence))
            for sentence in self._confirming_sentences(place)
        )

    def _confirming_sentences(self, place: int, has_it: Callable[[TextFacts], bool] | None = None) -> list[int]:
        """The sentences that share most of the clause around a fact, or no sentence where one of them has the fact.

        The clause together with each neighbour, and the whole claim, are tried too.
        """
        found: list[int] = []
        best = self._passage.masks[self._passage.ranked[0]]
        for context in self._contexts(place):
            if best >> place & 1 and context & ~best == 0:
                return []  # the usual case: the best sentence has it all
            sentences = self._best_for(context)
            if any(
                has_it(self._facts_of(sentence)) if has_it else self._passage.masks[sentence] >> place & 1
                for sentence in sentences
            ):
                return []
            found = found or sentences
        return found

    def _contexts(self, place: int) -> Iterator[int]:
        """Bits of the other content words of the clause around a fact, of it and its neighbours, and of the whole claim."""
        clauses, fact = self._clauses, 1 << place
        at = next(at for at, clause in enumerate(clauses) if clause & fact)
        beside = (*clauses[at + 1 : at + 2], *clauses[max(0, at - 1) : at])
        wider = [clauses[at], *(clauses[at] | other for other in beside), sum(clauses)]
        for context in dict.fromkeys(bits & self._content & ~fact for bits in wider):
            if context.bit_count() >= MIN_CONTEXT or context == self._content & ~fact:
                yield context

    def _best_for(self, context: int) -> list[int]:
        scores = {sentence: self._score(sentence, context) for sentence in self._passage.ranked}
        enough = max(scores.values()) * NEARLY_BEST
        return [sentence for sentence, score in scores.items() if score >= enough] if enough else []

    def _score(self, sentence: int, context: int) -> int:
        masks = self._passage.masks
        own = masks[sentence] & context
        before = (masks.get(sentence - 1, 0) | masks.get(sentence - 2, 0)) & context & ~own
        return OWN_WEIGHT * own.bit_count() + BEFORE_WEIGHT * before.bit_count()


def _number_at(text: str, at: int, reading: Reading) -> _Number:
    found = _UNIT.match(text, at)
    before = _LAST_WORD.search(text[max(0, at - WORD_BEFORE_CHARS) : at])
    return _Number(
        fold(before[1]) if before else "", fold(found[1] or "") if found else "", any(map(_YEAR.match, reading))
    )
