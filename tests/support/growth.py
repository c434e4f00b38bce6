"""Whether work grows linearly with its size.

Both sizes are measured in one run, so that a slow machine does not matter.
"""

from __future__ import annotations

import time
from collections.abc import Callable

TRIES = 3
SLACK = 5.0  # above linear growth, for a busy machine; from ten times the size on, quadratic growth is twice as high
SURELY = SLACK / 2  # so close to linear that one try is enough: others could not halve the time of the small work
NOISE_S = 0.02  # shorter times cannot be measured reliably


def seconds(work: Callable[[], object]) -> float:
    """Return the CPU time of this thread, which does not include other work."""
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
