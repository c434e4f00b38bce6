"""The valid values of freshness and their meaning."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each

from modules.llm_platform.domain.dtos.freshness import Freshness
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest
from modules.llm_platform.domain.exceptions import WebSearchRequestError
from modules.llm_platform.domain.search.freshness import freshness_window

TODAY = date(2026, 11, 20)


def freshness_of(freshness: str | None = None, time_range: str | None = None) -> Freshness | None:
    return freshness_window(WebSearchRequest(query="q", freshness=freshness, time_range=time_range))


@for_each(
    ("freshness", "expected"),
    [
        (None, None),
        ("noLimit", None),
        ("oneDay", Freshness(recent="day")),
        ("oneWeek", Freshness(recent="week")),
        ("oneMonth", Freshness(recent="month")),
        ("oneYear", Freshness(recent="year")),
        ("2024-02-29", Freshness(start=date(2024, 2, 29), end=date(2024, 2, 29))),
        ("2026-03-01..2026-03-31", Freshness(start=date(2026, 3, 1), end=date(2026, 3, 31))),
        ("2026-03-01..2026-03-01", Freshness(start=date(2026, 3, 1), end=date(2026, 3, 1))),
    ],
)
def test_what_is_valid(freshness: str | None, expected: Freshness | None) -> None:
    """The five words, a real date and an ordered range have one meaning each."""
    assert freshness_of(freshness) == expected


@for_each(
    "freshness",
    [
        "",
        " ",
        "oneday",
        "oneDay ",
        "week",
        "2023-02-29",
        "2025-13-01",
        "2025-13-01..2025-14-01",
        "2026-03-02..2026-03-01",
        "2026-03-01..",
        "..2026-03-01",
        "2026-03-01..2026-03-02..2026-03-03",
        "20260301",
        "2026-W10-1",
        "2026-3-1",
        "２０２６-03-01",
        "2026-03-01\n",
        "2026-03-01T00:00:00",
        "0000-01-01",
    ],
)
def test_what_is_not(freshness: str) -> None:
    """Anything else is the caller's mistake, and the message says what would be right without quoting it."""
    with pytest.raises(WebSearchRequestError, match="oneDay") as caught:
        freshness_of(freshness)
    assert len(caught.value.message) < 250


@given(st.text(max_size=40))
def test_any_text_is_valid_or_refused(freshness: str) -> None:
    """No text makes it fail in another way."""
    try:
        freshness_of(freshness)
    except WebSearchRequestError:
        return
    assert freshness.startswith(("one", "noLimit")) or freshness[0].isdigit()


def test_time_range_counts_without_a_freshness() -> None:
    """`time_range` is used where no freshness is given; where both are, freshness wins, also when it lifts the limit."""
    assert freshness_of(time_range="week") == Freshness(recent="week")
    assert freshness_of("oneDay", "year") == Freshness(recent="day")
    assert freshness_of("noLimit", "day") is None


@for_each(
    ("days_ago", "expected"),
    [(0, "day"), (1, "week"), (6, "week"), (7, "month"), (29, "month"), (30, "year"), (364, "year"), (366, None)],
)
def test_the_smallest_range_that_covers(days_ago: int, expected: str | None) -> None:
    """A window of dates becomes the smallest range that reaches back to the beginning of its first day."""
    start = TODAY - timedelta(days=days_ago)
    assert Freshness(start=start, end=TODAY).time_range(TODAY) == expected


@for_each(
    ("window", "first"),
    [
        (Freshness(recent="day"), date(2026, 3, 30)),
        (Freshness(recent="week"), date(2026, 3, 24)),
        (Freshness(recent="month"), date(2026, 2, 28)),
        (Freshness(recent="year"), date(2025, 3, 30)),
        (Freshness(start=date(2026, 1, 2), end=date(2026, 1, 3)), date(2026, 1, 2)),
    ],
)
def test_the_first_day_of_a_limit(window: Freshness, first: date) -> None:
    """A span counts back from today, and rather a day too far than too short."""
    assert window.first_day(date(2026, 3, 31)) == first


def test_a_word_is_its_range_whatever_the_day() -> None:
    """A recent span does not depend on the calendar, and a window in the future needs the smallest range."""
    assert Freshness(recent="month").time_range(TODAY) == "month"
    assert Freshness(start=TODAY + timedelta(days=9), end=TODAY + timedelta(days=9)).time_range(TODAY) == "day"


@for_each(
    ("published", "stays"),
    [
        ("2026-03-01T00:00:00", True),
        ("2026-03-31T23:59:59+08:00", True),
        ("2026-02-28T23:59:59", False),
        ("2026-04-01", False),
        (None, True),
        ("", True),
        ("yesterday", True),
    ],
)
def test_results_are_filtered_by_their_date(published: str | None, stays: bool) -> None:
    """Dates outside the window go; results without a readable date stay."""
    assert Freshness(start=date(2026, 3, 1), end=date(2026, 3, 31)).admits(published) is stays


def test_a_recent_span_filters_nothing() -> None:
    """The provider has already filtered by its own clock."""
    assert Freshness(recent="day").admits("1999-01-01")
