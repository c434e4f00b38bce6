"""From passages that were hit to what is shown: one stretch of text for each document."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from modules.llm_platform.infrastructure.documents.index import Hit
from modules.llm_platform.infrastructure.documents.reading import Document

JOINS_FROM: Final = 0.5  # of the best passage's score: a neighbour that also answers is shown with it
MAX_JOINED: Final = 3  # passages
HALF_SCORE: Final = 10.0  # of BM25, where the normalised score is one half


@dataclass(frozen=True, slots=True)
class Quotable:
    """The best stretch of a document, `document.text[start:end]`; `score` between 0 and 1."""

    document: Document
    start: int
    end: int
    score: float

    @property
    def text(self) -> str:
        return self.document.text[self.start : self.end]


def by_document(hits: Iterable[Hit]) -> Iterator[Quotable]:
    """One result for each document, at its best passage; neighbours that answer nearly as well are shown with it."""
    scores: dict[str, dict[int, float]] = {}
    best: list[Hit] = []
    for hit in hits:
        if hit.document.path not in scores:
            best.append(hit)
        scores.setdefault(hit.document.path, {})[hit.passage] = hit.score
    for hit in best:
        first, last = _joined(hit, scores[hit.document.path])
        passages = hit.document.passages
        yield Quotable(hit.document, passages[first].start, passages[last].end, hit.score / (hit.score + HALF_SCORE))


def _joined(hit: Hit, scores: dict[int, float]) -> tuple[int, int]:
    first = last = hit.passage
    while last - first + 1 < MAX_JOINED:
        before, after = scores.get(first - 1, 0.0), scores.get(last + 1, 0.0)
        if max(before, after) < JOINS_FROM * hit.score:
            break
        first, last = (first - 1, last) if before >= after else (first, last + 1)
    return first, last
