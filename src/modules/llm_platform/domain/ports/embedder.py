"""The port of embedders."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from modules.llm_platform.domain.dtos.retrieval_dtos import Vector


class IEmbedder(ABC):
    """Turns texts into vectors of one dimension."""

    name: str  # with its model: `wordllama/l2_supercat_256`; vectors of another name do not belong into the same collection
    dimension: int  # 0: it makes no vectors, or a service does not tell before the first text was embedded
    why_no_vectors: str = ""  # where it makes none: what an answer says about that
    window_tokens: int  # of `domain.text.count_tokens`; what is longer is cut

    @abstractmethod
    async def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        """One vector of length 1 for each text, in order; None for a text without anything to embed (never NaN).

        Raises EmbeddingError or EmbeddingConfigError and nothing else. Cancelling is safe at any point.
        """
