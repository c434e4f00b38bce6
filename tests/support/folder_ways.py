"""A named folder with each kind of search: by meaning and keywords, by keywords in the same index, and in SQLite
without extras.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Literal

from tests.fakes.embedder import HashEmbedder
from tests.fakes.vector_store import MemoryVectorStore

from modules.llm_platform.domain.dtos.retrieval_dtos import Filters, FoundPassage, Vector
from modules.llm_platform.domain.ports.embedder import IEmbedder
from modules.llm_platform.domain.privacy.redaction import Redactor
from modules.llm_platform.domain.retrieval.embeddable import NoneEmbedder
from modules.llm_platform.infrastructure.documents.file_source import FileDocumentSource
from modules.llm_platform.infrastructure.documents.folder_index import FolderIndex
from modules.llm_platform.infrastructure.documents.index_directory import IndexDirectory
from modules.llm_platform.infrastructure.documents.page_reader import DocumentPageReader
from modules.llm_platform.infrastructure.documents.web_search import DocumentWebSearch
from modules.llm_platform.infrastructure.index.qdrant.edge_vector_store import QdrantEdgeVectorStore
from modules.llm_platform.infrastructure.index.sqlite_vector_store import SqliteVectorStore

Way = Literal["by meaning", "by words", "in sqlite"]
WAYS: tuple[Way, ...] = ("by meaning", "by words", "in sqlite")


class SlowStore(MemoryVectorStore):
    """A store that never answers a search."""

    running = 0

    async def search(
        self, collection: str, text: str, vector: Vector | None, filters: Filters, limit: int
    ) -> list[FoundPassage]:
        self.running += 1
        try:
            await asyncio.Event().wait()
        finally:
            self.running -= 1
        return []


def folder_index(
    folder: Path,
    base: Path | None,
    *,
    embedder: IEmbedder | None = None,
    base_url: str | None = None,
    redactor: Redactor | None = None,
    **options: Any,
) -> FolderIndex:
    """Return the index of a folder, kept below `base`."""
    options.setdefault("open_store", QdrantEdgeVectorStore)
    files = options.pop("files", None) or FileDocumentSource(base_url, redactor)
    return FolderIndex(folder, IndexDirectory(base, "key", 30), files, embedder or HashEmbedder(), **options)


def searching(way: Way, folder: Path, base: Path, **options: Any) -> DocumentWebSearch:
    """Yield the search of a folder of this kind. `options` are `base_url` and `redactor`.

    Its clock is stopped, so that every search checks the folder, however long that takes on a busy machine.
    """
    embedder = HashEmbedder() if way == "by meaning" else NoneEmbedder()
    store = {"open_store": SqliteVectorStore} if way == "in sqlite" else {}
    return DocumentWebSearch(
        folder_index(folder, base, embedder=embedder, clock=lambda: 0.0, **options, **store),
        needs_words=True,
        **options,
    )


def reading(search: DocumentWebSearch, **options: Any) -> DocumentPageReader:
    """Yield the reader of the pages that the search finds."""
    return DocumentPageReader(search, **options)
