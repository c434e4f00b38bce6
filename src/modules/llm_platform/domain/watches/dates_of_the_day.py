"""Blank out the date of the day, which pages write anew each day: "As of 26 November 2026 the toll is 12 euros"."""

import re
from datetime import date, datetime, timedelta
from functools import cache
from typing import Final

from modules.llm_platform.domain.text.lazy_pattern import lazy_pattern
from modules.llm_platform.domain.text.numbers import load_date_words

TIME_ZONES: Final = timedelta(days=1)  # the day of a page may be another one than the day of the server
_DECEMBER: Final = 11  # the last month in `load_date_words`, before the weekdays


@cache
def _names(*, weekdays: bool) -> str:
    names = [word for word, number in load_date_words().items() if (number > _DECEMBER) is weekdays]
    return "|".join(sorted(map(re.escape, names), key=len, reverse=True))


@cache
def _dates() -> re.Pattern[str]:
    month, weekday = _names(weekdays=False), _names(weekdays=True)
    return re.compile(
        rf"(?:\b(?:{weekday})\b,? )?"
        r"(?:\b(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)\b"
        r"|\b(?P<day2>\d{1,2})\.(?P<month2>\d{1,2})\.(?P<year2>\d{4})\b"
        rf"|\b(?P<day3>\d{{1,2}})(?:st|nd|rd|th|\.|º)?(?: de| of)? (?P<month3>{month})\.?,?(?: de)? (?P<year3>\d{{4}})\b"
        rf"|\b(?P<month4>{month})\.? (?P<day4>\d{{1,2}})(?:st|nd|rd|th)?,? (?P<year4>\d{{4}})\b)",
        re.IGNORECASE,
    )


_YEAR: Final = lazy_pattern(r"\d{4}")


def blank_dates_of_the_day(text: str, at: datetime) -> str:
    """Return the text with spaces instead of each full date that is the day of `at`. Its length stays the same."""
    if not _YEAR.search(text):
        return text

    def blank(found: re.Match[str]) -> str:
        day = _read_day(found)
        is_today = day is not None and abs(day - at.date()) <= TIME_ZONES
        return " " * len(found[0]) if is_today else found[0]

    return _dates().sub(blank, text)


def _read_day(found: re.Match[str]) -> date | None:
    year, month, day = (
        next(found[name + number] for number in ("", "2", "3", "4") if found[name + number])
        for name in ("year", "month", "day")
    )
    number = int(month) if month.isdecimal() else load_date_words()[month.casefold()] + 1
    try:
        return date(int(year), number, int(day))
    except ValueError:
        return None
