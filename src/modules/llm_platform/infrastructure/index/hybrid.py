"""Hybrid search: the query that the embedded engines and a Qdrant server get, and the scale of their scores.

The store fuses dense and sparse results by the distribution of their scores (DBSF), which is estimated from the candidates.
Their number is constant: if it grew with the results asked for, the first ten of a hundred would not be the first ten of ten.
With 200, 400, 800 and 2,000 of them nDCG@10 is .657, .669, .671 and .679 on SciFact, and .521, .524, .516 and .512 on Python's
FAQ.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from modules.llm_platform.domain.dtos.retrieval_dtos import Collection, Filters, Vector
from modules.llm_platform.domain.retrieval.bm25 import SparseVector, make_question_vector
from modules.llm_platform.domain.retrieval.mean_centering import subtract_mean

CANDIDATES: Final = 400  # passages of each list; together they are the most that a search returns
SCORE_DIGITS: Final = 6
LINEAR_UP_TO: Final = 0.8  # higher scores approach 1 asymptotically


@dataclass(frozen=True, slots=True)
class HybridQuery:
    """A dense query if there is a vector, and a sparse query if there are words."""

    vector: list[float] | None
    words: SparseVector

    @property
    def lists(self) -> int:
        return (self.vector is not None) + bool(self.words)

    def score(self, fused: float) -> float:
        """Return the fused score on a scale from 0 to 1. It is rounded, because the store adds in any order.

        A list adds at most 1 for most results and more for the best ones. If these were clamped, they would lose their order.
        """
        share = max(0.0, fused / self.lists)
        if share > LINEAR_UP_TO:
            room = 1 - LINEAR_UP_TO
            share = LINEAR_UP_TO + room * -math.expm1((LINEAR_UP_TO - share) / room)
        return round(share, SCORE_DIGITS)


def build_hybrid_query(collection_info: Collection, text: str, vector: Vector | None) -> HybridQuery:
    return HybridQuery(
        subtract_mean(vector, collection_info.mean, collection_info.dimension), make_question_vector(text)
    )


def select_active_filters(filters: Filters) -> Sequence[tuple[str, tuple[str, ...]]]:
    return [(key, values) for key, values in filters.items() if values]
