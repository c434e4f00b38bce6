"""The index of passages: the Qdrant server QDRANT_URL, or the embedded one in the data folder."""

from pathlib import Path
from typing import Final

from modules.llm_platform.domain.ports.vector_store import IVectorStore
from modules.llm_platform.infrastructure.resources import (
    INDEX_FOLDER,
    STORE_PACKAGES,
    Resources,
    get_data_folder,
    is_installed,
    is_out_of_reach,
    reveal_secret,
)
from shared.config import Settings

ONLY_LOOPBACK: Final = (
    "Offline mode: only an index on this machine is used. Remove QDRANT_URL, or set it to a loopback URL"
)


def build_vector_store(settings: Settings, resources: Resources) -> IVectorStore:
    """Return the Qdrant server QDRANT_URL, or the embedded index below the data folder."""
    store: IVectorStore
    if settings.QDRANT_URL is None:
        store = build_embedded_store(get_data_folder(settings) / INDEX_FOLDER)
    elif is_out_of_reach(settings, settings.QDRANT_URL):
        from modules.llm_platform.infrastructure.unconfigured import unconfigured_vector_store

        store = unconfigured_vector_store("offline", ONLY_LOOPBACK)
    else:
        from modules.llm_platform.infrastructure.index.qdrant.vector_store import QdrantVectorStore

        store = QdrantVectorStore(settings.QDRANT_URL, reveal_secret(settings.QDRANT_API_KEY))
    return resources.closing(store)


def build_embedded_store(folder: Path) -> IVectorStore:
    """Return the embedded Qdrant if it is installed, otherwise SQLite."""
    if not is_installed(STORE_PACKAGES):
        from modules.llm_platform.infrastructure.index.sqlite_vector_store import SqliteVectorStore

        return SqliteVectorStore(folder)
    from modules.llm_platform.infrastructure.index.qdrant.edge_vector_store import QdrantEdgeVectorStore

    return QdrantEdgeVectorStore(folder)


def build_memory_store() -> IVectorStore:
    """Return an index in memory, for the files of one request."""
    from modules.llm_platform.infrastructure.index.sqlite_vector_store import SqliteMemoryVectorStore

    return SqliteMemoryVectorStore()
