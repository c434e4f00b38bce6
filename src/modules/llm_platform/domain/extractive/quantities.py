"""Parse numbers with units, dates and times of the day in table cells and questions.

All values become numbers that can be compared: known units are converted (900 g is 0.9 kg, 1 h 30 min is 90 min), a date is a
number such as 20240131, and a time of the day is the minutes since midnight.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import date
from functools import cache
from typing import Final, NamedTuple

from modules.llm_platform.domain.text.data_files import load_data
from modules.llm_platform.domain.text.numbers import load_date_words
from modules.llm_platform.domain.text.stemming import normalize_unit

MINUTES: Final = "min"  # the unit of durations and of times of the day
AGE_UNIT: Final = "year"
MONTHS: Final = 12  # `load_date_words` numbers months from 0 to 11, and weekdays from 12
YEARS: Final = 10_000  # one year in the number of a date: 20240131 // YEARS is 2024
CENTURY: Final = 2000  # added to a year of two digits
LAST_DAY: Final = 99  # ends a month or a year: no day and no month has a higher number

NUMBER: Final = re.compile(r"[-+]?(?:(?<![\w.])\.)?\d(?:[\d.,'’]|[ \u00a0\u202f](?=\d{3}(?!\d)))*")
_SIGN_BEFORE: Final = re.compile(r"[€$£](?=\s*\Z)")
_UNIT_AFTER: Final = re.compile(r"[ \u00a0\u202f-]{0,2}(km/h|° ?[cf]\b|m[²2]|[^\W\d_]+\b|[%€$£])")
_BLANKS: Final = re.compile(r"['’ \u00a0\u202f]")
_THOUSANDS: Final = re.compile(
    r"[-+]?\d{1,3}(?:(?:\.\d{3})+|(?:,\d{2,3})*,\d{3})"
)  # India groups two digits: 12,34,567
_CLOCK: Final = re.compile(
    r"(?<![\d:])(\d{1,2}):(\d{2})(?::(\d{2}))?(?![\d:])(?: ?([ap])\.?m\b)?|\b(\d{1,2}) ?([ap])\.?m\b"
)
_DATE: Final = (
    r"(?<![\d.])(?:(?P<iso_year>\d{{4}})-(?P<iso_month>\d{{2}})(?:-(?P<iso_day>\d{{2}}))?(?!\d)"
    r"|(?P<first>\d{{1,2}})(?P<sign>[./])(?P<second>\d{{1,2}})(?P=sign)(?P<numeric_year>\d{{4}}|(?<=\d\d[./]\d\d[./])\d{{2}})(?!\d|\.\d)"
    r"|(?P<joined_day>\d{{1,2}})(?P<joint>[-/])(?P<joined_month>{months})\b"
    r"(?:(?P=joint)(?P<joined_year>\d{{4}}|\d{{2}})(?!\d))?"
    r"|(?P<day>\d{{1,2}})(?:\.|st|nd|rd|th|er)? (?:(?:of|de) )?(?P<month>{months})\b\.?(?:,? (?:de )?(?P<year>\d{{4}}))?(?!\d)"
    r"|\b(?P<named>{months})\b\.?(?: (?P<after>\d{{1,2}})(?:st|nd|rd|th)?(?!\d))?(?:,? (?P<of>\d{{4}})(?!\d))?"
    r"|(?P<alone>(?:1[5-9]|20)\d\d)(?![\d.,:]\d|\d| ?(?:%|€|[^\W\d_])))"
)


_TO: Final = r" ?(?:[-–—]|to\b|until\b|bis\b|au\b|al\b|hasta\b) ?(?:(?:the|zum|le|el) )?"
_RANGE_SIGN: Final = re.compile(_TO)
_FIRST_DAY: Final = re.compile(rf"(?<![\d.:,])(\d{{1,2}})(?:\.|st|nd|rd|th|er)?{_TO}\Z")  # of `14–16 March`

_SHORT_DATE: Final = re.compile(r"(?<![\d./])(\d{1,2})(?:\.(\d{1,2})\.|/(\d{1,2}))(?![\d/])")  # without a year


class Quantity(NamedTuple):
    """A number with its unit.

    - `figure` is the number as written, without blanks. For a time of the day, it is the minutes since midnight.
    - `unit` is the base unit, empty if unknown, and `factor` converts the number to it.
    - `start` and `end` are the span of the number with its unit.
    """

    figure: str
    unit: str
    factor: float
    start: int
    end: int


class DateRange(NamedTuple):
    """A day, a range of days, a month or a year: the numbers of its first and last day, and its span in the text.

    Without a year, the numbers are below YEARS.
    """

    first: float
    last: float
    start: int
    end: int


@cache
def _load_unit_factors() -> dict[str, tuple[str, float]]:
    units = load_data("unit_sizes")
    return {word: (base, factor) for base in units for words, factor in units[base].items() for word in words.split()}


def find_unit(word: str) -> tuple[str, float] | None:
    """Return the base unit of a folded word, and the factor that converts to it; None if the word is not a unit."""
    known = _load_unit_factors()
    return known.get(word) or known.get(normalize_unit(word))


def list_quantities(text: str) -> Iterator[Quantity]:
    """Yield the numbers of a case-folded text with their units. A time of the day is a number of minutes."""
    at = 0
    while number := NUMBER.search(text, at):
        clock = _CLOCK.match(text, number.start())
        found = _read_number(text, at, number) if clock is None else _read_clock(clock)
        yield found
        at = found.end


def _read_number(text: str, at: int, number: re.Match[str]) -> Quantity:
    figure = _BLANKS.sub("", number[0]).rstrip(".,")
    if (sign := _SIGN_BEFORE.search(text, at, number.start())) and (known := find_unit(sign[0])):
        return Quantity(figure, *known, sign.start(), number.end())
    after = _UNIT_AFTER.match(text, number.end())
    if after and (known := find_unit(after[1].replace(" ", ""))):
        return Quantity(figure, *known, number.start(), after.end())
    return Quantity(figure, "", 1.0, number.start(), number.end())


def _read_clock(found: re.Match[str]) -> Quantity:
    hours, minutes, seconds, half, whole, of_whole = found.groups()
    hour = int(whole or hours)
    if afternoon := half or of_whole:
        hour = hour % 12 + (12 if afternoon == "p" else 0)
    of_day = hour * 60 + int(minutes or 0) + int(seconds or 0) / 60
    return Quantity(f"{of_day:.4f}", MINUTES, 1.0, *found.span())


def is_clock(text: str) -> bool:
    """Return whether a case-folded text is a time of the day, or a duration such as 1:29:54."""
    return _CLOCK.fullmatch(text.strip()) is not None


def find_decimal_sign(figures: Sequence[str]) -> str | None:
    """Return the decimal sign of figures that belong together; empty if none has one, None if they contradict each other.

    A sign counts as a thousands separator unless a figure shows that it is a decimal sign.
    """
    signs = [_read_signs(figure) for figure in figures]
    decimals = {sign[0] for sign in signs if sign is not None and sign[0]}
    grouping = {sign[1] for sign in signs if sign is not None and sign[1]}
    others = set("".join(figures)) & {".", ","} - decimals
    if None in signs or len(decimals) > 1 or len(others) > 1 or decimals & grouping:
        return None
    return "".join(decimals)


def _read_signs(figure: str) -> tuple[str, str] | None:
    """Return the decimal sign and the thousands separator, as far as this figure shows them; None if it is not a number."""
    signs = [sign for sign in figure if sign in ".,"]
    if not signs:
        return "", ""
    last = signs[-1]
    if len(set(signs)) == 2:
        return (last, signs[0]) if signs.count(last) == 1 else None
    if len(signs) > 1:
        return ("", last) if _THOUSANDS.fullmatch(figure) else None
    whole, part = figure.lstrip("+-").split(last)
    is_decimal = len(part) != 3 or not 1 <= len(whole) <= 3 or whole.startswith("0")
    return (last, "") if is_decimal else ("", "")


def read_figure(figure: str, decimal: str) -> float:
    """Return the number of a figure whose decimal sign is known."""
    whole, sign, part = figure.partition(decimal) if decimal else (figure, "", "")
    return float(f"{re.sub('[.,]', '', whole)}.{part}" if sign else re.sub("[.,]", "", whole))


@cache
def _compile_date() -> re.Pattern[str]:
    names = (word for word, number in load_date_words().items() if number < MONTHS and word.isalpha())
    short = (name[:3] for name in load_data("dates")["months"] for name in name.split()[:1])
    return re.compile(_DATE.format(months="|".join(sorted({*names, *short}, key=len, reverse=True))))


def find_date(text: str, *, month_first: bool = False) -> DateRange | None:
    """Return the first date of a case-folded text: `2026-03-14`, `14.03.2026`, `14 march 2026`, `14-mar-26`, `june`, or a year.

    With dots the day is first, with slashes the month if `month_first` is True.

    Raises ValueError if the date is not valid.
    """
    found = _compile_date().search(text)
    if found is None:
        return None
    part = found.groupdict()
    years = ("iso_year", "numeric_year", "joined_year", "year", "of", "alone")
    year = next((part[name] for name in years if part[name]), None)
    named = part["joined_month"] or part["month"] or part["named"]
    day = part["iso_day"] or part["joined_day"] or part["day"] or part["after"]
    month = part["iso_month"] or (named and _get_month(named))
    if part["first"]:
        day, month = part["first"], part["second"]
        if month_first and part["sign"] == "/":
            day, month = month, day
    first, last = _make_date_numbers(int(year or 0), int(month or 0), int(day or 0))
    return DateRange(first, last, *found.span())


def find_date_range(text: str, *, month_first: bool = False) -> DateRange | None:
    """Return the first date or range of dates in a case-folded text: `14–16 march`, `1 june to 30 september`.

    Raises ValueError if the date is not valid.
    """
    day = find_date(text, month_first=month_first)
    if day is None:
        return None
    if before := _FIRST_DAY.search(text, 0, day.start):
        first = day.last // 100 * 100 + int(before[1])
        return DateRange(first, day.last, before.start(), day.end) if first < day.first == day.last else day
    joint = _RANGE_SIGN.match(text, day.end)
    last = find_date(text[joint.end() :], month_first=month_first) if joint else None
    if joint is None or last is None or last.start:
        return day
    return DateRange(*_complete_years(day.first, last.last), day.start, joint.end() + last.end)


def find_question_date(question: str, *, month_first: bool) -> DateRange | None:
    """Return the only date of a case-folded question, which may have no year: `9.6.`, `26/4`.

    Return None if it has no date, two dates or an invalid one.

    With `month_first`, 3/4 may be March 4 or April 3, so neither it nor 3/4/2026 counts as a date. 14/3 and 3/14 are dates.
    """
    try:
        if find_date_range(question) is None:
            return _find_date_without_year(question, month_first=month_first)
    except ValueError:  # no date if the day is first
        pass
    orders = (False, True) if month_first else (False,)
    readings = {day for order in orders if (day := _find_only_date(question, month_first=order))}
    return readings.pop() if len(readings) == 1 else None


def _find_only_date(question: str, *, month_first: bool) -> DateRange | None:
    """Return the date of a question, None if it has two dates or an invalid one."""
    try:
        day = find_date_range(question, month_first=month_first)
        if day is None or find_date(question[day.end :], month_first=month_first):
            return None
        return None if _SHORT_DATE.search(question[day.end :]) else day
    except ValueError:
        return None


def _find_date_without_year(text: str, *, month_first: bool) -> DateRange | None:
    found = _SHORT_DATE.search(text)
    if found is None:
        return None
    day, month = int(found[1]), int(found[2] or found[3])
    if found[3] and month_first:
        if day != month and day <= MONTHS >= month:
            return None
        day, month = (month, day) if month > MONTHS else (day, month)
    return DateRange(*_make_date_numbers(0, month, day), *found.span())


def _complete_years(first: float, last: float) -> tuple[float, float]:
    """Return the ends of a range of days, with the year added to the first day: the year of the last day, or the year before."""
    if first < YEARS <= last:
        first += last // YEARS * YEARS
        first -= YEARS if first > last else 0
    return first, last


def _get_month(name: str) -> int:
    """Return the number of a month by its name, or by the first three letters of its English name."""
    known = load_date_words()
    return 1 + next(number for word, number in known.items() if word.startswith(name) and number < MONTHS)


def _make_date_numbers(year: int, month: int, day: int) -> tuple[float, float]:
    """Return the numbers of the first and the last day of a date. 0 means that the year, the month or the day is missing."""
    if 0 < year < 100:
        year += CENTURY
    if not month:
        return year * YEARS, year * YEARS + LAST_DAY * 101
    if not day:
        return year * YEARS + month * 100, year * YEARS + month * 100 + LAST_DAY
    date(year or 2000, month, day)  # a leap year
    return (year * YEARS + month * 100 + day,) * 2
