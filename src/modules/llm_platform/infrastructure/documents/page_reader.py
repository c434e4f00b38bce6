"""Reads documents as pages: the whole text as it was indexed, at a `doc:` address or on the web."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final

from modules.llm_platform.domain import exceptions
from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.dtos.retrieval_dtos import Passage
from modules.llm_platform.domain.ports.page_reader import IPageReader
from modules.llm_platform.domain.retrieval.merge_passages import merge_document_text
from modules.llm_platform.infrastructure.documents.folder_state import FolderView
from modules.llm_platform.infrastructure.documents.web_search import DocumentWebSearch
from modules.llm_platform.infrastructure.parsing.decoding import replace_unprintable

_MEDIA_TYPES: Final = {
    "md": "text/markdown",
    "html": "text/html",
    "pdf": "application/pdf",
    "rst": "text/x-rst",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    "epub": "application/epub+zip",
    "ipynb": "application/x-ipynb+json",
    "csv": "text/csv",
    "tsv": "text/tab-separated-values",
}


class DocumentPageReader(IPageReader):
    """Reads documents from the index that the search uses. An address opens neither a file nor a connection."""

    name = "documents"

    def __init__(self, search: DocumentWebSearch, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._search = search
        self._now = now

    def serves(self, url: str) -> bool:
        """Return whether this address is a document's, which need not exist."""
        return self._search.find_document_id(url) is not None

    async def read(self, url: str) -> Page:
        doc_id = self._search.find_document_id(url)
        if doc_id is None:
            raise exceptions.PageRequestError(
                "This is not the address of a document: use one that a search of the documents shows"
            )
        try:
            view = await self._search.refresh()
            empty = view is not None and not view.documents
            passages = [] if empty else await self._search.document(doc_id)
        except exceptions.WebSearchTimeoutError as error:
            raise exceptions.PageTimeoutError("The documents are still being read: try again in a moment") from error
        except (exceptions.WebSearchConfigError, exceptions.VectorStoreConfigError) as error:
            raise exceptions.PageConfigError(error.message) from error
        except (exceptions.WebSearchConnectionError, exceptions.VectorStoreError) as error:
            raise exceptions.PageConnectionError(error.message) from error
        if passages:
            return self._make_page(passages, url if view is None else self._search.get_address(passages[0]), view)
        if view is not None and leaves_the_folder(doc_id):
            raise exceptions.PageRequestError(
                "A document's path may not leave its folder: give a path below DOCUMENTS_DIR"
            )
        if view is not None and (reason := view.bad.get(replace_unprintable(doc_id))):
            raise exceptions.PageError(f"The document cannot be read: {reason}")
        raise exceptions.PageError("There is no such document: search the documents for it")

    def _make_page(self, passages: Sequence[Passage], url: str, view: FolderView | None) -> Page:
        """Return a page from all passages of a document, without what became a secret after it was indexed."""
        merged = merge_document_text(passages)
        text = self._search.redactor.text(merged.text)
        (kind, *_) = passages[0].fields.get("doc_type") or ("",)
        return Page(
            url=url,
            title=self._search.redactor.text(passages[0].title),
            text=text,
            read_at=self._now(),
            reader=self.name,
            sha256=sha256(text.encode("utf-8", "replace")).hexdigest(),
            media_type=_MEDIA_TYPES.get(kind, "text/plain"),
            pages=merged.pages if text == merged.text else (),
            warning=view.notes.get(replace_unprintable(passages[0].doc_id)) if view else None,
        )


def leaves_the_folder(path: str) -> bool:
    """Return whether a path leaves its folder. No document has such a path, so the request is a mistake."""
    return path.startswith(("/", "\\")) or "\x00" in path or ".." in path.replace("\\", "/").split("/")
