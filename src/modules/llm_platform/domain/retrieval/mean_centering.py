"""Mean centering: subtract the mean vector of a collection from each vector.

What all passages share does not distinguish one passage from another.
"""

import math
from collections.abc import Sequence
from typing import Final

from modules.llm_platform.domain.dtos.retrieval_dtos import Vector

MIN_VECTORS: Final = 50  # the mean of fewer is too close to each of them
MIN_LENGTH: Final = 1e-6  # a shorter vector has no direction


def compute_mean_vector(vectors: Sequence[Vector]) -> tuple[float, ...]:
    """Return the mean of these vectors; empty, which means no centering, if there are fewer than MIN_VECTORS.

    The mean of a sample would find as much. But one more passage could change every vector of the sample, and so the order of
    the answers to most questions. In the mean of all vectors, one more vector changes little.
    """
    if len(vectors) < MIN_VECTORS:
        return ()
    return tuple(math.fsum(column) / len(vectors) for column in zip(*vectors, strict=True))


def subtract_mean(vector: Vector | None, mean: Sequence[float], dimension: int) -> list[float] | None:
    """Return the vector minus the mean, scaled to length 1; None for NaN, zeros or another dimension."""
    if vector is None or len(vector) != dimension:
        return None
    centered = [float(x) - m for x, m in zip(vector, mean, strict=True)] if mean else [float(x) for x in vector]
    length = math.hypot(*centered)
    if not MIN_LENGTH < length < math.inf:  # NaN fails the comparison too
        return None
    return [x / length for x in centered]
