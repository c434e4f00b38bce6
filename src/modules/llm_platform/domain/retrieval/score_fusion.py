"""Distribution-based score fusion (DBSF): bring lists of scores to one scale, so that they can be added."""

from collections.abc import Sequence
from statistics import fmean, pstdev
from typing import Final

DEVIATIONS: Final = 3  # the scale reaches from this many standard deviations below the mean to as many above


def scale_by_distribution(scores: Sequence[float]) -> list[float]:
    """Return the scores as Qdrant scales them: 0 and 1 at three standard deviations around the mean, .5 if all are equal."""
    deviation = pstdev(scores) if len(scores) > 1 else 0.0
    if deviation == 0:
        return [0.5] * len(scores)
    low = fmean(scores) - DEVIATIONS * deviation
    return [(score - low) / (2 * DEVIATIONS * deviation) for score in scores]
