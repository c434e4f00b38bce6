"""The age limit of results: the parser of `freshness`.

Valid: noLimit, oneDay, oneWeek, oneMonth, oneYear, a real date (2026-03-31), or an ordered range of two real dates
(2026-03-01..2026-03-31). Anything else is a WebSearchRequestError. Adapters translate the result for their vendor.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from typing import Final

from modules.llm_platform.domain.canonical_url import admits_host, host_of
from modules.llm_platform.domain.dtos.web_search_dtos import TimeRange, WebSearchRequest, WebSearchResultItem
from modules.llm_platform.domain.exceptions import WebSearchRequestError

NO_LIMIT: Final = "noLimit"
KEYWORDS: Final[dict[str, TimeRange]] = {"oneDay": "day", "oneWeek": "week", "oneMonth": "month", "oneYear": "year"}
# Whole days before today that a provider's range covers: "day" means 24 hours, so not all of yesterday.
_DAYS_BACK: Final[tuple[tuple[int, TimeRange], ...]] = ((0, "day"), (6, "week"), (29, "month"), (364, "year"))
_DATES = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:\.\.([0-9]{4}-[0-9]{2}-[0-9]{2}))?")

_ADVICE = (
    "freshness must be oneDay, oneWeek, oneMonth, oneYear, noLimit, a date such as 2026-03-31 "
    "or a range such as 2026-03-01..2026-03-31"
)


@dataclass(frozen=True, slots=True)
class Freshness:
    """A limit on age: either a `recent` span that ends now, or the days from `start` to `end`, both included."""

    recent: TimeRange | None = None
    start: date | None = None
    end: date | None = None

    def time_range(self, today: date) -> TimeRange | None:
        """The smallest of day, week, month and year that covers the limit; None when even a year does not."""
        if self.start is None:
            return self.recent
        age = (today - self.start).days
        return next((name for days, name in _DAYS_BACK if age <= days), None)

    def admits(self, published: str | None) -> bool:
        """Whether a result with that ISO date passes. Undated results pass; without dates all do."""
        if self.start is None or self.end is None or not published:
            return True
        try:
            day = date.fromisoformat(published[:10])
        except ValueError:
            return True
        return self.start <= day <= self.end


_RECENT = {word: Freshness(recent=span) for word, span in KEYWORDS.items()}
_SPAN: dict[str, Freshness] = {span: Freshness(recent=span) for span in KEYWORDS.values()}


def freshness_window(request: WebSearchRequest) -> Freshness | None:
    """The limit of a request, None for no limit; `freshness` overrides `time_range`.

    Raises WebSearchRequestError for an invalid freshness.
    """
    if request.freshness is None:
        return None if request.time_range is None else _SPAN[request.time_range]
    if request.freshness == NO_LIMIT:
        return None
    return _RECENT.get(request.freshness) or _dated(request.freshness)


def _dated(freshness: str) -> Freshness:
    match = _DATES.fullmatch(freshness)
    if match is None:
        raise WebSearchRequestError(_ADVICE)
    try:
        start = date.fromisoformat(match[1])
        end = date.fromisoformat(match[2] or match[1])
    except ValueError as error:
        raise WebSearchRequestError(f"{_ADVICE}; this date does not exist") from error
    if end < start:
        raise WebSearchRequestError(f"{_ADVICE}; this range ends before it begins")
    return Freshness(start=start, end=end)


def is_admitted(item: WebSearchResultItem, request: WebSearchRequest, window: Freshness | None) -> bool:
    """Whether the item matches domains and dates of the request, which an engine may treat as hints."""
    return admits_host(host_of(item.url), request.domains) and (window is None or window.admits(item.published_date))
