"""The age limit of results: the parser of `freshness`.

Valid: noLimit, oneDay, oneWeek, oneMonth, oneYear, a real date (2026-03-31), or an ordered range of two real dates
(2026-03-01..2026-03-31).
"""

import re
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final

from modules.llm_platform.domain.dtos.web_search_dtos import TimeRange

NO_LIMIT: Final = "noLimit"
FIRST_DAY: Final = date(1970, 1, 1)  # start of a range that has only an end: no page of the web is older
KEYWORDS: Final[dict[str, TimeRange]] = {"oneDay": "day", "oneWeek": "week", "oneMonth": "month", "oneYear": "year"}
# Whole days before today that a provider's range covers: "day" means 24 hours, so not all of yesterday.
_DAYS_BACK: Final[tuple[tuple[int, TimeRange], ...]] = ((0, "day"), (6, "week"), (29, "month"), (364, "year"))
_SPAN_DAYS: Final[dict[TimeRange, int]] = {"day": 1, "week": 7, "month": 31, "year": 366}
_DATES = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:\.\.([0-9]{4}-[0-9]{2}-[0-9]{2}))?")

_ADVICE = (
    "must be oneDay, oneWeek, oneMonth, oneYear, noLimit, a date such as 2026-03-31 "
    "or a range such as 2026-03-01..2026-03-31"
)


@dataclass(frozen=True, slots=True)
class Freshness:
    """A limit on age: either a `recent` span that ends now, or the days from `start` to `end`, both included."""

    recent: TimeRange | None = None
    start: date | None = None
    end: date | None = None

    def time_range(self, today: date) -> TimeRange | None:
        """Return the smallest of day, week, month and year that covers the limit; None when even a year does not."""
        if self.start is None:
            return self.recent
        age = (today - self.start).days
        return next((name for days, name in _DAYS_BACK if age <= days), None)

    def first_day(self, today: date) -> date | None:
        """Return the day with which the limit begins, for a provider that takes dates only; None without a limit."""
        return today - timedelta(days=_SPAN_DAYS[self.recent]) if self.recent else self.start

    def admits(self, published: str | None) -> bool:
        """Return whether a result with that ISO date passes. Undated results pass; without dates all do."""
        if self.start is None or self.end is None or not published:
            return True
        try:
            day = date.fromisoformat(published[:10])
        except ValueError:
            return True
        return self.start <= day <= self.end


def format_days(first: date | None, last: date | None) -> str | None:
    """Return the freshness of results from one day to another, both included; None without both.

    Without the last day it ends today.
    """
    if first is None and last is None:
        return None
    first = first or FIRST_DAY
    return f"{first}..{last or max(first, date.today())}"  # noqa: DTZ011  # the day of the operator


_RECENT = {word: Freshness(recent=span) for word, span in KEYWORDS.items()}


def parse_freshness(text: str) -> Freshness | None:
    """Return the limit, None for no limit. Raises ValueError, with what is valid."""
    return None if text == NO_LIMIT else _RECENT.get(text) or _parse_dates(text)


def _parse_dates(freshness: str) -> Freshness:
    match = _DATES.fullmatch(freshness)
    if match is None:
        raise ValueError(_ADVICE)
    try:
        start = date.fromisoformat(match[1])
        end = date.fromisoformat(match[2] or match[1])
    except ValueError as error:
        raise ValueError(f"{_ADVICE}; this date does not exist") from error
    if end < start:
        raise ValueError(f"{_ADVICE}; this range ends before it begins")
    return Freshness(start=start, end=end)
