"""Find amounts that are equal in other units: two years and 24 months, 2.5 km and 2,500 m, 17:00 and 5 p.m., £5 and 5 pounds.

`use_units` writes the amounts of a claim as the source writes them, so that both can be compared word by word.
"""

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Final, NamedTuple

from modules.llm_platform.domain.extractive.quantities import find_unit
from modules.llm_platform.domain.text.data_files import load_words
from modules.llm_platform.domain.text.numbers import SCALE, find_compound_numbers, list_numbers, load_number_words
from modules.llm_platform.domain.text.stemming import normalize_unit
from modules.llm_platform.domain.text.tokens import fold

MONTH, YEAR, LENGTH, WEIGHT, VOLUME, TIME, CLOCK = "month", "year", "m", "kg", "l", "min", "clock"
MONTHS_OF_YEAR: Final = 12
MINUTES_OF_HOUR, LAST_HOUR = 60, 24
MINUTES_OF_MONTH: Final = 43_800  # as `unit_sizes.json` has it; a month is no exact number of days
MONEY: Final = frozenset({"eur", "usd", "gbp"})
BY_SIGN: Final = "sign"  # the unit of `£410` and `410 €`, which have no word for it
CONVERTED: Final = frozenset({LENGTH, WEIGHT, VOLUME, TIME}) | MONEY
# Inexact, or with another meaning: `a second opinion`.
NOT_CONVERTED: Final = frozenset({"mi", "ft", "inch", "yd", "lb", "uhr", "mileage", "second"})
BEFORE_CHARS: Final = 24  # searched for a number before an amount
MAX_GAP: Final = 6  # characters between the parts of an amount: `2 hours and 30 minutes`
MIN_SPELLED_UNIT: Final = 2  # letters of the unit after a number in words: "three g" has none
HALF: Final = 0.5

_FIGURES = re.compile(r"[0-9](?:[0-9.,'’\u00a0\u202f]*[0-9])?")
_SIGN_BEFORE = re.compile(r"(?<!\w)(?P<sign>[€$£])[\s\u00a0]?\Z")
_SIGN_AFTER = re.compile(r"[\s\u00a0]?(?P<sign>[€$£])")
_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_UNIT = re.compile(
    r"(?P<half>[ -]and[ -]a[ -]half|½)?(?P<gap>[\s\u00a0-]{0,2})(?P<unit>[^\W\d_]+)(?![\w²³/])"
    r"(?P<more> and a half| et demie?\b| y media\b)?"
)
_OF_HALF = re.compile(r" (?:of )?an? | eine[nrsm]? ")  # before the unit: `half an hour`
_CLOCK_TIME = re.compile(
    r"(?<![\d:.,])(?P<hour>\d{1,2})(?::(?P<minute>\d{2}))?(?![\d:])"
    r"(?: ?(?P<half>[ap])\.?m\b\.?|(?P<uhr> uhr\b)(?! ?\d))?",
    re.IGNORECASE,
)
_RANGE_BEFORE = re.compile(r"\d ?(?:-|–|to|and|until) ?\Z")
_NUMBER_BEFORE = re.compile(r"(?:[\d½¼¾]|[€$£%])[\s\u00a0-]?\Z")
_LAST_WORD = re.compile(r"([^\W\d_]{1,24})(?: (?:and|und|et|y|e|of))?[ -]\Z")
# What makes an amount a part of another one: a further number or fraction after it.
_MORE_AFTER = re.compile(
    r"\.? ?\d| (?:et quart|y medio|y cuarto|e mezzo|e mezza|and three quarters|and a quarter)\b", re.IGNORECASE
)
_JOINED = re.compile(r"[.,]{0,2} ?(?:and |und |et |y |e )?")


class Amount(NamedTuple):
    """A number with its unit in a text: the size in the base unit `dimension`, the unit as written, and the span."""

    size: float
    dimension: str
    unit: str
    start: int
    end: int

    def equals(self, other: "Amount") -> bool:
        return self.dimension == other.dimension and math.isclose(self.size, other.size, rel_tol=1e-9)


def list_amounts(text: str) -> list[Amount]:
    """Return the lengths, weights, volumes, durations, times of the day and sums of money of a text, in order.

    The parts of a compound amount are left out: `2 hours and 30 minutes`, `1 kg 200 g`, `1 h 30`.
    """
    found = sorted((*_read_figures(text), *_read_words(text), *_read_clock_times(text)), key=lambda one: one.start)
    parts = {one.start for pair in itertools.pairwise(found) if _are_parts(text, *pair) for one in pair}
    return [one for one in found if one.start not in parts and not _MORE_AFTER.match(text, one.end)]


def _are_parts(text: str, one: Amount, later: Amount) -> bool:
    """Return whether two amounts overlap, or are one amount together."""
    is_of_time = {one.dimension, later.dimension} <= {MONTH, TIME}
    is_of_kind = is_of_time or (one.dimension == later.dimension and one.dimension not in MONEY)
    is_near = later.start - one.end <= MAX_GAP and is_of_kind
    return later.start < one.end or (is_near and _JOINED.fullmatch(text, one.end, later.start) is not None)


def use_units(claim: str, amounts: Sequence[Amount], text: str) -> str:
    """Return the claim with its amounts written as the text writes them, if the text has an equal one in another unit only."""
    for amount in reversed(list_amounts(claim)):
        equal = [other for other in amounts if amount.equals(other)]
        if equal and not any(_has_same_unit(amount, other) for other in equal):
            claim = f"{claim[: amount.start]}{text[equal[0].start : equal[0].end]}{claim[amount.end :]}"
    return claim


def _has_same_unit(one: Amount, other: Amount) -> bool:
    return one.unit == other.unit or (find_unit(one.unit) is not None and find_unit(one.unit) == find_unit(other.unit))


def _read_figures(text: str) -> Iterator[Amount]:
    """Yield the amounts in figures. Of `1,500`, which may be one and a half in some language, the larger number is meant."""
    at = 0
    for line in text.splitlines(keepends=True):
        for values, offset in list_numbers(line):
            numbers = [float(value) for value in values if value.replace(".", "", 1).isdecimal()]
            written = _FIGURES.match(text, at + offset)
            if numbers and written is not None:
                scale = SCALE.match(text, written.end())
                yield from _read_around(text, max(numbers), written.start(), (scale or written).end())
        at += len(line)


def _read_around(text: str, number: float, start: int, end: int) -> Iterator[Amount]:
    """Yield the amount of a number in figures, if there is a currency or a unit beside it."""
    before = _SIGN_BEFORE.search(text, max(0, start - 2), start)
    if before is None and _NUMBER_BEFORE.search(text, max(0, start - 2), start):
        return
    sign = before or _SIGN_AFTER.match(text, end)
    if sign is None:
        yield from _read_unit(text, number, start, end, 1)
    elif not text[end : end + 1].isalpha():  # `£5m` is another amount
        currency = normalize_unit(sign["sign"])
        yield Amount(number, currency, BY_SIGN, min(start, sign.start()), max(end, sign.end()))


def _read_words(text: str) -> Iterator[Amount]:
    """Yield the amounts whose numbers are words, or an article: `an hour`. Numbers of several words are read in English only."""
    compounds: Mapping[int, tuple[float, int]] = {
        start: (float(min(values)), end)
        for values, (start, end) in find_compound_numbers(text, set(re.split(r"[\W\d_]+", text.lower())))
    }
    known, read_to = _load_numbers(), 0
    for found in _WORD.finditer(text):
        word, start = fold(found[0]), found.start()
        if start < read_to or not (start in compounds or word in known):
            continue
        value, end = compounds.get(start) or (known[word], found.end())
        read_to = end
        if word in load_words("amounts", "how_often") or _follows_number(text, start):
            continue
        for amount in _read_unit(text, value, start, end, MIN_SPELLED_UNIT):
            read_to = amount.end
            yield amount


@cache
def _load_numbers() -> Mapping[str, float]:
    """Return the numbers of words before a unit, where an article is a one: `an hour`."""
    before_units = {"one": 1.0, "half": HALF}
    found = {word: number for name, number in before_units.items() for word in load_words("amounts", name)}
    return found | {word: float(value) for word, value in load_number_words().items()}


def _follows_number(text: str, start: int) -> bool:
    """Return whether a number, a currency or a word such as "twice" is right before: `£12 an hour`, `once a year`."""
    before = text[max(0, start - BEFORE_CHARS) : start]
    last = _LAST_WORD.search(before)
    word = fold(last[1]) if last else ""
    is_part = word in load_words("amounts", "how_often") or word in load_words("amounts", "fractions")
    return is_part or word in load_number_words() or _NUMBER_BEFORE.search(before) is not None


def _read_clock_times(text: str) -> Iterator[Amount]:
    """Yield the times of the day in minutes, with the way they are written as their unit. The end of a range is left out."""
    for found in _CLOCK_TIME.finditer(text):
        hour, minute, half = int(found["hour"]), int(found["minute"] or 0), found["half"]
        if half:
            hour = hour % 12 + (12 if half in "pP" else 0)
        is_time = hour <= LAST_HOUR and minute < MINUTES_OF_HOUR and (half or found["uhr"] or found["minute"])
        if is_time and not (half and _RANGE_BEFORE.search(text, max(0, found.start() - 8), found.start())):
            style = "p.m." if half else "Uhr" if found["uhr"] and not found["minute"] else "24 hours"
            yield Amount(hour * MINUTES_OF_HOUR + minute, CLOCK, style, *found.span())


def _read_unit(text: str, number: float, start: int, end: int, min_letters: int) -> Iterator[Amount]:
    of_half = _OF_HALF.match(text, end) if number < 1 else None
    found = _UNIT.match(text, of_half.end() if of_half else end)
    unit = found["unit"].lower() if found else ""
    is_glued_second = found is not None and unit == "s" and not found["gap"]
    if found is None or len(unit) < min_letters or is_glued_second or {unit, normalize_unit(unit)} & NOT_CONVERTED:
        return
    if (known := find_unit(unit)) is None:
        return
    (dimension, factor), halves = known, HALF * bool(found["half"] or found["more"])
    if dimension == YEAR:
        dimension, factor = MONTH, factor * MONTHS_OF_YEAR
    elif factor == MINUTES_OF_MONTH:
        dimension, factor = MONTH, 1
    elif dimension not in CONVERTED:
        return
    yield Amount((number + halves) * factor, dimension, unit, start, found.end())
