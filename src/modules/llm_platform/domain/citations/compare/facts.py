"""Compare the facts of a claim with the passage that fits it best: numbers with units, dates, names, identifiers, denials.

A long page contains most numbers and names somewhere. So a fact is only confirmed by sentences that share most of the clause
around it. "The fort has 12 gates" is refuted by "The fort has 14 gates", even if the page says elsewhere that a wall has 12
towers. `verdicts` turns the result of `FactComparison` into a verdict.

The sentences of a source and the words of a claim are numbered. A set of them is an integer whose bit i stands for number i.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Final

from modules.llm_platform.domain.citations.compare.alignment import Passage, SourceText
from modules.llm_platform.domain.citations.compare.bindings import (
    find_program_name,
    is_act_of_another,
    is_of_another_entry,
    list_program_names,
)
from modules.llm_platform.domain.citations.compare.changes import (
    Change,
    find_figures,
    find_place,
    find_word,
    find_words,
    shift,
)
from modules.llm_platform.domain.citations.compare.contrasts import find_contrast, find_replaced_date
from modules.llm_platform.domain.citations.compare.denials import find_denial, has_undenied_opposite, is_denied
from modules.llm_platform.domain.citations.compare.replaced_words import (
    MAX_REPLACING_WORDS,
    find_replaced_words,
    is_run_replaced,
)
from modules.llm_platform.domain.citations.compare.table_rows import find_other_cell
from modules.llm_platform.domain.citations.read.claims import Claim, ClaimNumber, TextFacts
from modules.llm_platform.domain.citations.read.words import IDENTIFIER
from modules.llm_platform.domain.text.data_files import load_words
from modules.llm_platform.domain.text.numbers import PERCENT, Reading, find_other_date
from modules.llm_platform.domain.text.positions import ClaimWordNumber, Offset, SentenceNumber, WordNumber
from modules.llm_platform.domain.text.sentences import Span
from modules.llm_platform.domain.text.stemming import is_form_of_any, is_same_word, normalize_unit

MIN_CONTEXT: Final = 2  # if a clause has fewer content words besides the fact, the whole claim is the context
NEARLY_BEST: Final = 0.9  # a confirming sentence needs this share of the best sentence's score
OWN_WEIGHT, BEFORE_WEIGHT = 2, 1  # the weights of a word in the sentence and in the two sentences before it
WORD_BEFORE_CHARS: Final = 24  # the word before a number is searched in this many characters
MAX_COMPUTED: Final = 12  # numbers of a passage
MAX_LISTED_COUNT: Final = 4  # "three ways" may count what the passage lists

_UNIT = re.compile(r"[0-9](?:[0-9.,'’:/\u00a0\u202f]*[0-9])?[\s\u00a0-]*(°?[^\W\d_]+|[%€$£°])?")
_YEAR = re.compile(r"(?:1[1-9]|20|21)[0-9]{2}\Z")
_LAST_WORD = re.compile(r"([^\W_]+)\W*\Z")


@dataclass(frozen=True, slots=True)
class _NumberKind:
    """The kind of a number.

    - `before` is the word before the number, and `unit` its unit, both case-folded; empty if there is none.
    - `is_year` is True if the number may be a year.
    """

    before: str
    unit: str
    is_year: bool

    def is_like(self, other: _NumberKind) -> bool:
        if self.is_year and other.is_year:
            return True
        if self.unit and other.unit and is_same_word(self.unit, other.unit):
            return True
        return bool(self.before) and self.before == other.before


class FactComparison:
    """A comparison of the facts of one claim with the passage of a source that fits it best.

    "The fort has 12 gates" is refuted by "The fort has 14 gates", and `change` returns both numbers. If the source does not
    mention the number of gates, the claim is only supported in part, and `is_partial_at_best` returns True.
    """

    def __init__(self, claim: Claim, source: SourceText, passage: Passage) -> None:
        self.claim, self.passage, self.passage_facts = claim, passage, source.read_facts(passage.span)
        self._source = source

    def find_change(self) -> Change | None:
        """Return the first fact that refutes the claim: a number, unit, date, name, identifier or denial. None without one.

        The sentence with the other fact must otherwise say the same.
        """
        return (
            self._find_changed_number()
            or self._find_changed_date()
            or self._find_changed_name()
            or self._find_denial()
            or self._find_contrast()
            or self._find_replaced_date()
        )

    def is_partial_at_best(self) -> bool:
        """Return whether the source lacks a number of the claim, or makes the claim about another subject."""
        return self.missing_numbers > 0 or self._is_act_of_another()

    def find_replacement(self) -> Change | None:
        """Return the first replaced words of a claim that otherwise copies a sentence; None if it is no such copy."""
        for sentence in self.passage.sentences:
            facts = self._read_facts(sentence)
            if pairs := find_replaced_words(self.claim, facts):
                mine, theirs = pairs[0]
                found = shift(find_words(facts.text, theirs), self._source.spans[sentence][0])
                return Change("other", find_words(self.claim.text, mine), found)
        return None

    # --- evidence for the score ----------------------------------------------------------------------------------------

    @cached_property
    def missing_numbers(self) -> int:
        """How many numbers of the claim are missing in all sentences about the claim."""
        return sum(not self._has_number(number) for number in self.claim.numbers)

    @cached_property
    def missing_names(self) -> int:
        """How many names and identifiers of the claim are missing in the whole source."""
        names = (word for word in self.claim.words if word.is_name or word.is_identifier)
        return sum(not self._source.knows(word.key, word.written) for word in names)

    def is_word_replaced(self) -> bool:
        """Return whether the claim copies a sentence of the passage, with a word or two replaced."""
        claim, passage = self.claim, self.passage
        for sentence in passage.sentences:
            missing = (claim.content & ~passage.masks[sentence]).bit_count()
            if missing <= MAX_REPLACING_WORDS and find_replaced_words(claim, self._read_facts(sentence)):
                return True
        return not claim.text.isascii() and any(is_run_replaced(claim, facts) for facts in self._sentences)

    # --- numbers and dates ---------------------------------------------------------------------------------------------

    def _find_changed_number(self) -> Change | None:
        for number in self.claim.numbers:
            if self._is_computed(number):
                continue
            change = self._find_changed_count(number) if number.spelled else self._find_changed_figures(number)
            if change:
                return change
        return None

    def _find_changed_count(self, number: ClaimNumber) -> Change | None:
        """Return the change of a number in words if the passage counts the noun differently: "two gates", "three gates"."""
        if self._has_in_passage(number.reading):
            return None
        number_end = number.offset + len(number.spelled) - 1
        words = zip(self.claim.words, self.claim.offsets, strict=True)
        noun = next((word.key for word, start in words if start > number_end and word.is_content), None)
        counted = self.passage_facts.find_counted(noun)
        if counted is None:
            return None
        found = shift(find_word(self.passage_facts.text, counted), self.passage.span[0])
        return Change("number", find_figures(self.claim.text, number.offset), found)

    def _find_changed_figures(self, number: ClaimNumber) -> Change | None:
        """Return the change of a number in figures: another unit, or another number of the same kind in a sentence about it.

        It is reported as a change of a date if both numbers may be years.
        """
        claim, (reading, offset, _) = self.claim, number
        cell = find_other_cell(claim, reading, self._source, self.passage.ranked)
        if cell is not None:
            return Change("number", find_figures(claim.text, offset), cell)
        kind = _read_number_kind(claim.text, offset, reading)
        if (other_offset := self._find_other_unit(reading, kind.unit)) is not None:
            found = shift(_find_number_and_unit(self.passage_facts.text, other_offset), self.passage.span[0])
            return Change("number", _find_number_and_unit(claim.text, offset), found)
        position = claim.find_position(offset)
        for sentence in self._find_sentences_lacking(position, lambda facts: not reading.isdisjoint(facts.values)):
            facts = self._read_facts(sentence)
            for other, other_offset in facts.figures:
                other_kind = _read_number_kind(facts.text, other_offset, other)
                if kind.is_like(other_kind) and not any(other & mine.reading for mine in claim.numbers):
                    found = shift(find_figures(facts.text, other_offset), self._source.spans[sentence][0])
                    is_date = kind.is_year and other_kind.is_year and not normalize_unit(kind.unit)
                    return Change("date" if is_date else "number", find_figures(claim.text, offset), found)
        return None

    def _find_other_unit(self, reading: Reading, unit: str) -> Offset | None:
        """Return the offset of the number in the passage if it only has other units there: "12 feet", "12 metres"."""
        own_unit, facts = normalize_unit(unit), self.passage_facts
        if not own_unit or not self._has_in_passage(reading):
            return None
        offsets = [offset for other, offset in facts.figures if other & reading]
        units = [normalize_unit(_read_number_kind(facts.text, offset, reading).unit) for offset in offsets]
        return offsets[0] if units and all(units) and own_unit not in units else None

    def _is_computed(self, number: ClaimNumber) -> bool:
        """Return whether two numbers of the passage differ by this one, and the claim compares: "24 million more".

        Without a comparing word, a number that happens to equal a difference counts as changed.
        """
        if self._has_in_passage(number.reading) or load_words("connectives", "comparing").isdisjoint(self.claim.keys):
            return False
        numbers = sorted(filter(None, map(_parse_number, self.passage_facts.values)))[:MAX_COMPUTED]
        differences = {round(larger - smaller, 6) for smaller, larger in combinations(numbers, 2)}
        return any(_parse_number(value) in differences for value in number.reading)

    def _find_changed_date(self) -> Change | None:
        found = find_other_date(self.claim.facts.dated, self.passage_facts.dated)
        if found is None:
            return None
        own, other = found
        changed = shift(find_place(self.passage_facts.text, other), self.passage.span[0])
        return Change("date", find_place(self.claim.text, own), changed)

    def _has_number(self, number: ClaimNumber) -> bool:
        """Return whether the number, in figures or words, is in the passage or in a sentence that shares much of the claim."""
        reading, offset, spelled = number
        if spelled and float(min(reading)) <= MAX_LISTED_COUNT:
            return True
        ranked = self.passage.ranked
        as_written = self._source.find_exact_sentences(self.claim.keys[self.claim.find_position(offset)])
        is_one_word = spelled.isalpha() or not spelled
        if is_one_word and any(as_written >> sentence & 1 for sentence in ranked):
            return True
        with_numbers = self._source.sentences_with_numbers
        return self._has_in_passage(reading) or not all(
            reading.isdisjoint(self._read_facts(sentence).values) for sentence in ranked if with_numbers >> sentence & 1
        )

    def _has_in_passage(self, reading: Reading) -> bool:
        return not reading.isdisjoint(self.passage_facts.values)

    # --- names and identifiers -----------------------------------------------------------------------------------------

    def _find_changed_name(self) -> Change | None:
        claim, forms_of_address = self.claim, load_words("connectives", "forms_of_address")
        for position, word in enumerate(claim.words):
            found = None
            if word.is_content and word.is_identifier:
                found = self._find_other_identifier(ClaimWordNumber(position))
            elif word.is_content and word.written[0].isupper() and word.key not in forms_of_address:
                found = self._find_other_name(ClaimWordNumber(position))
            if found is not None:
                start = claim.offsets[position]
                return Change("name", (start, start + len(word.written)), found)
        return None

    def _find_other_identifier(self, position: ClaimWordNumber) -> Span | None:
        """Return the span of the identifier that the source has instead; None if the source confirms the claim's identifier.

        If the source has no other identifier there, return the span of the sentence that should have it.
        """
        word = self.claim.words[position]
        best = self._source.spans[self.passage.sentences[0]]
        if not self._source.knows(word.key, word.written):
            return best
        if word.written.isalnum() and IDENTIFIER.match(word.written):
            return None  # the word is an abbreviation, or a name such as OpenAI
        for sentence in self._find_sentences_lacking(position):
            facts = self._read_facts(sentence)
            if others := list_program_names(facts.text).difference(self.claim.keys):
                start = self._source.spans[sentence][0]
                return shift(find_program_name(facts.text, min(others)), start)
        is_elsewhere = any(is_of_another_entry(self.claim, position, sentence) for sentence in self._sentences)
        return best if is_elsewhere else None

    def _find_other_name(self, position: ClaimWordNumber) -> Span | None:
        """Return the span of another name that the source has beside the same word: "of Keller", "of Strabag"."""
        word, sentences = self.claim.words[position], self.passage.sentences
        if self._source.knows(word.key, word.written):
            sentences = tuple(self._find_sentences_lacking(position))
        for sentence in sentences:
            facts = self._read_facts(sentence)
            if (name := find_replacing_name(self.claim, position, facts)) is not None:
                return shift(find_word(facts.text, name), self._source.spans[sentence][0])
        return None

    # --- denials and acts of others ------------------------------------------------------------------------------------

    def _find_denial(self) -> Change | None:
        for sentence in self.passage.sentences:
            facts = self._read_facts(sentence)
            if is_denied(self.claim, facts):
                claimed, found = find_denial(self.claim, facts)
                return Change("negation", claimed, shift(found, self._source.spans[sentence][0]))
        if has_undenied_opposite(self.claim, self.passage_facts):  # in another sentence of the passage
            claimed, found = find_denial(self.claim, self.passage_facts)
            return Change("negation", claimed, shift(found, self.passage.span[0]))
        return None

    def _find_contrast(self) -> Change | None:
        """Return the opposite in the best sentence; None if another sentence shares the same words and has no opposite."""
        best, *alike = self._list_sentences_like_best()
        found = find_contrast(self.claim, self._read_facts(best))
        if found is None:
            return None
        if any(find_contrast(self.claim, self._read_facts(sentence)) is None for sentence in alike):
            return None
        return Change("negation", found[0], shift(found[1], self._source.spans[best][0]))

    def _find_replaced_date(self) -> Change | None:
        """Return the new date if the sentence after the best one says that the date of the claim was moved."""
        best = self.passage.sentences[0]
        behind = SentenceNumber(best + 1)
        if behind >= len(self._source.spans):
            return None
        found = find_replaced_date(self.claim, self._read_facts(best), self._read_facts(behind))
        return Change("date", found[0], shift(found[1], self._source.spans[behind][0])) if found else None

    def _is_act_of_another(self) -> bool:
        """Return whether the best sentences all give the act of the claim to another subject."""
        best = self._list_sentences_like_best()
        return all(is_act_of_another(self.claim, self._read_facts(sentence)) for sentence in best)

    def _list_sentences_like_best(self) -> list[SentenceNumber]:
        """Return the best sentence, then the other ones that share at least the same words with the claim."""
        masks, (best, *others) = self.passage.masks, self.passage.sentences
        return [best, *(sentence for sentence in others if masks[sentence] & masks[best] == masks[best])]

    # --- sentences about a fact ----------------------------------------------------------------------------------------

    def _find_sentences_lacking(
        self, position: ClaimWordNumber, has_fact: Callable[[TextFacts], bool] | None = None
    ) -> list[SentenceNumber]:
        """Return the sentences about a fact if none of them has the fact, else an empty list.

        These sentences share most of the clause around the fact, or most of the whole claim. `has_fact` returns whether a
        sentence has the fact; without it, the fact is the word at `position`.
        """
        masks, word = self.passage.masks, 1 << position
        best = masks[self.passage.ranked[0]]
        lacking: list[SentenceNumber] = []
        for context in self._list_contexts(position):
            if best & word and context & ~best == 0:
                return []  # usually the best sentence has the fact and its whole context
            sentences = self._find_best_sentences(context)
            if any(
                has_fact(self._read_facts(sentence)) if has_fact else masks[sentence] & word for sentence in sentences
            ):
                return []
            lacking = lacking or sentences
        return lacking

    def _list_contexts(self, position: ClaimWordNumber) -> Iterator[int]:
        """Yield the other content words of the clause around a fact, then the content words of the whole claim, as bits."""
        fact = 1 << position
        clause = next(clause for clause in self.claim.clauses if clause & fact)
        for context in dict.fromkeys(words & self.claim.content & ~fact for words in (clause, sum(self.claim.clauses))):
            if context.bit_count() >= MIN_CONTEXT or context == self.claim.content & ~fact:
                yield context

    def _find_best_sentences(self, context: int) -> list[SentenceNumber]:
        """Return the sentences that share most of these words, or nearly as many.

        Words that stand only in the two sentences before count less.
        """
        scores: dict[SentenceNumber, int] = {}
        for sentence, words, words_before in self._ranked_masks:
            own = words & context
            before = words_before & context & ~own
            scores[sentence] = OWN_WEIGHT * own.bit_count() + BEFORE_WEIGHT * before.bit_count()
        enough = max(scores.values()) * NEARLY_BEST
        return [sentence for sentence, score in scores.items() if score >= enough] if enough else []

    @cached_property
    def _ranked_masks(self) -> list[tuple[SentenceNumber, int, int]]:
        """Each ranked sentence, with the words of the claim in it and in the two sentences before it, as bits."""
        masks = self.passage.masks
        return [
            (sentence, masks[sentence], masks[SentenceNumber(sentence - 1)] | masks[SentenceNumber(sentence - 2)])
            for sentence in self.passage.ranked
        ]

    @cached_property
    def _sentences(self) -> list[TextFacts]:
        return [self._read_facts(sentence) for sentence in self.passage.sentences]

    def _read_facts(self, sentence: SentenceNumber) -> TextFacts:
        return self._source.read_facts(self._source.spans[sentence])


def _parse_number(value: str) -> float | None:
    """Return a value of a reading; None for a time or a date."""
    return float(value) if value.replace(".", "", 1).isdecimal() else None


def _read_number_kind(text: str, offset: Offset, reading: Reading) -> _NumberKind:
    """Return the kind of the number at this offset: in "The wall, 12 feet high", the word `wall` and the unit `feet`."""
    match = _UNIT.match(text, offset)
    before = _LAST_WORD.search(text[max(0, offset - WORD_BEFORE_CHARS) : offset])
    sign = text[max(0, offset - 1) : offset]  # a currency may stand before its number
    unit = sign if normalize_unit(sign) and not sign.isalnum() else match[1] if match and match[1] else ""
    if text.endswith("百分之", 0, offset):
        unit = PERCENT
    return _NumberKind(before[1].casefold() if before else "", unit.casefold(), any(map(_YEAR.match, reading)))


def _find_number_and_unit(text: str, offset: Offset) -> Span:
    """Return the place of the number at this offset and its unit."""
    match = _UNIT.match(text, offset)
    return match.span() if match else find_figures(text, offset)


def find_replacing_name(claim: Claim, position: ClaimWordNumber, facts: TextFacts) -> WordNumber | None:
    """Return the position of a name that the source has instead of the claim's name at `position`; None if there is none.

    Both names stand beside the same word. In languages that capitalise all nouns, the first word of a claim is not compared.
    """
    if not position and not claim.capitals_name:
        return None
    keys, folded, articles = claim.keys, facts.folded, load_words("connectives", "articles")
    before, after = keys[max(0, position - 1) : position], keys[position + 1 : position + 2]
    beside = [(at + 1, at + 1) for at, word in enumerate(folded[:-1]) if word in before and word not in articles]
    beside += [(at - 1, at) for at, word in enumerate(folded) if at and word in after and word not in articles]
    return next(
        (
            WordNumber(name)
            for name, later in beside
            if facts.content[name]
            and later not in facts.sentence_starts
            and facts.words[name][0].isupper()
            and not is_form_of_any(folded[name], keys)
        ),
        None,
    )
