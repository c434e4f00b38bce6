"""The port of vector stores: dense and sparse vectors of passages in named collections."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence

from modules.llm_platform.domain.dtos.retrieval_dtos import (
    Collection,
    EmbeddedPassage,
    Filters,
    FoundPassage,
    IndexedDocument,
    Passage,
    Vector,
)
from modules.llm_platform.domain.task_group import gather_all


class IVectorStore(ABC):
    """Keeps passages with vectors and finds them by meaning and by words, fused.

    All methods raise VectorStoreError (not reachable or broken), VectorStoreConfigError (not set up, another embedder's
    collection, a second writer) and nothing else. Cancelling is safe at any point. All but `describe`, `prepare` and `finish`
    want a collection that is there: VectorStoreConfigError, with the remedy, when it is not.

    Vectors are given as an embedder makes them: the store takes the collection's mean away from those that it keeps and from
    those that it looks for. One that is NaN, zero or of another length counts as none.
    """

    name: str  # in logs and degraded

    @abstractmethod
    async def describe(self, collection: str) -> Collection | None:
        """The collection's facts, None when there is none."""

    @abstractmethod
    async def prepare(self, collection: Collection) -> None:
        """Make the collection if it is not there, and take the place of the writer where there is one for all, until
        `finish`; the facts of one that is there stay, its mean among them. VectorStoreConfigError, with the remedy, when
        another embedder made it or somebody else is writing.
        """

    @abstractmethod
    async def replace(self, collection: str, document: IndexedDocument, passages: Sequence[EmbeddedPassage]) -> None:
        """Put a document in the place of what was there under its id: from now on all of the new, nothing of the old."""

    async def replace_many(
        self, collection: str, documents: Sequence[tuple[IndexedDocument, Sequence[EmbeddedPassage]]]
    ) -> None:
        """The same for several, at most some dozens. When it fails some of them may have been replaced, each whole."""
        await gather_all(self.replace(collection, *each) for each in documents)

    async def add_vectors(
        self, collection: str, documents: Sequence[tuple[IndexedDocument, Sequence[EmbeddedPassage]]]
    ) -> None:
        """Give passages that are there without vectors theirs, and their documents what is known of them now."""
        await self.replace_many(collection, documents)

    @abstractmethod
    async def remove(self, collection: str, doc_ids: Sequence[str]) -> None:
        """Take documents out; those that are not there are passed over."""

    @abstractmethod
    def documents(self, collection: str) -> AsyncIterator[IndexedDocument]:
        """Every document of the collection."""

    @abstractmethod
    async def lookup(self, collection: str, doc_ids: Sequence[str]) -> dict[str, IndexedDocument]:
        """Those of the documents that are there."""

    @abstractmethod
    async def search(
        self, collection: str, text: str, vector: Vector | None, filters: Filters, limit: int
    ) -> list[FoundPassage]:
        """The best passages, fused from meaning (`vector`, None: by words alone) and words, best first, scores 0 to 1.

        A filter key that no passage has means no hit. A collection that is not there is VectorStoreConfigError.
        """

    @abstractmethod
    async def passages(self, collection: str, doc_id: str) -> list[Passage]:
        """All passages of a document in its order; empty when it is not there."""

    @abstractmethod
    async def finish(self, collection: str) -> None:
        """What was written until now becomes what readers see, and outlives a crash; cheap when nothing was. An embedded index
        copies itself when the next writing begins: once in a minute is often enough.
        """

    @abstractmethod
    async def aclose(self) -> None:
        """Close what was opened; a second call does nothing."""
