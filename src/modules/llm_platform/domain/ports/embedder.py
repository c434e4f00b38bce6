"""The port of embedders."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from modules.llm_platform.domain.dtos.retrieval_dtos import Vector


class IEmbedder(ABC):
    """Turns texts into vectors of one dimension."""

    # Includes the model: `wordllama/l2_supercat_256`; vectors of another name do not belong into the same collection.
    name: str
    dimension: int  # 0 if it makes no vectors, or if it is unknown until a service has embedded a text
    why_no_vectors: str = ""  # what an answer says where it makes no vectors
    window_tokens: int  # counted by `domain.text.count_tokens`; longer texts are cut

    @abstractmethod
    async def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        """Return one vector of length 1 for each text, in order; None for a text without anything to embed (never NaN).

        Raises EmbeddingError or EmbeddingConfigError and nothing else. Cancelling is safe at any point.
        """
