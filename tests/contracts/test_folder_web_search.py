"""A named folder, searched like the index, fulfils the contract of a web search provider."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.support.folder_ways import SlowStore, folder_index, reading, searching

from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest
from modules.llm_platform.domain.exceptions import PageBlockedError, PageConnectionError
from modules.llm_platform.domain.ports.embedder import IEmbedder
from modules.llm_platform.domain.ports.page_reader import IPageReader
from modules.llm_platform.domain.retrieval.embeddable import NoneEmbedder
from modules.llm_platform.infrastructure.documents.page_reader import DocumentPageReader
from modules.llm_platform.infrastructure.documents.routed_page_reader import RoutedPageReader
from modules.llm_platform.infrastructure.documents.web_search import DocumentWebSearch
from modules.llm_platform.infrastructure.models.wordllama_embedder import WordllamaEmbedder
from modules.llm_platform.testing import (
    FakePageReader,
    PageCase,
    PageReaderContract,
    SearchCase,
    SlowPage,
    SlowSearch,
    WebSearchProviderContract,
)

WEB = "https://elsewhere.example.net"


class Folder(WebSearchProviderContract):
    is_remote = False
    embedder: type[IEmbedder]

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        folder = tmp_path / "docs"
        (folder / "deep er").mkdir(parents=True)
        for number in range(8):
            text = (
                f"# Page {number}\n\n" + "The gateway restarts after a timeout. " * (number % 4) + "More words. " * 20
            )
            (folder / ("deep er" if number % 2 else "") / f"page {number}.md").write_text(text)
        return folder

    @pytest.fixture
    async def provider(self, folder: Path, tmp_path: Path) -> AsyncIterator[DocumentWebSearch]:
        adapter = DocumentWebSearch(folder_index(folder, tmp_path / "kept", embedder=self.embedder()), needs_words=True)
        yield adapter
        await adapter.aclose()

    @pytest.fixture
    def findable(self) -> WebSearchRequest:
        return WebSearchRequest(query="When does the gateway restart?")

    @pytest.fixture
    def nothing_to_find(self, provider: DocumentWebSearch) -> SearchCase:
        return SearchCase(provider, WebSearchRequest(query="photosynthesis of ferns"))

    @pytest.fixture
    async def unreachable(self, tmp_path: Path) -> AsyncIterator[SearchCase]:
        adapter = DocumentWebSearch(folder_index(tmp_path / "nowhere", tmp_path / "kept"))
        yield SearchCase(adapter, WebSearchRequest(query="gateway"))
        await adapter.aclose()

    @pytest.fixture
    async def slow(self, folder: Path) -> AsyncIterator[SlowSearch]:
        store = SlowStore()
        adapter = DocumentWebSearch(folder_index(folder, None, store=store))
        yield SlowSearch(adapter, lambda: store.running)
        await adapter.aclose()


class TestByMeaning(Folder):
    embedder = WordllamaEmbedder


class TestByWords(Folder):
    embedder = NoneEmbedder


class Pages(PageReaderContract):
    """Simulates what a folder cannot do (refuse a connection, require a login, stay silent) with a web provider next to
    it.
    """

    base_url: str | None = None

    @pytest.fixture
    async def documents(self, tmp_path: Path) -> AsyncIterator[DocumentPageReader]:
        (tmp_path / "docs").mkdir()
        (tmp_path / "docs" / "page.html").write_text("<title>A page</title><p>Text.</p>")
        adapter = searching("by meaning", tmp_path / "docs", tmp_path / "kept", base_url=self.base_url)
        reader = reading(adapter)
        assert isinstance(reader, DocumentPageReader)
        yield reader
        await adapter.aclose()

    @pytest.fixture
    def both(self, documents: DocumentPageReader) -> IPageReader:
        web = {f"{WEB}/refused": PageConnectionError(), f"{WEB}/login": PageBlockedError()}
        return RoutedPageReader(documents, FakePageReader(web))

    @pytest.fixture
    def readable(self, documents: DocumentPageReader) -> PageCase:
        return PageCase(documents, self._address("page.html"))

    @pytest.fixture
    def unreachable(self, both: IPageReader) -> PageCase:
        return PageCase(both, f"{WEB}/refused")

    @pytest.fixture
    def refused(self, documents: DocumentPageReader) -> PageCase:
        return PageCase(documents, self._address("../page.html"))

    @pytest.fixture
    def walled(self, both: IPageReader) -> PageCase:
        return PageCase(both, f"{WEB}/login")

    @pytest.fixture
    def missing(self, documents: DocumentPageReader) -> PageCase:
        return PageCase(documents, self._address("missing.html"))

    @pytest.fixture
    def slow(self, documents: DocumentPageReader) -> SlowPage:
        silent = FakePageReader({}, delay_s=60)
        return SlowPage(RoutedPageReader(documents, silent), f"{WEB}/silent", lambda: silent.running)

    def _address(self, path: str) -> str:
        return f"{self.base_url}/{path}" if self.base_url else f"doc:{path}"


class TestPages(Pages):
    """Under their own addresses."""


class TestPublishedPages(Pages):
    """Under the addresses where they are published."""

    base_url = "https://docs.example.org/handbook"
