"""Whether work grows with its size alone: two sizes within one run, so that no machine is too slow for the law."""

from __future__ import annotations

import time
from collections.abc import Callable

TRIES = 3
SLACK = 5.0  # beyond the straight line, for a busy machine; from ten times the size on, a square is twice as far
SURELY = SLACK / 2  # so near the line that one try tells: others could not halve the time of the small work
NOISE_S = 0.02  # nothing can be told below it


def seconds(work: Callable[[], object]) -> float:
    """CPU time of this thread, in which nothing else counts."""
    began = time.thread_time()
    work()
    return time.thread_time() - began


def is_linear(small: Callable[[], object], large: Callable[[], object], times: int) -> bool:
    """Return whether `large`, which is `times` as much as `small`, takes about `times` as long; the best of several counts."""
    first = seconds(large)
    if first <= NOISE_S:
        return True
    quickest = seconds(small)
    if first <= SURELY * times * quickest:
        return True
    quickest = min(quickest, *(seconds(small) for _ in range(TRIES - 1)))
    bound = max(SLACK * times * quickest, NOISE_S)
    return first <= bound or any(seconds(large) <= bound for _ in range(TRIES - 1))
