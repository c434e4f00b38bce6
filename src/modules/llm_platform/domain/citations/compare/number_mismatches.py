"""Find a number or date of a claim that its source contradicts, and count the numbers that the source lacks.

"The fort has 12 gates" is refuted by "The fort has 14 gates", a number of the same kind: with the same unit or the same word
before it, or a year like it. "12 feet" is also refuted by "12 metres". "It opens on 14 May" is refuted by "It was planned for
14 May. It has been moved to 2 September".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from modules.llm_platform.domain.citations.compare.comparison import Comparison
from modules.llm_platform.domain.citations.compare.mismatches import Mismatch, find_number, find_phrase, find_word
from modules.llm_platform.domain.citations.compare.number_contrasts import list_numbers_with_words
from modules.llm_platform.domain.citations.compare.table_rows import find_other_cell
from modules.llm_platform.domain.citations.read.claims import ClaimNumber, TextFacts
from modules.llm_platform.domain.text.data_files import load_words
from modules.llm_platform.domain.text.numbers import PERCENT, NumberValues, find_other_date
from modules.llm_platform.domain.text.positions import Offset, SentenceNumber
from modules.llm_platform.domain.text.sentences import Span
from modules.llm_platform.domain.text.stemming import is_form_of_any, is_same_word, normalize_unit

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


def find_number_mismatch(compared: Comparison) -> Mismatch | None:
    """Return the first number of the claim that the source contradicts."""
    for number in compared.claim.numbers:
        if _is_computed(compared, number):
            continue
        mismatch = _find_count_mismatch(compared, number) if number.spelled else _find_figure_mismatch(compared, number)
        if mismatch:
            return mismatch
    return None


def _find_count_mismatch(compared: Comparison, number: ClaimNumber) -> Mismatch | None:
    """Return the mismatch of a number in words if the passage counts the noun differently: "two gates", "three gates"."""
    if _has_in_passage(compared, number.values):
        return None
    number_end = number.offset + len(number.spelled) - 1
    words = zip(compared.claim.words, compared.claim.offsets, strict=True)
    noun = next((word.key for word, start in words if start > number_end and word.is_content), None)
    counted = compared.passage_facts.find_counted(noun)
    if counted is None:
        return None
    found = compared.locate_in_passage(find_word(compared.passage_facts.text, counted))
    return Mismatch("number", find_number(compared.claim.text, number.offset), found)


def _find_figure_mismatch(compared: Comparison, number: ClaimNumber) -> Mismatch | None:
    """Return the mismatch of a number in figures: another unit, or another number of the same kind in a sentence about it.

    It is reported as a mismatch of a date if both numbers may be years and the number of the claim has no unit.
    """
    claim, (values, offset, _) = compared.claim, number
    cell = find_other_cell(claim, values, compared.source, compared.passage.ranked)
    if cell is not None:
        return Mismatch("number", find_number(claim.text, offset), cell)
    kind = _read_number_kind(claim.text, offset, values)
    if (other_offset := _find_other_unit(compared, values, kind.unit)) is not None:
        found = compared.locate_in_passage(_find_number_and_unit(compared.passage_facts.text, other_offset))
        return Mismatch("number", _find_number_and_unit(claim.text, offset), found)
    if _has_all_numbers(compared):
        return None
    position = claim.find_position(offset)
    for sentence in compared.find_sentences_lacking(position, lambda facts: not values.isdisjoint(facts.values)):
        facts = compared.read_facts(sentence)
        for other, other_offset in facts.figures:
            other_kind = _read_number_kind(facts.text, other_offset, other)
            if kind.is_like(other_kind) and not any(other & mine.values for mine in claim.numbers):
                found = compared.locate(sentence, find_number(facts.text, other_offset))
                is_date = kind.is_year and other_kind.is_year and not normalize_unit(kind.unit)
                return Mismatch("date" if is_date else "number", find_number(claim.text, offset), found)
    return None


def _has_all_numbers(compared: Comparison) -> bool:
    """Return whether the best sentence has all numbers of a claim with several: "£208 for 26 children"."""
    numbers, best = compared.claim.numbers, compared.read_facts(compared.passage.sentences[0])
    return len(numbers) > 1 and all(number.values & best.values for number in numbers)


def _find_other_unit(compared: Comparison, values: NumberValues, unit: str) -> Offset | None:
    """Return the offset of the number in the passage if it only has other units there: "12 feet", "12 metres"."""
    own_unit, facts = normalize_unit(unit), compared.passage_facts
    if not own_unit or not _has_in_passage(compared, values):
        return None
    offsets = [offset for other, offset in facts.figures if other & values]
    units = [normalize_unit(_read_number_kind(facts.text, offset, values).unit) for offset in offsets]
    return offsets[0] if units and all(units) and own_unit not in units else None


def _is_computed(compared: Comparison, number: ClaimNumber) -> bool:
    """Return whether the number follows from two numbers of the passage: "24 million more", "£352 after the refund of £60".

    A number that happens to equal a difference is a mismatch, unless the claim compares, or the passage has a word such as "plus"
    or "refund" and both numbers have the unit of the claim. A product needs a word such as "each".
    """
    if _has_in_passage(compared, number.values):
        return False
    stated = {value for value in map(_parse_number, number.values) if value is not None}
    if not load_words("connectives", "comparing").isdisjoint(compared.claim.keys):
        numbers = sorted(filter(None, map(_parse_number, compared.passage_facts.values)))[:MAX_COMPUTED]
        return not stated.isdisjoint({round(larger - smaller, 6) for smaller, larger in combinations(numbers, 2)})
    unit = _read_number_kind(compared.claim.text, number.offset, number.values).unit
    return bool(unit) and not stated.isdisjoint(_compute_amounts(compared.passage_facts, unit))


def _compute_amounts(passage: TextFacts, unit: str) -> set[float]:
    """Return the sums and differences of the amounts with a unit, and their products with counts, if the passage computes."""
    amounts, counts = list[float](), list[float]()
    for values, offset in list_numbers_with_words(passage)[:MAX_COMPUTED]:
        known = [value for value in map(_parse_number, values) if value is not None]
        is_amount = is_same_word(_read_number_kind(passage.text, offset, values).unit, unit)
        (amounts if is_amount else counts).extend(known[:1])
    computed = set[float]()
    if not load_words("amounts", "adding").isdisjoint(passage.folded):
        for one, two in combinations(amounts, 2):
            computed |= {round(one + two, 6), round(abs(one - two), 6)}
    if not load_words("amounts", "each").isdisjoint(passage.folded):
        computed |= {round(amount * count, 6) for amount in amounts for count in counts}
    return computed


def find_date_mismatch(compared: Comparison) -> Mismatch | None:
    """Return the first month, weekday or date of the claim that the passage contradicts."""
    different = find_other_date(compared.claim.facts.dated, compared.passage_facts.dated)
    if different is None:
        return None
    own, other = different
    if is_form_of_any(other, compared.claim.facts.words):  # "Saturday", and the claim has "Saturdays": no pair to show
        return Mismatch("date", (0, len(compared.claim.text)), compared.passage.span)
    found = compared.locate_in_passage(find_phrase(compared.passage_facts.text, other))
    return Mismatch("date", find_phrase(compared.claim.text, own), found)


def find_replaced_date(compared: Comparison) -> Mismatch | None:
    """Return the new date if the sentence after the best one says that the date of the claim was moved."""
    claim, best = compared.claim, compared.passage.sentences[0]
    after = SentenceNumber(best + 1)
    if after >= len(compared.source.spans):
        return None
    sentence, later = compared.read_facts(best), compared.read_facts(after)
    moved = load_words("contrasts", "replaced")
    if moved.isdisjoint(later.folded) or not moved.isdisjoint(claim.facts.folded):
        return None
    if find_other_date(claim.facts.dated, sentence.dated) is not None:
        return None  # the best sentence has another date than the claim: `find_date_mismatch` compares the two
    different = find_other_date(claim.facts.dated, later.dated)
    if different is None:
        return None
    own, other = different
    return Mismatch("date", find_phrase(claim.text, own), compared.locate(after, find_phrase(later.text, other)))


def count_missing_numbers(compared: Comparison) -> int:
    """Return how many numbers of the claim are missing in all sentences about the claim."""
    return sum(not _has_number(compared, number) for number in compared.claim.numbers)


def _has_number(compared: Comparison, number: ClaimNumber) -> bool:
    """Return whether the number, in figures or words, is in the passage or in a sentence that shares much of the claim.

    A number in words up to MAX_LISTED_COUNT always counts as found.
    """
    values, offset, spelled = number
    if spelled and float(min(values)) <= MAX_LISTED_COUNT:
        return True
    ranked = compared.passage.ranked
    as_written = compared.source.find_exact_sentences(compared.claim.keys[compared.claim.find_position(offset)])
    is_one_word = spelled.isalpha() or not spelled
    if is_one_word and any(as_written >> sentence & 1 for sentence in ranked):
        return True
    with_numbers = compared.source.sentences_with_numbers
    return _has_in_passage(compared, values) or not all(
        values.isdisjoint(compared.read_facts(sentence).values) for sentence in ranked if with_numbers >> sentence & 1
    )


def _has_in_passage(compared: Comparison, values: NumberValues) -> bool:
    return not values.isdisjoint(compared.passage_facts.values)


def _parse_number(value: str) -> float | None:
    """Return a value as a number; None for a time or a date."""
    return float(value) if value.replace(".", "", 1).isdecimal() else None


def _read_number_kind(text: str, offset: Offset, values: NumberValues) -> _NumberKind:
    """Return the kind of the number at this offset: in "The wall, 12 feet high", the word `wall` and the unit `feet`."""
    match = _UNIT.match(text, offset)
    before = _LAST_WORD.search(text[max(0, offset - WORD_BEFORE_CHARS) : offset])
    unit = _get_sign_before(text, offset) or (match[1] if match and match[1] else "")
    if text.endswith("百分之", 0, offset):
        unit = PERCENT
    return _NumberKind(before[1].casefold() if before else "", unit.casefold(), any(map(_YEAR.match, values)))


def _get_sign_before(text: str, offset: Offset) -> str:
    """Return the currency sign right before a number; empty without one."""
    sign = text[max(0, offset - 1) : offset]
    return sign if normalize_unit(sign) and not sign.isalnum() else ""


def _find_number_and_unit(text: str, offset: Offset) -> Span:
    """Return the span of the number at this offset, with the sign before it or the unit after it."""
    start, end = find_number(text, offset)
    if sign := _get_sign_before(text, offset):
        return start - len(sign), end
    match = _UNIT.match(text, offset)
    return match.span() if match else (start, end)
