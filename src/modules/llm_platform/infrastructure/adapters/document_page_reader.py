"""Documents of the folder as pages: the whole text that their passages were cut from."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Final

from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.exceptions import (
    PageConfigError,
    PageError,
    PageRequestError,
    PageTimeoutError,
    WebSearchConfigError,
)
from modules.llm_platform.domain.ports.page_reader import IPageReader
from modules.llm_platform.infrastructure.adapters.document_web_search import DocumentWebSearchAdapter
from modules.llm_platform.infrastructure.documents.reading import Document

NOT_A_DOCUMENT = "This is no address of a document: documents are doc:<path below DOCUMENTS_DIR>"
OUTSIDE = "A document's path may not leave its folder: give a path below DOCUMENTS_DIR"
MISSING = "There is no such document: look for it below DOCUMENTS_DIR"
STILL_READING = "The documents are still being read: try again in a moment"

_MEDIA_TYPES: Final = {
    ".md": "text/markdown", ".markdown": "text/markdown", ".html": "text/html", ".htm": "text/html",
    ".pdf": "application/pdf",
}  # fmt: skip


class DocumentPageReader(IPageReader):
    """Reads what the document search finds, from the same library and so without opening a file that it does not know."""

    name = "documents"

    def __init__(
        self, documents: DocumentWebSearchAdapter, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._documents = documents
        self._now = now

    def serves(self, url: str) -> bool:
        """Whether this address is a document's, be it there or not."""
        return self._documents.addresses.path_in(url) is not None

    async def read(self, url: str) -> Page:
        path = self._documents.addresses.path_in(url)
        if path is None:
            raise PageRequestError(NOT_A_DOCUMENT)
        if leaves_the_folder(path):
            raise PageRequestError(OUTSIDE)
        found = await self._found(path)
        if found is None:
            raise PageError(MISSING)
        if isinstance(found, str):
            raise PageError(f"The document cannot be read: {found}")
        return self._page(found)

    async def _found(self, path: str) -> Document | str | None:
        try:
            return await self._documents.document(path)
        except TimeoutError as error:
            raise PageTimeoutError(STILL_READING) from error
        except WebSearchConfigError as error:
            raise PageConfigError(error.message) from error

    def _page(self, document: Document) -> Page:
        return Page(
            url=self._documents.addresses.of(document.path),
            title=document.title,
            text=document.text,
            read_at=self._now(),
            reader=self.name,
            sha256=sha256(document.text.encode("utf-8", "replace")).hexdigest(),
            media_type=_MEDIA_TYPES.get(PurePosixPath(document.path).suffix.lower(), "text/plain"),
            warning=document.note,
        )


def leaves_the_folder(path: str) -> bool:
    """Such a path names no document either way; it is told apart since asking for it is a mistake."""
    return path.startswith(("/", "\\")) or "\x00" in path or ".." in path.replace("\\", "/").split("/")
