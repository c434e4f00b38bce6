"""How meaning and words are weighed against each other: the same for the embedded engine and for a server.

The store fuses the lists by the distribution of their scores (DBSF) and knows no weights, so a list that counts twice is
asked for twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from modules.llm_platform.domain.bm25 import SparseVector, question_words
from modules.llm_platform.domain.centring import centred
from modules.llm_platform.domain.dtos.retrieval_dtos import Collection, Vector

CANDIDATES: Final = 200  # of each list, or twice as many as are wanted
PER_WANTED: Final = 2
SCORE_DIGITS: Final = 6
STATIC: Final = "wordllama/"  # whose vectors say little about other scripts than Latin
FOREIGN_SHARE: Final = 0.3  # of a question's characters, from which on its words count twice
LAST_LATIN: Final = "\u024f"


@dataclass(frozen=True, slots=True)
class Question:
    """The lists to ask for: by meaning, where there is a vector, and `word_lists` times by words, where there are any."""

    vector: list[float] | None
    words: SparseVector
    word_lists: int
    candidates: int

    @property
    def lists(self) -> int:
        return (self.vector is not None) + self.word_lists

    def score(self, fused: float) -> float:
        """From 0 to 1: what the store adds up is at most about 1 for each list. Rounded, since it sums in any order."""
        return round(min(1.0, max(0.0, fused / self.lists)), SCORE_DIGITS)


def question(facts: Collection, text: str, vector: Vector | None, limit: int) -> Question:
    """What to ask a collection of these facts."""
    words = question_words(text)
    twice = facts.embedder.startswith(STATIC) and _foreign(text)
    asked = centred(vector, facts.mean, facts.dimension)
    times = (2 if twice and asked else 1) if words else 0
    return Question(asked, words, times, max(CANDIDATES, limit * PER_WANTED))


def _foreign(text: str) -> bool:
    return not text.isascii() and sum(letter > LAST_LATIN for letter in text) >= FOREIGN_SHARE * len(text)


def chosen(filters: dict[str, tuple[str, ...]]) -> Sequence[tuple[str, tuple[str, ...]]]:
    """The filters that filter: an empty list is none."""
    return [(key, values) for key, values in filters.items() if values]
