"""The promises of a web search provider, kept by a folder of documents."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest
from modules.llm_platform.infrastructure.adapters.document_web_search import DocumentWebSearchAdapter
from modules.llm_platform.infrastructure.documents.library import DocumentLibrary, Found
from modules.llm_platform.testing.web_search import Looking, Slow, WebSearchProviderContract

READING_SECONDS = 0.5


class SlowLibrary(DocumentLibrary):
    """A folder on a disk that takes its time."""

    running = 0
    _lock = threading.Lock()

    def search(self, query: str, language: str, count: int, page: int) -> Found:
        with self._lock:
            self.running += 1
        try:
            time.sleep(READING_SECONDS)
            return super().search(query, language, count, page)
        finally:
            with self._lock:
                self.running -= 1


class TestDocuments(WebSearchProviderContract):
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
    async def provider(self, folder: Path) -> AsyncIterator[DocumentWebSearchAdapter]:
        adapter = DocumentWebSearchAdapter(folder)
        yield adapter
        await adapter.aclose()

    @pytest.fixture
    def findable(self) -> WebSearchRequest:
        return WebSearchRequest(query="When does the gateway restart?")

    @pytest.fixture
    def nothing_to_find(self, provider: DocumentWebSearchAdapter) -> Looking:
        return Looking(provider, WebSearchRequest(query="photosynthesis of ferns"))

    @pytest.fixture
    async def unreachable(self, tmp_path: Path) -> AsyncIterator[Looking]:
        adapter = DocumentWebSearchAdapter(tmp_path / "nowhere")
        yield Looking(adapter, WebSearchRequest(query="gateway"))
        await adapter.aclose()

    @pytest.fixture
    async def slow(self, folder: Path) -> AsyncIterator[Slow]:
        library = SlowLibrary(folder)
        adapter = DocumentWebSearchAdapter(folder, library=library)
        yield Slow(adapter, lambda: library.running)
        await adapter.aclose()
