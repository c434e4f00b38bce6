"""The planned ends of the workers, in order."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

MAX_PASSES = {  # upper limit on passes of a crash point before the process ends there
    "after_poll": 6,
    "after_compute": 25,
    "after_store": 25,
    "after_produce": 40,
    "before_commit": 5,
    "after_commit": 5,
    "in_rebalance": 3,
    "in_shutdown": 1,
}
POINTS = tuple(MAX_PASSES)
ANY_TIME, WHILE_IT_STOPS, LEAVES = "any time", "while it stops", "leaves"
MAX_LIFE_S = 2.5  # longest life of a process that is killed at any time
MAX_STOP_S = 0.3  # longest time between SIGTERM and the kill
LEAVE_SHARE = 0.2  # orderly ends for each kill


@dataclass(frozen=True, slots=True)
class PlannedEnd:
    """`how` is a crash point, ANY_TIME, WHILE_IT_STOPS or LEAVES. `after_s`: seconds before the harness acts."""

    how: str
    passes: int = 1
    after_s: float = 0.0

    @property
    def is_kill(self) -> bool:
        return self.how != LEAVES


def plan_ends(kills: int, rng: random.Random) -> Sequence[PlannedEnd]:
    """Return `kills` kills that alternate between all crash points and two random moments, plus some orderly ends, shuffled."""
    kinds = (*POINTS, ANY_TIME, WHILE_IT_STOPS)
    drawn = [_plan_end(kinds[number % len(kinds)], rng) for number in range(kills)]
    drawn += [_plan_end(LEAVES, rng) for _ in range(max(1, round(kills * LEAVE_SHARE)))]
    rng.shuffle(drawn)
    return drawn


def _plan_end(how: str, rng: random.Random) -> PlannedEnd:
    if how in (ANY_TIME, LEAVES, "in_shutdown"):
        return PlannedEnd(how, 1, rng.uniform(0, MAX_LIFE_S))
    if how == WHILE_IT_STOPS:
        return PlannedEnd(how, 1, rng.uniform(0, MAX_STOP_S))
    return PlannedEnd(how, rng.randint(1, MAX_PASSES[how]))
