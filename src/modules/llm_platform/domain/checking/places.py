"""Where the source has the facts of a sentence: beside what the sentence says of them, or with something else.

A whole page has most figures and names somewhere. A fact is borne out by one of the sentences that say most of the clause
it stands in; where these have another fact of its kind instead, it was changed, wherever else on the page it stands.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass

from modules.llm_platform.domain.checking.changed_names import in_place_of_a_name, is_other_name
from modules.llm_platform.domain.checking.claims import IDENTIFIER, Claim
from modules.llm_platform.domain.checking.dates import DATE_WORDS, other_date
from modules.llm_platform.domain.checking.evidence import Passage, SourceText
from modules.llm_platform.domain.checking.gaps import Run
from modules.llm_platform.domain.checking.numbers import Reading, numbers_in
from modules.llm_platform.domain.checking.text_facts import TextFacts
from modules.llm_platform.domain.checking.words import WORD, is_same_word
from modules.llm_platform.domain.text import fold

SNIPPET_SENTENCES = 8  # a text of so few is a search result or an abstract, of one matter throughout
MIN_CONTEXT = 2  # content words of a clause besides the fact; one with fewer says too little, and the whole claim counts
AS_GOOD = 0.9  # of what the best sentence says of the clause, that another must say to bear a fact out
FAIRLY = 0.5  # of the clause around a number, that a sentence far from the passage must say
OWN, BEFORE = 2, 1  # what a word counts in the sentence itself, and in one of the two before it
REACH = 2  # sentences before a passage and behind it that belong to it

_UNIT = re.compile(r"[0-9](?:[0-9.,'’:/\u00a0\u202f]*[0-9])?[\s\u00a0-]*([^\W\d_]+|[%€$£°])?")
_YEAR = re.compile(r"(?:1[1-9]|20|21)[0-9]{2}\Z")
_LAST_WORD = re.compile(r"([^\W_]+)\W*\Z")
_BY = frozenset(["by", "von", "vom", "par", "por", "da", "door", "av"])
_ARTICLE_LIST = "a an the der die das den dem des ein eine le la les l un une el los las una il lo gli o os as um uma"
_ARTICLES = frozenset(_ARTICLE_LIST.split())  # a sentence that begins with one speaks of a thing, not of who was named before
_LOOK_BACK = 24  # characters before a number in which the word before it is looked for

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


class FactPlaces:
    """The facts of one claim in one source."""

    def __init__(self, claim: Claim, source: SourceText, passage: Passage, facts_of: FactsOf) -> None:
        self._claim = claim
        self._source = source
        self._passage = passage
        self._facts_of = facts_of
        self._clauses = [_bits(clause) for clause in claim.clauses]
        self._content = sum(1 << place for place, word in enumerate(claim.words) if word.is_content)

    def has_number(self, at: int) -> bool:
        """Whether a number that the passage lacks stands near it, or elsewhere with what the claim says around it."""
        place = self._place_at(at)
        clause, beside, fact = next(self._contexts(place)), self._neighbours_of(place), 1 << place
        enough = FAIRLY * OWN * clause.bit_count()
        return any(
            mask & fact
            and mask != fact
            and (mask & beside or self._is_near(sentence) or self._said(sentence, clause) >= enough)
            for sentence, mask in self._passage.masks.items()
        )

    def any_changed(self, added: Container[int]) -> bool:
        """Whether the sentences that say most of a clause have another number, date, name or identifier than the claim.

        Facts at the places `added` belong to statements that were added, and are not looked at. In a short text each
        sentence is near each other, and none of them is asked.
        """
        if len(self._source.spans) <= SNIPPET_SENTENCES:
            return False
        claim = self._claim
        for reading, at, spelled in claim.numbers:
            place = self._place_at(at)
            if not spelled and place not in added and self._number_changed(reading, at, place):
                return True
        for place, word in enumerate(claim.words):
            if not word.is_content or place in added:
                continue
            if word.key in DATE_WORDS:
                changed = self._date_changed(place)
            elif word.is_identifier or word.written[0].isupper():
                changed = self._name_changed(place)
            else:
                continue
            if changed:
                return True
        return False

    def _number_changed(self, reading: Reading, at: int, place: int) -> bool:
        bearing = self._bearing(place, lambda facts, _: any(reading & known for known in facts.numbers))
        kind = _number_at(self._claim.text, at, reading) if bearing else None
        return kind is not None and any(
            kind.is_like(other) for sentence in bearing for other in self._other_numbers(self._facts_of(sentence))
        )

    def _other_numbers(self, facts: TextFacts) -> Iterator[_Number]:
        for reading, at in numbers_in(facts.text):
            if not any(reading & mine for mine, _, _ in self._claim.numbers):
                yield _number_at(facts.text, at, reading)

    def _date_changed(self, place: int) -> bool:
        key, keys = self._claim.keys[place], self._claim.keys
        bearing = self._bearing(place, lambda facts, has_word: has_word)
        return any(other_date(key, self._facts_of(sentence).dated, keys) for sentence in bearing)

    def _name_changed(self, place: int) -> bool:
        word = self._claim.words[place]
        if not self._source.places_of(word.key):
            return False  # that no name of the source is told by its place in the passage
        bearing = self._bearing(place, lambda facts, has_word: has_word)
        if word.is_identifier:
            return any(self._has_identifier_of_its_own(self._facts_of(sentence)) for sentence in bearing)
        if not bearing or not self._source.capitals.may_name(word.written):
            return False
        run = Run((word,), place, place)
        return any(
            in_place_of_a_name(run, self._claim, self._facts_of(sentence), self._source.capitals.may_name)
            or self._another_acts(place, sentence)
            for sentence in bearing
        )

    def _another_acts(self, place: int, sentence: int) -> bool:
        """Whether the sentence has another person or maker than the claim.

        It has not where it, or what it follows, has the claim's. A "she" is who the sentence before names.
        """
        run = self._name_around(place)
        if self._follows_the_name(sentence, run):
            return False
        facts = self._facts_of(sentence)
        if not facts.folded:
            return False
        if facts.content[0] or facts.folded[0] in _ARTICLES or not sentence:
            first, texts = facts, [facts] if len(run) > 1 else []
        elif len(run) > 1 or self._stands_as_name(place):
            first = self._facts_of(sentence - 1)
            texts = [first, facts]
        else:
            return False
        return (self._acts(run) and self._is_own_name(first, 0)) or any(map(self._has_full_name_of_its_own, texts))

    def _follows_the_name(self, sentence: int, run: range) -> bool:
        """Whether the name of the claim stands there or shortly before, and no full name in between."""
        for back in range(min(REACH, sentence) + 1):
            if self._passage.masks.get(sentence - back, 0) & _bits(run):
                return True
            if back and self._has_full_name_of_its_own(self._facts_of(sentence - back)):
                return False
        return False

    def _stands_as_name(self, place: int) -> bool:
        word = self._claim.words[place]
        return word.is_name or self._source.capitals.stands_inside(word.written)

    def _name_around(self, place: int) -> range:
        """The places of the capitalised words around this one."""
        words, first, last = self._claim.words, place, place
        while first and words[first - 1].is_content and words[first - 1].written[0].isupper():
            first -= 1
        while last + 1 < len(words) and words[last + 1].is_content and words[last + 1].written[0].isupper():
            last += 1
        return range(first, last + 1)

    def _acts(self, run: range) -> bool:
        """Whether the claim begins with the name, or says "by" before it."""
        before = self._claim.words[: run.start]
        return not any(word.is_content for word in before) or before[-1].key in _BY

    def _has_full_name_of_its_own(self, facts: TextFacts) -> bool:
        return any(self._is_own_name(facts, at) and self._is_own_name(facts, at + 1) for at in range(len(facts.words) - 1))

    def _is_own_name(self, facts: TextFacts, at: int) -> bool:
        return (
            at < len(facts.words)
            and facts.content[at]
            and is_other_name(facts.words[at], facts.folded[at], self._claim.keys)
            and self._source.capitals.may_name(facts.words[at])
        )

    def _has_identifier_of_its_own(self, facts: TextFacts) -> bool:
        return any(IDENTIFIER.match(word) and word not in self._claim.text for word in WORD.findall(facts.text))

    def _bearing(self, place: int, has_it: Callable[[TextFacts, bool], bool]) -> list[int]:
        """The sentences that say most of the clause around a fact, the fact itself not counted; none where one of them has it.

        None either where one of those has it that say most of this clause and its neighbour, or of the whole claim.
        """
        found: list[int] = []
        best = self._passage.masks[self._passage.ranked[0]]
        for context in self._contexts(place):
            if best >> place & 1 and context & ~best == 0:
                return []  # most often the best sentence says it all
            bearing = self._saying_most(context)
            if any(has_it(self._facts_of(sentence), self._holds(sentence, place)) for sentence in bearing):
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

    def _neighbours_of(self, place: int) -> int:
        """The content words right before a fact and right behind it, as bits."""
        content = [at for at, word in enumerate(self._claim.words) if word.is_content and at != place]
        before, behind = [at for at in content if at < place], [at for at in content if at > place]
        return sum(1 << at for at in (*before[-1:], *behind[:1]))

    def _place_at(self, at: int) -> int:
        return max(0, bisect_right(self._claim.ats, at) - 1)

    def _holds(self, sentence: int, place: int) -> bool:
        return bool(self._passage.masks.get(sentence, 0) >> place & 1)

    def _is_near(self, sentence: int) -> bool:
        return self._passage.first - REACH <= sentence <= self._passage.last + REACH


def _bits(places: range) -> int:
    return (1 << places.stop) - (1 << places.start)


def _number_at(text: str, at: int, reading: Reading) -> _Number:
    found = _UNIT.match(text, at)
    unit = fold(found[1] or "") if found else ""
    before = _LAST_WORD.search(text[max(0, at - _LOOK_BACK) : at])
    return _Number(fold(before[1]) if before else "", unit, any(map(_YEAR.match, reading)))
