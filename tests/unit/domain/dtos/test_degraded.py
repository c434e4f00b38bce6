"""The end of an outage, as answers name it."""

from datetime import UTC, datetime, timedelta

import pytest

from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.exceptions import WebSearchError

NOW = datetime(2026, 3, 4, 5, 6, 7, 890_000, tzinfo=UTC)
LATE = timedelta(seconds=0.1)


def test_an_entry_names_the_second_of_the_refusal() -> None:
    """Midnight stays midnight, although a moment passes before the refusal, and any time before its entry."""
    end = NOW.replace(microsecond=0) + timedelta(hours=1)
    error = WebSearchError("is away", retry_after_s=(end - NOW).total_seconds())
    error.made_at = NOW + LATE
    assert Degraded.of("x", error).until == end


@pytest.mark.parametrize("wait_s", [0.3, 0.5, 9.9])
def test_part_of_a_second_is_waited_for(wait_s: float) -> None:
    """`until` is a full second, at most a quarter of one before the end of the wait."""
    end = datetime.now(UTC) + timedelta(seconds=wait_s)
    until = Degraded.of("x", WebSearchError("is away", retry_after_s=wait_s)).until
    assert until is not None
    assert (until.microsecond, until >= end - timedelta(seconds=0.25)) == (0, True)
