"""Documents beside the web keep the promises of the port of page readers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from modules.llm_platform.domain.exceptions import PageBlockedError, PageConnectionError
from modules.llm_platform.domain.ports.page_reader import IPageReader
from modules.llm_platform.infrastructure.adapters.document_page_reader import DocumentPageReader
from modules.llm_platform.infrastructure.adapters.document_web_search import DocumentWebSearchAdapter
from modules.llm_platform.infrastructure.policies.by_address_page_reader import ByAddressPageReader
from modules.llm_platform.testing import FakePageReader, PageReaderContract, Reading, SlowReading

WEB = "https://elsewhere.example.net"


class Documents(PageReaderContract):
    """What a folder cannot do (refuse a connection, ask for a login, stay silent) is the part of the web beside it."""

    base_url: str | None = None

    @pytest.fixture
    async def documents(self, tmp_path: Path) -> AsyncIterator[DocumentPageReader]:
        (tmp_path / "page.html").write_text("<title>A page</title><p>Text.</p>")
        adapter = DocumentWebSearchAdapter(tmp_path, self.base_url)
        yield DocumentPageReader(adapter)
        await adapter.aclose()

    @pytest.fixture
    def both(self, documents: DocumentPageReader) -> IPageReader:
        web = {f"{WEB}/refused": PageConnectionError(), f"{WEB}/login": PageBlockedError()}
        return ByAddressPageReader(documents, FakePageReader(web))

    @pytest.fixture
    def readable(self, documents: DocumentPageReader) -> Reading:
        return Reading(documents, self._address("page.html"))

    @pytest.fixture
    def unreachable(self, both: IPageReader) -> Reading:
        return Reading(both, f"{WEB}/refused")

    @pytest.fixture
    def refused(self, documents: DocumentPageReader) -> Reading:
        return Reading(documents, self._address("../page.html"))

    @pytest.fixture
    def walled(self, both: IPageReader) -> Reading:
        return Reading(both, f"{WEB}/login")

    @pytest.fixture
    def missing(self, documents: DocumentPageReader) -> Reading:
        return Reading(documents, self._address("missing.html"))

    @pytest.fixture
    def slow(self, documents: DocumentPageReader) -> SlowReading:
        silent = FakePageReader({}, delay_s=60)
        return SlowReading(ByAddressPageReader(documents, silent), f"{WEB}/silent", lambda: silent.running)

    def _address(self, path: str) -> str:
        return f"{self.base_url}/{path}" if self.base_url else f"doc:{path}"


class TestDocuments(Documents):
    """Under their own addresses."""


class TestPublishedDocuments(Documents):
    """Under the addresses where they are published."""

    base_url = "https://docs.example.org/handbook"
