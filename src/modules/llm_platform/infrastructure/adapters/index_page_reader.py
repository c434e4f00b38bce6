"""Indexed documents as pages: their text as it was when they were indexed, whether their address is on the web or not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final

from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.dtos.retrieval_dtos import Passage
from modules.llm_platform.domain.exceptions import (
    PageConfigError,
    PageConnectionError,
    PageError,
    PageRequestError,
    VectorStoreConfigError,
    VectorStoreError,
)
from modules.llm_platform.domain.ports.page_reader import IPageReader
from modules.llm_platform.domain.redaction import Redactor
from modules.llm_platform.domain.whole_text import whole_text
from modules.llm_platform.infrastructure.adapters.index_web_search import IndexWebSearch

NOT_A_DOCUMENT: Final = "This is no address of an indexed document: those are what a search for documents shows"
MISSING: Final = "There is no such document in the index: look for it with a search for documents"


class IndexPageReader(IPageReader):
    """Reads what the search of the index shows, without opening a file or a connection to its address."""

    name = "documents"

    def __init__(self, search: IndexWebSearch, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._search = search
        self._now = now

    def serves(self, url: str) -> bool:
        """Whether this address is a document's, be it there or not."""
        return self._search.document_of(url) is not None

    async def read(self, url: str) -> Page:
        doc_id = self._search.document_of(url)
        if doc_id is None:
            raise PageRequestError(NOT_A_DOCUMENT)
        try:
            passages = await self._search.retrieval.document(doc_id)
        except VectorStoreConfigError as error:
            raise PageConfigError(error.message) from error
        except VectorStoreError as error:
            raise PageConnectionError(error.message) from error
        if not passages:
            raise PageError(MISSING)
        return page_of(passages, url, self._now(), self._search.redactor)


def page_of(passages: Sequence[Passage], url: str, read_at: datetime, redactor: Redactor) -> Page:
    """A document as a page, from all of its passages. What became a secret after it was indexed is taken out."""
    text = redactor.text(whole_text(passages))
    return Page(
        url=url,
        title=redactor.text(passages[0].title),
        text=text,
        read_at=read_at,
        reader=IndexPageReader.name,
        sha256=sha256(text.encode("utf-8", "replace")).hexdigest(),
        media_type="text/plain",
    )
