"""Implementations of ports for what is not configured: every call raises an error that names the setting."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import NoReturn

from modules.llm_platform.domain import exceptions
from modules.llm_platform.domain.dtos import retrieval_dtos as dtos
from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest, WebSearchResponse
from modules.llm_platform.domain.ports.embedder import IEmbedder
from modules.llm_platform.domain.ports.page_reader import IPageReader
from modules.llm_platform.domain.ports.vector_store import IVectorStore
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider


class _Unconfigured:
    def __init__(self, name: str, remedy: str) -> None:
        self.name = name
        self._remedy = remedy


class UnconfiguredWebSearch(_Unconfigured, IWebSearchProvider):
    """Every search raises WebSearchConfigError with the remedy; the program starts without search."""

    async def search(self, request: WebSearchRequest) -> WebSearchResponse:
        raise exceptions.WebSearchConfigError(self._remedy)

    async def ping(self) -> str:
        raise exceptions.WebSearchConfigError(self._remedy)


class UnconfiguredPageReader(_Unconfigured, IPageReader):
    """Every read raises PageConfigError with the remedy."""

    async def read(self, url: str) -> Page:
        raise exceptions.PageConfigError(self._remedy)


class UnconfiguredEmbedder(_Unconfigured, IEmbedder):
    """Every call raises EmbeddingConfigError with the remedy; keyword search still works."""

    dimension = 0
    window_tokens = 1_000_000

    async def embed(self, texts: Sequence[str]) -> list[dtos.Vector | None]:
        raise exceptions.EmbeddingConfigError(self._remedy)


class UnconfiguredVectorStore(_Unconfigured, IVectorStore):
    """Every call raises VectorStoreConfigError with the remedy."""

    async def describe(self, collection: str) -> dtos.Collection | None:
        self._refuse()

    async def prepare(self, collection: dtos.Collection) -> None:
        self._refuse()

    async def replace(self, collection: str, document: dtos.IndexedDocument, passages: Sequence[dtos.EmbeddedPassage]) -> None:
        self._refuse()

    async def remove(self, collection: str, doc_ids: Sequence[str]) -> None:
        self._refuse()

    async def documents(self, collection: str) -> AsyncIterator[dtos.IndexedDocument]:
        self._refuse()
        yield  # unreachable; makes this an async generator

    async def lookup(self, collection: str, doc_ids: Sequence[str]) -> dict[str, dtos.IndexedDocument]:
        self._refuse()

    async def search(
        self, collection: str, text: str, vector: dtos.Vector | None, filters: dtos.Filters, limit: int
    ) -> list[dtos.FoundPassage]:
        self._refuse()

    async def passages(self, collection: str, doc_id: str) -> list[dtos.Passage]:
        self._refuse()

    async def finish(self, collection: str) -> None:
        self._refuse()

    async def aclose(self) -> None:
        """Nothing to close."""

    def _refuse(self) -> NoReturn:
        raise exceptions.VectorStoreConfigError(self._remedy)
