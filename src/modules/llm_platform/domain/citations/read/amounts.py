"""Find amounts that are equal in other units: two years and 24 months, 2.5 km and 2,500 metres, 5 p.m. and 17:00.

`use_units` writes the amounts of a claim as the source writes them, so that both can be compared word by word.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from modules.llm_platform.domain.extractive.quantities import find_unit
from modules.llm_platform.domain.text.numbers import find_compound_numbers, list_numbers, load_number_words
from modules.llm_platform.domain.text.stemming import normalize_unit
from modules.llm_platform.domain.text.tokens import fold

MONTH, YEAR, LENGTH, WEIGHT, VOLUME, TIME, CLOCK = "month", "year", "m", "kg", "l", "min", "clock"
MONTHS_OF_YEAR: Final = 12
MINUTES_OF_HOUR, LAST_HOUR = 60, 24
MINUTES_OF_MONTH: Final = 43_800  # as `unit_sizes.json` has it; a month is no exact number of days
CONVERTED: Final = frozenset({LENGTH, WEIGHT, VOLUME, TIME})
NOT_EXACT: Final = frozenset({"mi", "ft", "inch", "yd", "lb", "uhr", "mileage"})  # or, as "17 Uhr", a time of day
MIN_SPELLED_UNIT: Final = 2  # letters of the unit after a number in words: "three g" has none
HALF: Final = 0.5
# Words that are numbers only before a unit.
BEFORE_UNITS: Final = {
    **dict.fromkeys(("a", "an", "one", "ein", "eine", "einen", "einem", "einer", "eines", "un", "une", "una"), 1.0),
    **dict.fromkeys(("halbe", "halbes", "halben", "halber", "demi", "demie", "medio", "media", "mezzo", "mezza"), HALF),
}

_FIGURES = re.compile(r"[0-9](?:[0-9.,'’\u00a0\u202f]*[0-9])?")
_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_UNIT = re.compile(
    r"(?P<half>[ -]and[ -]a[ -]half|½)?[\s\u00a0-]{0,2}(?:(?:of )?an? |eine[nrsm]? )?(?P<unit>[^\W\d_]+)"
    r"(?P<more> and a half| et demie?| y media)?"
)
_CLOCK_TIME = re.compile(
    r"(?<![\d:.,])(?P<hour>\d{1,2})(?::(?P<minute>\d{2}))?(?![\d:])"
    r"(?: ?(?P<half>[ap])\.?m\b\.?|(?P<uhr> uhr\b)"
    r"|(?= ?(?:-|–|to|and|until) ?(?P<end>\d{1,2})(?::\d{2})? ?(?P<half_of_end>[ap])\.?m\b))?",
    re.IGNORECASE,
)


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
    """Return the lengths, weights, volumes, durations and times of the day of a text.

    A number with two possible values gives two amounts.
    """
    return [*_read_figures(text), *_read_words(text), *_read_clock_times(text)]


def use_units(claim: str, amounts: Sequence[Amount], text: str) -> str:
    """Return the claim with its amounts written as the text writes them, if the text has an equal one in another unit only."""
    mine = list_amounts(claim)
    equal = {
        (own.start, own.end): others
        for own in mine
        if (others := [other for other in amounts if own.equals(other)])
        and not any(_has_same_unit(own, other) for other in others)
    }
    for (start, end), others in sorted(equal.items(), reverse=True):
        claim = f"{claim[:start]}{text[others[0].start : others[0].end]}{claim[end:]}"
    return claim


def _has_same_unit(one: Amount, other: Amount) -> bool:
    return one.unit == other.unit or (find_unit(one.unit) is not None and find_unit(one.unit) == find_unit(other.unit))


def _read_figures(text: str) -> Iterator[Amount]:
    for values, offset in list_numbers(text):
        if (written := _FIGURES.match(text, offset)) is not None:
            numbers = [float(value) for value in values if value.replace(".", "", 1).isdecimal()]
            yield from _read_unit(text, numbers, offset, written.end(), 1)


def _read_words(text: str) -> Iterator[Amount]:
    """Yield the amounts whose numbers are words, or an article: `an hour`."""
    compounds: Mapping[int, tuple[float, int]] = {
        start: (float(min(values)), end)
        for values, (start, end) in find_compound_numbers(text, set(re.split(r"[\W\d_]+", text.lower())))
    }
    known, read_to = load_number_words(), 0
    for found in _WORD.finditer(text):
        word, start = fold(found[0]), found.start()
        if start < read_to or not (start in compounds or word in known or word in BEFORE_UNITS):
            continue
        value, end = compounds.get(start, (float(known.get(word, BEFORE_UNITS.get(word, 1.0))), found.end()))
        for amount in _read_unit(text, [value], start, end, MIN_SPELLED_UNIT):
            read_to = amount.end
            yield amount


def _read_clock_times(text: str) -> Iterator[Amount]:
    """Yield the times of the day in minutes, with the way they are written as their unit."""
    for found in _CLOCK_TIME.finditer(text):
        hour, minute, half = int(found["hour"]), int(found["minute"] or 0), found["half"]
        if found["end"] and hour < int(found["end"]):
            half = found["half_of_end"]  # `1 to 3 p.m.` begins in the afternoon, `11 to 3 p.m.` before noon
        if half:
            hour = hour % 12 + (12 if half in "pP" else 0)
        if hour <= LAST_HOUR and minute < MINUTES_OF_HOUR and (half or found["uhr"] or found["minute"]):
            style = "p.m." if half else "Uhr" if found["uhr"] and not found["minute"] else "24 hours"
            yield Amount(hour * MINUTES_OF_HOUR + minute, CLOCK, style, *found.span())


def _read_unit(text: str, numbers: Sequence[float], start: int, end: int, min_letters: int) -> Iterator[Amount]:
    found = _UNIT.match(text, end)
    unit = found["unit"].lower() if found else ""
    known = find_unit(unit) if len(unit) >= min_letters and not {unit, normalize_unit(unit)} & NOT_EXACT else None
    if found is None or known is None:
        return
    (dimension, factor), halves = known, HALF * bool(found["half"] or found["more"])
    if dimension == YEAR:
        dimension, factor = MONTH, factor * MONTHS_OF_YEAR
    elif factor == MINUTES_OF_MONTH:
        dimension, factor = MONTH, 1
    elif dimension not in CONVERTED:
        return
    for number in numbers:
        yield Amount((number + halves) * factor, dimension, unit, start, found.end())
