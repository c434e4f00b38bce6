"""How many cases a fuzz test tries: few in each run of the suite, many in `make fuzz`."""

from __future__ import annotations

import os
import random
import sys

from hypothesis import settings

IS_LONG = settings.get_current_profile_name() == "thorough"


def chosen(short: int, long: int) -> int:
    """Return the number of cases of this run."""
    return long if IS_LONG else short


def chance(portion: int) -> random.Random:
    """Return the randomness of a portion: the same in each run of the suite, another in each long run.

    pytest shows the seed of a test that failed; with FUZZ_SEED=<seed> the first portion of a long run repeats it.
    """
    seed = portion
    if IS_LONG:
        seed += int(os.environ.get("FUZZ_SEED") or random.SystemRandom().randrange(2**32))
    sys.stderr.write(f"FUZZ_SEED={seed}\n")
    return random.Random(seed)
