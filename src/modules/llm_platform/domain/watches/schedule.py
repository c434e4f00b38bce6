"""Decide when a watched question is asked again, and when it is paused."""

from typing import Final

from modules.llm_platform.domain.dtos.research_job_dtos import FinalStatus
from modules.llm_platform.domain.dtos.watch_dtos import MAX_REFUSALS, ClaimedWatch, NextRun

FIRST_RETRY_S: Final = 15 * 60  # wait after a failed run, twice as long after each further one
CLOCK_STEP_S: Final = 5.0  # a clock may be set back by this much


def is_due(next_at: float, every_s: int, now: float) -> bool:
    """Return whether a watch is due. A time that is later than it can be was planned while the clock was ahead."""
    return next_at <= now or next_at > now + every_s + CLOCK_STEP_S


def plan_next_run(watch: ClaimedWatch, status: FinalStatus, cost_usd: float) -> NextRun:
    """Return what follows a run that ended with this status and cost.

    Runs are planned at whole intervals after the watch was added: a run that took an hour, failed or was asked for by hand, or
    a server that was down for a week, moves none of them. A failed run is tried again before that, and pauses the watch after
    MAX_REFUSALS in a row.
    """
    refusals = watch.refusals + 1 if status == "failed" else 0
    delay_s = (watch.created_at - watch.now) % watch.every_s
    if delay_s <= CLOCK_STEP_S:  # this run was due now: the clock was set back while it ran
        delay_s = watch.every_s
    if status == "failed":
        delay_s = min(delay_s, FIRST_RETRY_S * 2.0 ** (refusals - 1))
    if refusals >= MAX_REFUSALS:
        return NextRun(delay_s, refusals, "refused")
    return NextRun(delay_s, refusals, "budget" if is_spent(watch, cost_usd) else None)


def is_spent(watch: ClaimedWatch, cost_usd: float = 0.0) -> bool:
    """Return whether the runs of the last days, and one of this cost, use up the budget of a watch."""
    spent = watch.cost_usd + cost_usd
    return watch.max_cost_usd is not None and spent > 0 and spent >= watch.max_cost_usd
