"""A provider that was named but is not set up."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Final, NoReturn

from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.dtos.retrieval_dtos import (
    Collection,
    EmbeddedPassage,
    Filters,
    FoundPassage,
    IndexedDocument,
    Passage,
    Vector,
)
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest, WebSearchResponse
from modules.llm_platform.domain.exceptions import (
    EmbeddingConfigError,
    PageConfigError,
    VectorStoreConfigError,
    WebSearchConfigError,
)
from modules.llm_platform.domain.ports.embedder import IEmbedder
from modules.llm_platform.domain.ports.page_reader import IPageReader
from modules.llm_platform.domain.ports.vector_store import IVectorStore
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider


class UnconfiguredWebSearch(IWebSearchProvider):
    """Says at the call, not at the start, which setting is missing: search is an optional power (seed decision 5)."""

    def __init__(self, name: str, remedy: str) -> None:
        self.name = name
        self._remedy = remedy

    async def search(self, request: WebSearchRequest) -> WebSearchResponse:
        raise WebSearchConfigError(self._remedy)

    async def ping(self) -> str:
        raise WebSearchConfigError(self._remedy)


# Stands where no page may be read, and says so when it is asked.


class UnconfiguredPageReader(IPageReader):
    """Every read raises PageConfigError with the remedy."""

    def __init__(self, name: str, remedy: str) -> None:
        self.name = name
        self._remedy = remedy

    async def read(self, url: str) -> Page:
        raise PageConfigError(self._remedy)


# An embedder that must not be used, or cannot.


class UnconfiguredEmbedder(IEmbedder):
    """Says at the call, not at the start, what to set: what was indexed can still be found by its words."""

    dimension = 0
    window_tokens = 1_000_000

    def __init__(self, name: str, remedy: str) -> None:
        self.name = name
        self._remedy = remedy

    async def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        raise EmbeddingConfigError(self._remedy)


# A vector store that must not be used.


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


# No embedder: everything is found by its words.


CHOSEN: Final = "EMBEDDER=none: found by words alone"


class NoneEmbedder(IEmbedder):
    """Has a vector for nothing; a collection that is made with it holds words alone."""

    name = "none"
    dimension = 0
    window_tokens = 1_000_000  # it cuts nothing

    def __init__(self, why_no_vectors: str = CHOSEN) -> None:
        self.why_no_vectors = why_no_vectors

    async def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        return [None] * len(texts)
