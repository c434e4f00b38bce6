"""The common part of embedded vector stores: a folder for each collection, and one thread that does the work."""

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol, TypeVar

from modules.llm_platform.domain.dtos import retrieval_dtos as dtos
from modules.llm_platform.domain.ports.vector_store import IVectorStore

Value = TypeVar("Value")
Documents = Sequence[tuple[dtos.IndexedDocument, Sequence[dtos.EmbeddedPassage]]]


class EmbeddedCollection(Protocol):
    """One collection in this process. All methods block, are called by one thread, and raise only vector store errors.

    `IVectorStore` describes what they do.
    """

    def facts(self) -> dtos.Collection | None: ...
    def prepare(self, wanted: dtos.Collection) -> None: ...
    def replace(self, documents: Documents) -> None: ...
    def add_vectors(self, documents: Documents) -> None: ...
    def remove(self, doc_ids: Sequence[str]) -> None: ...
    def lookup(self, doc_ids: Sequence[str]) -> dict[str, dtos.IndexedDocument]: ...
    def passages(self, doc_id: str) -> list[dtos.Passage]: ...
    def finish(self) -> None: ...
    def close(self) -> None: ...
    def documents(self, after: Any) -> tuple[list[dtos.IndexedDocument], Any]:
        """Return a page of documents, and the position of the next page, or None at the end."""

    def search(
        self, text: str, vector: dtos.Vector | None, filters: dtos.Filters, limit: int
    ) -> list[dtos.FoundPassage]: ...


class EmbeddedVectorStore(IVectorStore):
    """Keeps each collection in a folder of its name below `folder`. The writer sees what it wrote, readers see it once it is
    finished.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._collections: dict[str, EmbeddedCollection] = {}
        self._thread: ThreadPoolExecutor | None = None

    @abstractmethod
    def _open_collection(self, name: str, folder: Path) -> EmbeddedCollection:
        """Return the collection of this name in this folder, which need not be there."""

    async def describe(self, collection: str) -> dtos.Collection | None:
        return await self._run(self._get_collection(collection).facts)

    async def prepare(self, collection: dtos.Collection) -> None:
        await self._run(self._get_collection(collection.name).prepare, collection)

    async def replace(
        self, collection: str, document: dtos.IndexedDocument, passages: Sequence[dtos.EmbeddedPassage]
    ) -> None:
        await self.replace_many(collection, [(document, passages)])

    async def replace_many(self, collection: str, documents: Documents) -> None:
        await self._run(self._get_collection(collection).replace, documents)

    async def add_vectors(self, collection: str, documents: Documents) -> None:
        await self._run(self._get_collection(collection).add_vectors, documents)

    async def remove(self, collection: str, doc_ids: Sequence[str]) -> None:
        await self._run(self._get_collection(collection).remove, doc_ids)

    async def documents(self, collection: str) -> AsyncIterator[dtos.IndexedDocument]:
        following: Any = None
        while True:
            page, following = await self._run(self._get_collection(collection).documents, following)
            for document in page:
                yield document
            if following is None:
                return

    async def lookup(self, collection: str, doc_ids: Sequence[str]) -> dict[str, dtos.IndexedDocument]:
        return await self._run(self._get_collection(collection).lookup, doc_ids)

    async def search(
        self, collection: str, text: str, vector: dtos.Vector | None, filters: dtos.Filters, limit: int
    ) -> list[dtos.FoundPassage]:
        return await self._run(self._get_collection(collection).search, text, vector, filters, limit)

    async def passages(self, collection: str, doc_id: str) -> list[dtos.Passage]:
        return await self._run(self._get_collection(collection).passages, doc_id)

    async def finish(self, collection: str) -> None:
        await self._run(self._get_collection(collection).finish)

    async def aclose(self) -> None:
        """Close the store. Changes that were not finished are lost, as after a crash."""
        thread = self._thread
        if thread is not None:
            for collection in self._collections.values():
                await self._run(collection.close)
            self._thread = None
            thread.shutdown(wait=False)

    def _get_collection(self, collection: str) -> EmbeddedCollection:
        if collection not in self._collections:
            self._collections[collection] = self._open_collection(collection, self._folder / collection)
        return self._collections[collection]

    async def _run(self, action: Callable[..., Value], *given: Any) -> Value:
        self._thread = self._thread or ThreadPoolExecutor(1, "index")
        return await asyncio.get_running_loop().run_in_executor(self._thread, action, *given)


# The embedded vector store: Qdrant's engine in this process, below the data folder.
# One process writes, many of the same machine read: they see what was finished, and continue reading while `index` works.
