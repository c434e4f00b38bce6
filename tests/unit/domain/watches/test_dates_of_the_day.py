"""The date of the day is blank, and every other date and offset stays."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from modules.llm_platform.domain.watches.dates_of_the_day import blank_dates_of_the_day

AT = datetime(2026, 11, 25, 6, tzinfo=UTC)


@pytest.mark.parametrize(
    "written",
    [
        "25 November 2026",
        "November 25, 2026",
        "Wednesday, 25 November 2026",
        "2026-11-25",
        "25.11.2026",
        "25. November 2026",
        "25 novembre 2026",
        "25 de noviembre de 2026",
        "26 November 2026",
        "25th of November 2026",
    ],
)
def test_the_day_is_blank(written: str) -> None:
    """In any place of the world: it may be tomorrow there."""
    assert blank_dates_of_the_day(f"As of {written}: 12", AT) == f"As of {' ' * len(written)}: 12"


@pytest.mark.parametrize(
    "written", ["28 November 2026", "2025-11-25", "25 November", "99.99.2026", "in 2026", "Monday"]
)
def test_other_dates_stay(written: str) -> None:
    assert blank_dates_of_the_day(written, AT) == written
