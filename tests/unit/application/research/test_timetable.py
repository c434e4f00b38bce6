"""When each phase of a report must end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modules.llm_platform.application.research.budget import ENDS, LAST_RESORT_MAX_S, WRITING_MAX_S, Phase, end_of

ORDER: tuple[Phase, ...] = (
    "plan", "queries", "search", "rank", "read", "collect_summaries", "summarize", "rank_summaries", "write", "judge",
)  # fmt: skip


@pytest.mark.parametrize(
    ("phase", "second"),
    [("rank", 50.0), ("read", 65.0), ("collect_summaries", 72.0), ("summarize", 80.0), ("write", 97.0)],
)
def test_shares_of_the_time(phase: Phase, second: float) -> None:
    """Finding and ranking take half, reading ends at 65 %; the rest is the writing's, and its last resort's."""
    assert end_of(phase, 1000.0, 1100.0) == 1000.0 + second


def test_no_text_takes_longer() -> None:
    """Of a whole day the writing keeps minutes; the rest is for what it is written from."""
    assert end_of("summarize", 0.0, 86_400.0) == 86_400.0 - WRITING_MAX_S


@given(st.floats(-1e6, 1e6), st.floats(0.0, 1e6))
def test_one_after_the_other_within_the_time(began: float, allowed: float) -> None:
    """No phase ends before the one ahead of it, none before the beginning, and a tenth or three seconds are left."""
    deadline = began + allowed
    ends = [end_of(phase, began, deadline) for phase in ORDER]
    assert ends == sorted(ends)
    assert began <= ends[0]
    assert deadline - ends[-1] == pytest.approx(min(LAST_RESORT_MAX_S, 0.1 * (deadline - began)), abs=1e-6)


def test_a_deadline_that_has_passed() -> None:
    """Leaves no time for anything, and nothing ends before it began."""
    assert all(end_of(phase, 10.0, 5.0) == 10.0 for phase in ENDS)
