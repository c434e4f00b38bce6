"""When a watched question is asked again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest
from modules.llm_platform.domain.dtos.watch_dtos import MAX_REFUSALS, ClaimedWatch
from modules.llm_platform.domain.watches.schedule import FIRST_RETRY_S, is_due, plan_next_run

DAY = 86_400
NOON = 1_790_000_000.0
WATCH = ClaimedWatch(
    1, "t", "a", ResearchRequest(query="What is the toll?"), DAY, 1, is_asked=True, created_at=NOON, now=NOON + 60
)


@pytest.mark.parametrize(
    ("now", "next_at"),
    [
        (NOON, NOON + DAY),
        (NOON + 60, NOON + DAY),
        (NOON + 0.9 * DAY, NOON + DAY),
        (NOON + DAY - 2, NOON + 2 * DAY - 2),
        (NOON + 7.5 * DAY, NOON + 8 * DAY),
    ],
)
def test_runs_keep_their_time_of_the_day(now: float, next_at: float) -> None:
    """Missed runs are not made up for, and a clock that was set back by seconds makes no run twice."""
    assert now + plan_next_run(replace(WATCH, now=now), "done", 0.0).delay_s == next_at


def test_a_clock_that_was_ahead_silences_no_watch() -> None:
    """A time that is more than one interval away is due now, and no run is planned for such a time."""
    assert plan_next_run(replace(WATCH, created_at=NOON + 100 * DAY), "done", 0.0).delay_s == DAY - 60
    times = (NOON, NOON + 1, NOON + DAY, NOON + 2 * DAY)
    assert [is_due(next_at, DAY, NOON) for next_at in times] == [True, False, False, True]


def test_a_failed_run_is_tried_earlier_and_then_paused() -> None:
    """The wait doubles. A good run clears the count."""
    planned = [plan_next_run(replace(WATCH, refusals=before), "failed", 0.0) for before in range(MAX_REFUSALS)]
    assert [one.delay_s for one in planned] == [FIRST_RETRY_S, 2 * FIRST_RETRY_S, 4 * FIRST_RETRY_S]
    assert [one.paused_because for one in planned] == [None, None, "refused"]
    assert plan_next_run(replace(WATCH, refusals=2), "done", 0.0).refusals == 0


def test_a_failed_run_does_not_shift_later_runs() -> None:
    """After a repeated run, the next run is again at the time of day at which the watch was added."""
    retry_at = WATCH.now + plan_next_run(WATCH, "failed", 0.0).delay_s
    again = replace(WATCH, now=retry_at + 40, refusals=1)
    assert again.now + plan_next_run(again, "done", 0.0).delay_s == NOON + DAY


def test_a_frequent_watch_does_not_wait_longer_after_a_failure() -> None:
    often = replace(WATCH, every_s=1000, refusals=1)
    assert plan_next_run(often, "failed", 0.0).delay_s == 940


@pytest.mark.parametrize(
    ("limit", "before", "cost", "reason"),
    [
        (None, 9.0, 9.0, None),
        (1.0, 0.5, 0.4, None),
        (1.0, 0.5, 0.5, "budget"),
        (0.0, 0.0, 0.0, None),
        (0.0, 0.0, 0.1, "budget"),
    ],
)
def test_a_watch_that_has_spent_its_budget_is_paused(
    limit: float | None, before: float, cost: float, reason: str | None
) -> None:
    """A budget of 0 allows runs that cost nothing."""
    assert plan_next_run(replace(WATCH, max_cost_usd=limit, cost_usd=before), "done", cost).paused_because == reason
