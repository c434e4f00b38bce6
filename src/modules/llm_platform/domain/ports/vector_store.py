"""The port of vector stores: dense and sparse vectors of passages in named collections."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence

from modules.llm_platform.domain.concurrency.task_group import gather_all
from modules.llm_platform.domain.dtos import retrieval_dtos as dtos


class IVectorStore(ABC):
    """Stores passages with vectors, and finds them by hybrid search (vectors and keywords).

    All methods raise VectorStoreError (unreachable or damaged), VectorStoreConfigError (not set up, a collection of another
    embedder, a second writer) and nothing else. Cancelling is safe at any point. All methods except `describe`, `prepare` and
    `finish` raise VectorStoreConfigError, with the remedy, if the collection does not exist.

    Vectors are passed as the embedder makes them: the store subtracts the mean of the collection. A vector that is NaN, zero
    or of another dimension counts as missing.
    """

    name: str  # shown in logs and `degraded`

    @abstractmethod
    async def describe(self, collection: str) -> dtos.Collection | None:
        """Return the collection; None if it does not exist."""

    @abstractmethod
    async def prepare(self, collection: dtos.Collection) -> None:
        """Create the collection if it does not exist, and lock it for writing until `finish` if the store has one writer.

        An existing collection keeps its mean. Raises VectorStoreConfigError, with the remedy, if another embedder made it or
        another process writes to it.
        """

    @abstractmethod
    async def replace(
        self, collection: str, document: dtos.IndexedDocument, passages: Sequence[dtos.EmbeddedPassage]
    ) -> None:
        """Replace all passages of the document atomically."""

    async def replace_many(
        self, collection: str, documents: Sequence[tuple[dtos.IndexedDocument, Sequence[dtos.EmbeddedPassage]]]
    ) -> None:
        """Replace several documents, at most some dozens, each atomically: an error may leave some replaced."""
        await gather_all(self.replace(collection, *document) for document in documents)

    async def add_vectors(
        self, collection: str, documents: Sequence[tuple[dtos.IndexedDocument, Sequence[dtos.EmbeddedPassage]]]
    ) -> None:
        """Add vectors to stored passages, and update their documents."""
        await self.replace_many(collection, documents)

    @abstractmethod
    async def remove(self, collection: str, doc_ids: Sequence[str]) -> None:
        """Remove the documents; unknown ids are ignored."""

    @abstractmethod
    def documents(self, collection: str) -> AsyncIterator[dtos.IndexedDocument]:
        """Yield every document of the collection."""

    @abstractmethod
    async def lookup(self, collection: str, doc_ids: Sequence[str]) -> dict[str, dtos.IndexedDocument]:
        """Return the documents with these ids that exist, by id."""

    @abstractmethod
    async def search(
        self, collection: str, text: str, vector: dtos.Vector | None, filters: dtos.Filters, limit: int
    ) -> list[dtos.FoundPassage]:
        """Return the best passages, fused from vector and keyword search, best first, with scores from 0 to 1.

        Without a `vector` only keywords are searched. A filter key that no passage has matches nothing.
        """

    @abstractmethod
    async def passages(self, collection: str, doc_id: str) -> list[dtos.Passage]:
        """Return all passages of a document in order; empty if it does not exist."""

    @abstractmethod
    async def finish(self, collection: str) -> None:
        """Make all writes so far durable and visible to readers. Without writes, this is cheap.

        An embedded index is copied when the next write starts, so call this at most once a minute.
        """

    @abstractmethod
    async def aclose(self) -> None:
        """Close what was opened; a second call does nothing."""
