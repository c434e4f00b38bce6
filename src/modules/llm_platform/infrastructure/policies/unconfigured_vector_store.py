"""A vector store that must not be used."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import NoReturn

from modules.llm_platform.domain.dtos.retrieval_dtos import (
    Collection,
    EmbeddedPassage,
    Filters,
    FoundPassage,
    IndexedDocument,
    Passage,
    Vector,
)
from modules.llm_platform.domain.exceptions import VectorStoreConfigError
from modules.llm_platform.domain.ports.vector_store import IVectorStore


class UnconfiguredVectorStore(IVectorStore):
    """Says at the call, not at the start, what to set."""

    def __init__(self, name: str, remedy: str) -> None:
        self.name = name
        self._remedy = remedy

    async def describe(self, collection: str) -> Collection | None:
        self._refuse()

    async def prepare(self, collection: Collection) -> None:
        self._refuse()

    async def replace(self, collection: str, document: IndexedDocument, passages: Sequence[EmbeddedPassage]) -> None:
        self._refuse()

    async def remove(self, collection: str, doc_ids: Sequence[str]) -> None:
        self._refuse()

    async def documents(self, collection: str) -> AsyncIterator[IndexedDocument]:
        self._refuse()
        yield  # never reached, it makes this an iterator

    async def lookup(self, collection: str, doc_ids: Sequence[str]) -> dict[str, IndexedDocument]:
        self._refuse()

    async def search(
        self, collection: str, text: str, vector: Vector | None, filters: Filters, limit: int
    ) -> list[FoundPassage]:
        self._refuse()

    async def passages(self, collection: str, doc_id: str) -> list[Passage]:
        self._refuse()

    async def finish(self, collection: str) -> None:
        self._refuse()

    async def aclose(self) -> None:
        """There is nothing to close."""

    def _refuse(self) -> NoReturn:
        raise VectorStoreConfigError(self._remedy)
