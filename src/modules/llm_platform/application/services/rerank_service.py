"""Ranks documents for a query with BM25 and, if the embedder makes vectors, cosine similarity."""

import asyncio
from collections.abc import Sequence
from operator import mul
from typing import Final

from modules.llm_platform.domain.dtos.retrieval_dtos import RankedDocument, Vector
from modules.llm_platform.domain.ports.embedder import IEmbedder
from modules.llm_platform.domain.retrieval.bm25 import score_by_bm25
from modules.llm_platform.domain.retrieval.score_fusion import scale_by_distribution

SCORE_DIGITS: Final = 6
LEXICAL: Final = "bm25"


class RerankService:
    """Orders documents by BM25 and, if the configured embedder (EMBEDDER) makes vectors, also by cosine similarity.

    BM25 takes its word statistics from the given documents.
    """

    def __init__(self, embedder: IEmbedder) -> None:
        self._embedder = embedder

    @property
    def name(self) -> str:
        """The name of the method: `bm25`, or `bm25+` followed by the embedder with its model."""
        return LEXICAL if self._embedder.why_no_vectors else f"{LEXICAL}+{self._embedder.name}"

    async def rerank(self, query: str, documents: Sequence[str]) -> list[RankedDocument]:
        """Return the index and score (0 to 1) of every document, best first. Ties keep their input order.

        Raises the errors of the embedder.
        """
        vectors: list[Vector | None] = []
        if not self._embedder.why_no_vectors:
            vectors = await self._embedder.embed([query, *documents])
        return await asyncio.to_thread(_rank, query, documents, vectors)


def _rank(query: str, documents: Sequence[str], vectors: Sequence[Vector | None]) -> list[RankedDocument]:
    lists = [scale_by_distribution(score_by_bm25(documents, query))]
    if vectors and (asked := vectors[0]) is not None:
        lists.append(
            scale_by_distribution([0.0 if found is None else sum(map(mul, asked, found)) for found in vectors[1:]])
        )
    scores = [min(1.0, max(0.0, sum(parts) / len(lists))) for parts in zip(*lists, strict=True)]
    ranked = [RankedDocument(index, round(score, SCORE_DIGITS)) for index, score in enumerate(scores)]
    return sorted(ranked, key=lambda document: -document.score)
