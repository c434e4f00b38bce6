"""Turn the context that an asker brings into pieces: words as they are, addresses read, documents looked up."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from modules.llm_platform.application.answering.known_documents import Known, KnownDocuments
from modules.llm_platform.application.answering.pieces import Collected, Piece, document
from modules.llm_platform.application.services.page_service import PageService
from modules.llm_platform.domain.canonical_url import host_of
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.dtos.retrieval_dtos import ContextItem, Filters
from modules.llm_platform.domain.exceptions import PageTimeoutError, VectorStoreError
from shared.exceptions import AppException

MAX_PIECES: Final = 100
MAX_PAGES: Final = 10  # that are read for one answer
PAGES_AT_ONCE: Final = 5
CONTEXT: Final = "context"  # who is degraded where a part of it is not used
INDEX: Final = "index"
TOO_MANY: Final = f"too_many: only the first {MAX_PIECES} pieces are used"
TOO_MANY_PAGES: Final = f"too_many: only the first {MAX_PAGES} addresses are read"
NOT_THERE: Final = "not_found: a document that is named without words of it is not in the index"
LATE: Final = "The page was not there before the deadline of the answer: try again"
INDEX_LATE: Final = "The index did not answer before the deadline: try again"

_Pages = Mapping[str, Page | AppException]


class ContextDesk:
    """Reads pages with the safe reader and looks documents up, all of it side by side."""

    def __init__(self, pages: PageService, documents: KnownDocuments) -> None:
        self._pages, self._documents = pages, documents

    async def collect(self, context: Sequence[ContextItem], filters: Filters, until: float) -> Collected:
        """The pieces in the order of the context, as far as they are there at `until` (event loop time)."""
        collected = Collected()
        items = [item for item in context if _says_something(item)]
        if len(items) > MAX_PIECES:
            collected.degraded.append(Degraded(component=CONTEXT, reason=TOO_MANY))
            items = items[:MAX_PIECES]
        urls = list(dict.fromkeys(item.url for item in items if item.url and not _words(item)))
        if len(urls) > MAX_PAGES:
            collected.degraded.append(Degraded(component=CONTEXT, reason=TOO_MANY_PAGES))
        pages, known = await asyncio.gather(
            self._read_all(urls[:MAX_PAGES], until), self._look_up(items, filters, until, collected)
        )
        for url, page in pages.items():
            if isinstance(page, AppException):
                collected.failed(f"read/{host_of(url) or CONTEXT}", page)
        collected.pieces += _pieces(items, pages, known or {})
        if known is not None and any(_is_a_name(item) and not _text_of(item, known) for item in items):
            collected.degraded.append(Degraded(component=CONTEXT, reason=NOT_THERE))
        return collected

    async def _read_all(self, urls: Sequence[str], until: float) -> _Pages:
        at_once = asyncio.Semaphore(PAGES_AT_ONCE)

        async def one(url: str) -> Page | AppException:
            try:
                async with asyncio.timeout_at(until), at_once:
                    return await self._pages.read(url)
            except TimeoutError:
                return PageTimeoutError(LATE)
            except AppException as error:
                return error

        return dict(zip(urls, await asyncio.gather(*map(one, urls)), strict=True))

    async def _look_up(
        self, items: Sequence[ContextItem], filters: Filters, until: float, collected: Collected
    ) -> dict[str, Known] | None:
        """What the index knows of the documents that are named; None when it cannot be asked."""
        doc_ids = dict.fromkeys(item.doc_id for item in items if item.doc_id)
        if not doc_ids:
            return {}
        try:
            async with asyncio.timeout_at(until):
                return await self._documents.find(
                    doc_ids, {item.doc_id for item in items if item.doc_id and _is_a_name(item)}, filters
                )
        except TimeoutError:
            collected.failed(INDEX, VectorStoreError(INDEX_LATE))
        except AppException as error:
            collected.failed(INDEX, error)
        return None


def _pieces(items: Sequence[ContextItem], pages: _Pages, known: Mapping[str, Known]) -> Iterator[Piece]:
    for item in items:
        there = known.get(item.doc_id or "")
        page = None if _words(item) else pages.get(item.url or "")
        if isinstance(page, Page):
            yield Piece(page.text, document(item.doc_id, page.title, item.url))
        elif text := _text_of(item, known):
            title, url = (there.title, there.url or item.url) if there else (None, item.url)
            yield Piece(text, document(item.doc_id, title, url))


def _words(item: ContextItem) -> str:
    return item.snippet if item.snippet and item.snippet.strip() else ""


def _text_of(item: ContextItem, known: Mapping[str, Known]) -> str:
    """The words that were given; those of the index where a document is merely named."""
    if not _is_a_name(item):
        return _words(item)
    there = known.get(item.doc_id or "")
    return there.text if there else ""


def _is_a_name(item: ContextItem) -> bool:
    """Whether the item names a document and brings neither words nor an address."""
    return bool(item.doc_id) and not item.url and not _words(item)


def _says_something(item: ContextItem) -> bool:
    return bool(_words(item) or item.url or item.doc_id)
