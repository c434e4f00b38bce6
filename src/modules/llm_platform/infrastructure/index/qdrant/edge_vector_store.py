"""The embedded index on Qdrant Edge."""

from pathlib import Path

from modules.llm_platform.infrastructure.index.embedded_vector_store import EmbeddedVectorStore
from modules.llm_platform.infrastructure.index.qdrant.embedded_collection import EdgeCollection


class QdrantEdgeVectorStore(EmbeddedVectorStore):
    """A thread of its own does the work, one call after the other: the engine holds the interpreter's lock anyway, and
    nothing can be asked of a generation while it is being switched.
    """

    name = "qdrant-edge"

    def _collection(self, name: str, folder: Path) -> EdgeCollection:
        return EdgeCollection(name, folder)
