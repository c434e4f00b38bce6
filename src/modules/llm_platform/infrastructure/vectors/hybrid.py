"""How meaning and words are weighed against each other: the same for the embedded engine and for a server.

The store fuses the lists by the distribution of their scores (DBSF). The distribution is that of the candidates: with few of
them it is that of the best alone, and the same questions were answered worse (nDCG@10 .539 with 100, .547 with 200, .546 with
300).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from modules.llm_platform.domain.bm25 import SparseVector, question_words
from modules.llm_platform.domain.dtos.retrieval_dtos import Collection, Vector
from modules.llm_platform.domain.mean_centering import mean_centered

CANDIDATES: Final = 200  # of each list, or twice as many as are wanted
PER_WANTED: Final = 2
SCORE_DIGITS: Final = 6
LINEAR_UP_TO: Final = 0.8  # of a score; beyond, ever higher ones come ever closer to 1


@dataclass(frozen=True, slots=True)
class Question:
    """The lists to ask for: by meaning, where there is a vector, and by words, where there are any."""

    vector: list[float] | None
    words: SparseVector
    candidates: int

    @property
    def lists(self) -> int:
        return (self.vector is not None) + bool(self.words)

    def score(self, fused: float) -> float:
        """From 0 to 1, in the store's order: what it adds up is mostly below 1 for each list, and the best are often above.
        Cut off there they would all be equal, and their order lost. Rounded, since the store sums in any order.
        """
        share = max(0.0, fused / self.lists)
        if share > LINEAR_UP_TO:
            room = 1 - LINEAR_UP_TO
            share = LINEAR_UP_TO + room * -math.expm1((LINEAR_UP_TO - share) / room)
        return round(share, SCORE_DIGITS)


def question(facts: Collection, text: str, vector: Vector | None, limit: int) -> Question:
    """What to ask a collection of these facts."""
    return Question(
        mean_centered(vector, facts.mean, facts.dimension), question_words(text), max(CANDIDATES, limit * PER_WANTED)
    )


def chosen(filters: dict[str, tuple[str, ...]]) -> Sequence[tuple[str, tuple[str, ...]]]:
    """The filters that filter: an empty list is none."""
    return [(key, values) for key, values in filters.items() if values]
