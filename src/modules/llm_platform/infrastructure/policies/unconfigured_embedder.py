"""An embedder that must not be used, or cannot."""

from __future__ import annotations

from collections.abc import Sequence

from modules.llm_platform.domain.dtos.retrieval_dtos import Vector
from modules.llm_platform.domain.exceptions import EmbeddingConfigError
from modules.llm_platform.domain.ports.embedder import IEmbedder


class UnconfiguredEmbedder(IEmbedder):
    """Says at the call, not at the start, what to set: what was indexed can still be found by its words."""

    dimension = 0
    window_tokens = 1_000_000

    def __init__(self, name: str, remedy: str) -> None:
        self.name = name
        self._remedy = remedy

    async def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        raise EmbeddingConfigError(self._remedy)
