"""The embedded vector store: Qdrant's engine in this process, below the data folder.

One process writes, many of the same machine read: they see what was finished, and go on reading while `index` works.
"""

from __future__ import annotations

from pathlib import Path

from modules.llm_platform.infrastructure.adapters.embedded_vector_store import EmbeddedVectorStore
from modules.llm_platform.infrastructure.vectors.edge_collection import EdgeCollection


class QdrantEdgeVectorStore(EmbeddedVectorStore):
    """A thread of its own does the work, one call after the other: the engine holds the interpreter's lock anyway, and
    nothing can be asked of a generation while it is being switched.
    """

    name = "qdrant-edge"

    def _collection(self, name: str, folder: Path) -> EdgeCollection:
        return EdgeCollection(name, folder)
