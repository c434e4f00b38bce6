"""Documents of a named folder as pages: the whole text that their passages were cut from."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.exceptions import (
    PageConfigError,
    PageConnectionError,
    PageError,
    PageRequestError,
    PageTimeoutError,
    VectorStoreConfigError,
    VectorStoreError,
    WebSearchConfigError,
    WebSearchConnectionError,
    WebSearchTimeoutError,
)
from modules.llm_platform.domain.ports.page_reader import IPageReader
from modules.llm_platform.infrastructure.adapters.document_page_reader import (
    MISSING,
    NOT_A_DOCUMENT,
    OUTSIDE,
    STILL_READING,
    DocumentPageReader,
    leaves_the_folder,
)
from modules.llm_platform.infrastructure.adapters.document_web_search import DocumentWebSearchAdapter
from modules.llm_platform.infrastructure.adapters.folder_web_search import FolderWebSearch
from modules.llm_platform.infrastructure.adapters.index_page_reader import page_of
from modules.llm_platform.infrastructure.folders.state import FolderView
from modules.llm_platform.infrastructure.indexing.names import shown

_MEDIA_TYPES: Final = {"md": "text/markdown", "html": "text/html", "pdf": "application/pdf"}


class FolderPageReader(IPageReader):
    """Reads what the folder's search finds, from its index: an address opens no file."""

    name = "documents"

    def __init__(self, search: FolderWebSearch, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._search = search
        self._now = now

    def serves(self, url: str) -> bool:
        """Whether this address is a document's, be it there or not."""
        return self._search.found.document_of(url) is not None

    async def read(self, url: str) -> Page:
        doc_id = self._search.found.document_of(url)
        if doc_id is None:
            raise PageRequestError(NOT_A_DOCUMENT)
        try:
            return await self._search.answered(partial(self._by_meaning, doc_id), partial(self._by_words, url))
        except WebSearchTimeoutError as error:
            raise PageTimeoutError(STILL_READING) from error
        except WebSearchConfigError as error:
            raise PageConfigError(error.message) from error
        except WebSearchConnectionError as error:
            raise PageConnectionError(error.message) from error

    async def _by_meaning(self, doc_id: str, view: FolderView) -> Page:
        page = await self._page(doc_id, view) if view.documents else None
        if page is not None:
            return page
        if leaves_the_folder(doc_id):
            raise PageRequestError(OUTSIDE)
        if word := view.bad.get(shown(Path(doc_id))):
            raise PageError(f"The document cannot be read: {word}")
        raise PageError(MISSING)

    async def _by_words(self, url: str, words: DocumentWebSearchAdapter) -> Page:
        """From what is searched meanwhile, in which the lines of JSON files are missing."""
        try:
            return await DocumentPageReader(words, self._now).read(url)
        except PageError as error:
            if self._search.lacks_lines and error.message == MISSING:
                raise PageTimeoutError(STILL_READING) from error
            raise

    async def _page(self, doc_id: str, view: FolderView) -> Page | None:
        found = self._search.found
        try:
            passages = await found.retrieval.document(doc_id)
        except VectorStoreConfigError as error:
            raise PageConfigError(error.message) from error
        except VectorStoreError as error:
            raise PageConnectionError(error.message) from error
        if not passages:
            return None
        page = page_of(passages, found.address_of(passages[0]), self._now(), found.redactor)
        kinds = passages[0].fields.get("doc_type") or ("",)
        media_type = _MEDIA_TYPES.get(kinds[0], page.media_type)
        return page.model_copy(update={"media_type": media_type, "warning": view.notes.get(shown(Path(doc_id)))})
