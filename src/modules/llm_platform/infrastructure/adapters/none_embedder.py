"""No embedder: everything is found by its words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from modules.llm_platform.domain.dtos.retrieval_dtos import Vector
from modules.llm_platform.domain.ports.embedder import IEmbedder

CHOSEN: Final = "EMBEDDER=none: found by words alone"


class NoneEmbedder(IEmbedder):
    """Has a vector for nothing; a collection that is made with it holds words alone."""

    name = "none"
    dimension = 0
    window_tokens = 1_000_000  # it cuts nothing

    def __init__(self, why_no_vectors: str = CHOSEN) -> None:
        self.why_no_vectors = why_no_vectors

    async def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        return [None] * len(texts)
