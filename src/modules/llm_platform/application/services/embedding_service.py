"""Embeds texts for the HTTP API."""

from collections.abc import Sequence

from modules.llm_platform.domain.dtos.retrieval_dtos import Vector
from modules.llm_platform.domain.exceptions import EmbeddingConfigError
from modules.llm_platform.domain.ports.embedder import IEmbedder

NO_EMBEDDER = "set EMBEDDER to wordllama, openai or azure"


class EmbeddingService:
    """Turns texts into vectors with the configured embedder (EMBEDDER)."""

    def __init__(self, embedder: IEmbedder) -> None:
        self._embedder = embedder

    @property
    def name(self) -> str:
        """The embedder with its model; empty if it makes no vectors."""
        return "" if self._embedder.why_no_vectors else self._embedder.name

    @property
    def window_tokens(self) -> int:
        """The longest text that is read, in tokens of our count. The rest of a longer text does not change its vector."""
        return self._embedder.window_tokens

    async def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        """Return one unit vector for each text; None for a text without words.

        Raises EmbeddingError, and EmbeddingConfigError if a setting or a package is missing.
        """
        if self._embedder.why_no_vectors:
            raise EmbeddingConfigError(f"no embeddings ({self._embedder.why_no_vectors}): {NO_EMBEDDER}")
        return await self._embedder.embed(texts)
