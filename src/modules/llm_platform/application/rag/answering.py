"""Turn the context that an asker brings into pieces: words as they are, addresses read, documents looked up."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from modules.llm_platform.application.research.writing import WrittenAnswer
from modules.llm_platform.application.services.page_service import PageService
from modules.llm_platform.domain.canonical_url import canonical_url, host_of, is_openable
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.dtos.research_dtos import Source
from modules.llm_platform.domain.dtos.retrieval_dtos import ContextItem, Filters, Passage, RagCitation
from modules.llm_platform.domain.exceptions import PageTimeoutError, VectorStoreError
from modules.llm_platform.domain.markdown.markers import renumber_markers
from modules.llm_platform.domain.markdown.sanitizer import sanitize
from modules.llm_platform.domain.merge_passages import merge_document_text
from modules.llm_platform.domain.ports.vector_store import IVectorStore
from shared.exceptions import AppException

# What an answer is written from: texts, and the documents that they are of.


MAX_TITLE_CHARS = 300


@dataclass(frozen=True, slots=True)
class ContextPassage:
    """A text, and its document as an answer cites it; without id, address and title it cannot be cited."""

    text: str
    document: RagCitation

    @property
    def key(self) -> tuple[str, str] | None:
        """Equal for pieces of one document; None for words that come from nowhere in particular."""
        document = self.document
        if document.doc_id:
            return "id", document.doc_id
        if document.url:
            return "url", canonical_url(document.url)
        return ("title", document.title) if document.title else None


@dataclass(slots=True)
class CollectedContext:
    """The pieces so far, and what could not be had."""

    pieces: list[ContextPassage] = field(default_factory=list)
    degraded: list[Degraded] = field(default_factory=list)
    failures: list[AppException] = field(default_factory=list)

    def failed(self, component: str, error: AppException) -> None:
        """A part that failed, though others may do."""
        self.degraded.append(Degraded.of(component, error))
        self.failures.append(error)


def document(doc_id: str | None, title: str | None, url: str | None) -> RagCitation:
    """A document as it is cited: title on one line, no address that nobody may open, nothing empty."""
    shown = " ".join((title or "").split())[:MAX_TITLE_CHARS]
    return RagCitation(doc_id=doc_id or None, title=shown or None, url=url if url and is_openable(url) else None)


def numbered(pieces: Sequence[ContextPassage]) -> tuple[Source, ...]:
    """The pieces as sources, from 1."""
    return tuple(
        Source(index=number, title=piece.document.title or "", url=piece.document.url or "", text=piece.text)
        for number, piece in enumerate(pieces, 1)
    )


# Look up in the index the documents that a context names (requirement RC5).


MAX_TEXT_CHARS: Final = 100_000  # of a document that is named without words of it
LOOKED_UP_AT_ONCE: Final = 8


@dataclass(frozen=True, slots=True)
class LookedUpDocuments:
    """A document of the index; its text where it was asked for."""

    title: str
    url: str | None
    text: str = ""


class DocumentLookup:
    """The documents of one collection, by id."""

    def __init__(self, store: IVectorStore, collection: str) -> None:
        self._store, self._collection = store, collection

    async def find(
        self, doc_ids: Collection[str], whole: Collection[str], filters: Filters
    ) -> dict[str, LookedUpDocuments]:
        """Those of the documents that the index has and the filters let through; with their text those in `whole`.

        What the filters hide is not there: neither its title nor a word of it is told. Raises the errors of the store.
        """
        to_open = list(doc_ids) if any(filters.values()) else [doc_id for doc_id in doc_ids if doc_id in whole]
        by_name = [doc_id for doc_id in doc_ids if doc_id not in to_open]
        found = await self._store.lookup(self._collection, by_name) if by_name else {}
        known = {doc_id: LookedUpDocuments(each.title, each.url) for doc_id, each in found.items()}
        for doc_id, passages in zip(to_open, await self._passages(to_open), strict=True):
            if passages and _passes(passages[0], filters):
                text = merge_document_text(passages, MAX_TEXT_CHARS) if doc_id in whole else ""
                known[doc_id] = LookedUpDocuments(passages[0].title, passages[0].url, text)
        return known

    async def _passages(self, doc_ids: Sequence[str]) -> list[list[Passage]]:
        at_once = asyncio.Semaphore(LOOKED_UP_AT_ONCE)

        async def one(doc_id: str) -> list[Passage]:
            async with at_once:
                return await self._store.passages(self._collection, doc_id)

        return await asyncio.gather(*map(one, doc_ids))


def _passes(passage: Passage, filters: Filters) -> bool:
    """Whether a search with these filters could have found it."""
    return all(not set(values).isdisjoint(passage.fields.get(key, ())) for key, values in filters.items() if values)


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


class ContextResolver:
    """Reads pages with the safe reader and looks documents up, all of it side by side."""

    def __init__(self, pages: PageService, documents: DocumentLookup) -> None:
        self._pages, self._documents = pages, documents

    async def collect(self, context: Sequence[ContextItem], filters: Filters, until: float) -> CollectedContext:
        """The pieces in the order of the context, as far as they are there at `until` (event loop time)."""
        collected = CollectedContext()
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
        self, items: Sequence[ContextItem], filters: Filters, until: float, collected: CollectedContext
    ) -> dict[str, LookedUpDocuments] | None:
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


def _pieces(
    items: Sequence[ContextItem], pages: _Pages, known: Mapping[str, LookedUpDocuments]
) -> Iterator[ContextPassage]:
    for item in items:
        there = known.get(item.doc_id or "")
        page = None if _words(item) else pages.get(item.url or "")
        if isinstance(page, Page):
            yield ContextPassage(page.text, document(item.doc_id, page.title, item.url))
        elif text := _text_of(item, known):
            title, url = (there.title, there.url or item.url) if there else (None, item.url)
            yield ContextPassage(text, document(item.doc_id, title, url))


def _words(item: ContextItem) -> str:
    return item.snippet if item.snippet and item.snippet.strip() else ""


def _text_of(item: ContextItem, known: Mapping[str, LookedUpDocuments]) -> str:
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


# Which documents an answer cites, and the answer with their numbers.


HOLDS: Final = ("supported", "partial")  # the verdicts with which a document counts as cited


@dataclass(frozen=True, slots=True)
class CitedDocuments:
    """`[n]` in the text is the n-th of the citations; `degraded` says how many statements their sources do not hold."""

    text: str
    citations: tuple[RagCitation, ...]
    degraded: tuple[Degraded, ...]


def cited_documents(written: WrittenAnswer, pieces: Sequence[ContextPassage]) -> CitedDocuments:
    """The documents that checked sentences cite, each once, in the order of the text.

    Pieces that belong to one document share its number. A marker whose document is not among them goes.
    """
    documents: dict[tuple[str, str], RagCitation] = {}
    for citation in sorted(written.checked.citations, key=lambda each: each.start):
        piece = pieces[citation.source_index - 1]
        if citation.verdict in HOLDS and piece.key is not None:
            documents.setdefault(piece.key, piece.document)
    places = {key: place for place, key in enumerate(documents, 1)}
    numbers = {number: places[piece.key] for number, piece in enumerate(pieces, 1) if piece.key in places}
    citations = tuple(documents.values())
    return CitedDocuments(_with_numbers(written, numbers, citations), citations, _unsupported(written))


def _with_numbers(written: WrittenAnswer, numbers: dict[int, int], citations: Sequence[RagCitation]) -> str:
    shown = written.checked.cited
    if all(numbers.get(number) == number for number in shown) and len(shown) == len(citations):
        return written.text
    # What a marker kept apart may come together when it goes, so the text is made safe anew.
    sources = [Source(index=place, title="", url=each.url or "", text="") for place, each in enumerate(citations, 1)]
    return sanitize(renumber_markers(written.text, numbers), sources)


def _unsupported(written: WrittenAnswer) -> tuple[Degraded, ...]:
    verdicts = [citation.verdict for citation in written.checked.citations]
    failed = sum(verdict not in HOLDS for verdict in verdicts)
    if not failed:
        return ()
    reason = f"unsupported: {failed} of {len(verdicts)} citations were not found in the documents that they name"
    return (Degraded(component=written.synthesis.synthesizer, reason=reason),)
