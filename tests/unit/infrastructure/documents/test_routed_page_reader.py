"""infrastructure/documents/routed_page_reader.py"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.support.folder_ways import searching

from modules.llm_platform.domain.exceptions import PageConfigError, PageError, PageRequestError
from modules.llm_platform.infrastructure.documents.page_reader import DocumentPageReader
from modules.llm_platform.infrastructure.documents.routed_page_reader import RoutedPageReader
from modules.llm_platform.infrastructure.unconfigured import unconfigured_page_reader
from modules.llm_platform.testing import FakePageReader

SITE = "https://docs.example.org/handbook"
ELSEWHERE = "https://example.org/page"
OFFLINE = unconfigured_page_reader("offline", "Offline, no page is read")


@pytest.fixture
async def documents(tmp_path: Path) -> AsyncIterator[DocumentPageReader]:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("The document.")
    adapter = searching("by words", tmp_path / "docs", tmp_path / "kept", base_url=SITE)
    yield DocumentPageReader(adapter)
    await adapter.aclose()


async def test_documents_are_read_from_the_folder(documents: DocumentPageReader) -> None:
    """Under either of their addresses; other pages are read from the web."""
    web = FakePageReader({ELSEWHERE: "The web page.", f"{SITE}/a.md": "The same on the web."})
    reader = RoutedPageReader(documents, web)
    assert reader.name == "documents,fake"
    texts = [(await reader.read(url)).text for url in ("doc:a.md", f"{SITE}/a.md", ELSEWHERE)]
    assert texts == ["The document.", "The document.", "The web page."]
    assert web.urls == [ELSEWHERE]


async def test_documents_are_read_offline(documents: DocumentPageReader) -> None:
    """Only the web is closed."""
    reader = RoutedPageReader(documents, OFFLINE)
    assert (await reader.read("doc:a.md")).text == "The document."
    with pytest.raises(PageConfigError, match="Offline"):
        await reader.read(ELSEWHERE)


async def test_a_page_missing_in_the_folder_is_read_from_the_web(documents: DocumentPageReader) -> None:
    """A site may hold more than the folder; a page that neither has is an error."""
    reader = RoutedPageReader(documents, FakePageReader({f"{SITE}/more": "More."}))
    assert (await reader.read(f"{SITE}/more")).text == "More."
    with pytest.raises(PageError):
        await reader.read(f"{SITE}/nowhere")


@pytest.mark.parametrize(("url", "error"), [("doc:b.md", PageError), ("doc:../a.md", PageRequestError)])
async def test_a_doc_address_is_not_read_from_the_web(
    documents: DocumentPageReader, url: str, error: type[Exception]
) -> None:
    """A missing one neither: the web would learn file names."""
    web = FakePageReader({url: "What a stranger says."})
    with pytest.raises(error):
        await RoutedPageReader(documents, web).read(url)
    assert web.urls == []


async def test_without_documents_pages_come_from_the_web() -> None:
    """A `doc:` address is a config error that names the setting."""
    web = FakePageReader({ELSEWHERE: "The web page."})
    reader = RoutedPageReader(None, web)
    assert reader.name == "fake"
    assert (await reader.read(ELSEWHERE)).text == "The web page."
    with pytest.raises(PageConfigError, match="DOCUMENTS_DIR"):
        await reader.read("doc:a.md")
    assert web.urls == [ELSEWHERE]
