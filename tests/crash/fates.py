"""What becomes of the workers, one after the other."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

MOST_PASSES = {  # of a point, before the process ends there
    "after_poll": 6, "after_compute": 25, "after_store": 25, "after_produce": 40, "before_commit": 5, "after_commit": 5,
    "in_rebalance": 3, "in_shutdown": 1,
}  # fmt: skip
POINTS = tuple(MOST_PASSES)
ANY_TIME, WHILE_IT_STOPS, LEAVES = "any time", "while it stops", "leaves"
LONGEST_LIFE_S = 2.5  # of one that is killed at any time
LONGEST_STOP_S = 0.3  # after SIGTERM
LEAVE_SHARE = 0.2  # orderly ends for each kill


@dataclass(frozen=True, slots=True)
class Fate:
    """`how` is a point, ANY_TIME, WHILE_IT_STOPS or LEAVES. `after_s`: seconds before the conductor does its part."""

    how: str
    passes: int = 1
    after_s: float = 0.0

    @property
    def is_kill(self) -> bool:
        return self.how != LEAVES


def fates(kills: int, dice: random.Random) -> Sequence[Fate]:
    """`kills` of them are kills, all points in turn and two moments that nobody chose; then some that leave."""
    kinds = (*POINTS, ANY_TIME, WHILE_IT_STOPS)
    drawn = [_fate(kinds[number % len(kinds)], dice) for number in range(kills)]
    drawn += [_fate(LEAVES, dice) for _ in range(max(1, round(kills * LEAVE_SHARE)))]
    dice.shuffle(drawn)
    return drawn


def _fate(how: str, dice: random.Random) -> Fate:
    if how in (ANY_TIME, LEAVES, "in_shutdown"):
        return Fate(how, 1, dice.uniform(0, LONGEST_LIFE_S))
    if how == WHILE_IT_STOPS:
        return Fate(how, 1, dice.uniform(0, LONGEST_STOP_S))
    return Fate(how, dice.randint(1, MOST_PASSES[how]))
