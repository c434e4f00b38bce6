"""The mean of a collection's vectors, taken away from each: what all its passages share tells none of them from another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from modules.llm_platform.domain.dtos.retrieval_dtos import Vector

MIN_VECTORS: Final = 50  # the mean of fewer is too close to each of them
MAX_VECTORS: Final = 200  # more change nothing
LEAST_LENGTH: Final = 1e-6  # of a vector that points anywhere


def mean_vector(vectors: Sequence[Vector]) -> tuple[float, ...]:
    """The mean of the first MAX_VECTORS; empty, which takes nothing away, when there are fewer than MIN_VECTORS."""
    if len(vectors) < MIN_VECTORS:
        return ()
    taken = vectors[:MAX_VECTORS]
    return tuple(math.fsum(column) / len(taken) for column in zip(*taken, strict=True))


def mean_centered(vector: Vector | None, mean: Sequence[float], dimension: int) -> list[float] | None:
    """The vector without the mean, of length 1; None where there is no direction in it: NaN, zeros, another dimension."""
    if vector is None or len(vector) != dimension:
        return None
    moved = [float(x) - m for x, m in zip(vector, mean, strict=True)] if mean else [float(x) for x in vector]
    length = math.hypot(*moved)
    if not LEAST_LENGTH < length < math.inf:  # NaN is not greater than anything
        return None
    return [x / length for x in moved]
