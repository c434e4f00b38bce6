"""The context and the citations of an answer: snippets, read pages and indexed documents in, cited documents out."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from modules.llm_platform.application.research.write.writing import WrittenAnswer
from modules.llm_platform.domain.concurrency.deadline import deadline_at
from modules.llm_platform.domain.dtos.citation_dtos import SUPPORTING_VERDICTS
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.dtos.retrieval_dtos import ContextItem, Filters, Passage, RagCitation
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.exceptions import PageTimeoutError, VectorStoreError
from modules.llm_platform.domain.markdown.markers import render_markers, renumber_markers
from modules.llm_platform.domain.markdown.sanitizer import sanitize
from modules.llm_platform.domain.ports.page_reader import IPageReader
from modules.llm_platform.domain.ports.tracing import stage
from modules.llm_platform.domain.ports.vector_store import IVectorStore
from modules.llm_platform.domain.retrieval.merge_passages import (
    MAX_WHOLE,
    MergedText,
    merge_document_text,
    merge_short_document,
)
from modules.llm_platform.domain.retrieval.whole_table import join_whole_tables, wants_whole_table
from modules.llm_platform.domain.text.counts import format_count
from modules.llm_platform.domain.text.page_starts import PageStarts
from modules.llm_platform.domain.urls.canonical_url import canonical_url, get_host, is_openable
from shared.exceptions import AppException

MAX_TITLE_CHARS: Final = 300
MAX_TEXT_CHARS: Final = 100_000  # text of one document that is given by its id alone
MAX_CONCURRENT_LOOKUPS: Final = 8
MAX_PASSAGES: Final = 100  # passages in the context of one answer
MAX_PAGES: Final = 10
MAX_CONCURRENT_READS: Final = 5
CONTEXT: Final = "context"  # component of `degraded`
INDEX: Final = "index"  # component of `degraded`

TOO_MANY_PASSAGES: Final = f"too_many: only the first {MAX_PASSAGES} context items are used"
TOO_MANY_PAGES: Final = f"too_many: only the first {MAX_PAGES} addresses are read"
NOT_INDEXED: Final = "not_found: a document given by its id only is not in the index"
PAGE_LATE: Final = "The page was not read before the deadline of the answer: try again"
INDEX_LATE: Final = "The index did not answer before the deadline: try again"

Item = TypeVar("Item")
Result = TypeVar("Result")
_Pages = Mapping[str, Page | AppException]


@dataclass(frozen=True, slots=True)
class ContextPassage:
    """A text, and its document as an answer cites it; a document without id, URL and title is not cited.

    - `pages` says where the pages of the document begin in the text.
    - `is_whole` is True if the text is a whole document, or a table with all of its rows, so that they can be compared and
      counted.
    - `excerpt` is the part of a whole document that the search found; None if `text` is all that it found.
    """

    text: str
    document: RagCitation
    pages: PageStarts = ()
    is_whole: bool = False
    excerpt: str | None = None

    @property
    def key(self) -> tuple[str, str] | None:
        """Equal for passages of one document; None if the document is unknown."""
        document = self.document
        if document.doc_id:
            return "id", document.doc_id
        if document.url:
            return "url", canonical_url(document.url)
        return ("title", document.title) if document.title else None


@dataclass(slots=True)
class CollectedContext:
    """The passages collected so far, and what failed."""

    passages: list[ContextPassage] = field(default_factory=list)
    degraded: list[Degraded] = field(default_factory=list)
    errors: list[AppException] = field(default_factory=list)

    def add_error(self, component: str, error: AppException) -> None:
        self.degraded.append(Degraded.of(component, error))
        self.errors.append(error)


def make_document_citation(doc_id: str | None, title: str | None, url: str | None) -> RagCitation:
    """Return the document as it is cited: title on one line, only a URL that can be opened, None for empty fields."""
    line = " ".join((title or "").split())[:MAX_TITLE_CHARS]
    return RagCitation(doc_id=doc_id or None, title=line or None, url=url if url and is_openable(url) else None)


def number_passages(passages: Sequence[ContextPassage]) -> tuple[Source, ...]:
    """Return the passages as sources, numbered from 1."""
    return tuple(
        Source(
            index=number,
            title=passage.document.title or "",
            url=passage.document.url or "",
            text=passage.text,
            text_kind="document",
            pages=passage.pages,
            is_whole=passage.is_whole,
            excerpt=passage.excerpt,
        )
        for number, passage in enumerate(passages, 1)
    )


# --- documents of the index -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LookupResult:
    """A document of the index, with its text and where its pages begin if the text was requested."""

    title: str
    url: str | None
    text: str = ""
    pages: PageStarts = ()


class DocumentLookup:
    """Finds the documents of one collection by id."""

    def __init__(self, store: IVectorStore, collection: str) -> None:
        self._store, self._collection = store, collection

    async def find(
        self, doc_ids: Collection[str], with_text: Collection[str], filters: Filters
    ) -> dict[str, LookupResult]:
        """Return the indexed documents that pass the filters; those in `with_text` with their text.

        A document that the filters exclude is absent: neither its title nor its text is returned. Raises the errors of the
        store.
        """
        read_ids = list(doc_ids) if any(filters.values()) else [doc_id for doc_id in doc_ids if doc_id in with_text]
        other_ids = [doc_id for doc_id in doc_ids if doc_id not in read_ids]
        indexed = await self._store.lookup(self._collection, other_ids) if other_ids else {}
        found = {doc_id: LookupResult(document.title, document.url) for doc_id, document in indexed.items()}
        passages_of = await _map_concurrently(self._find_passages, read_ids, MAX_CONCURRENT_LOOKUPS)
        for doc_id, passages in passages_of.items():
            if passages and _matches_filters(passages[0], filters):
                merged = merge_document_text(passages, MAX_TEXT_CHARS) if doc_id in with_text else MergedText("")
                found[doc_id] = LookupResult(passages[0].title, passages[0].url, merged.text, merged.pages)
        return found

    async def find_tables(self, doc_id: str, found: str) -> MergedText | None:
        """Return the tables of a document with all of their rows; None without a table. Raises the errors of the store.

        `found` is the part of the document's text that a search found.
        """
        return join_whole_tables(await self._find_passages(doc_id), found)

    async def find_short(self, doc_id: str) -> MergedText | None:
        """Return the whole text of a short document; None for a longer one. Raises the errors of the store."""
        return merge_short_document(await self._find_passages(doc_id))

    async def _find_passages(self, doc_id: str) -> list[Passage]:
        return await self._store.passages(self._collection, doc_id)


def _matches_filters(passage: Passage, filters: Filters) -> bool:
    return all(not set(values).isdisjoint(passage.fields.get(key, ())) for key, values in filters.items() if values)


# --- the context of a question --------------------------------------------------------------------------------------------


class ContextResolver:
    """Resolves the context of a question: snippets as they are, pages read, documents looked up, all concurrently."""

    def __init__(self, pages: IPageReader, documents: DocumentLookup) -> None:
        self._pages, self._documents = pages, documents

    @stage("read")
    async def collect(self, context: Sequence[ContextItem], filters: Filters, until: float) -> CollectedContext:
        """Return the passages that are available at `until` (event loop time), in the order of the context."""
        collected = CollectedContext()
        items = [item for item in context if _get_snippet(item) or item.url or item.doc_id]
        if len(items) > MAX_PASSAGES:
            collected.degraded.append(Degraded(component=CONTEXT, reason=TOO_MANY_PASSAGES))
            items = items[:MAX_PASSAGES]
        urls = list(dict.fromkeys(item.url for item in items if item.url and not _get_snippet(item)))
        if len(urls) > MAX_PAGES:
            collected.degraded.append(Degraded(component=CONTEXT, reason=TOO_MANY_PAGES))

        async def read(url: str) -> Page | AppException:
            return await self._read(url, until)

        pages, documents = await asyncio.gather(
            _map_concurrently(read, urls[:MAX_PAGES], MAX_CONCURRENT_READS),
            self._look_up(items, filters, until, collected),
        )
        for url, page in pages.items():
            if isinstance(page, AppException):
                collected.add_error(f"read/{get_host(url) or CONTEXT}", page)
        collected.passages += _make_passages(items, pages, documents or {})
        if documents is not None and any(_is_id_only(item) and not _choose_text(item, documents) for item in items):
            collected.degraded.append(Degraded(component=CONTEXT, reason=NOT_INDEXED))
        return collected

    async def complete(self, passages: Sequence[ContextPassage], question: str) -> tuple[ContextPassage, ...]:
        """Return the passages that a search found, with more of their documents.

        - A passage of a table has all rows of the table if the question compares or counts rows.
        - The first MAX_WHOLE passages have the whole text of their documents if these are short.

        Raises the errors of the store.
        """

        async def complete_passage(ranked: tuple[int, ContextPassage]) -> ContextPassage:
            rank, passage = ranked
            doc_id = passage.document.doc_id
            if doc_id and wants_whole_table(question, [passage.text]):
                tables = await self._documents.find_tables(doc_id, passage.text)
                if tables is not None:
                    return replace(passage, text=tables.text, pages=tables.pages, is_whole=True)
            short = await self._documents.find_short(doc_id) if doc_id and rank < MAX_WHOLE else None
            if short is None:
                return passage
            return replace(passage, text=short.text, pages=short.pages, is_whole=True, excerpt=passage.text)

        completed = await _map_concurrently(complete_passage, list(enumerate(passages)), MAX_CONCURRENT_LOOKUPS)
        return tuple(completed.values())

    async def _read(self, url: str, until: float) -> Page | AppException:
        try:
            async with deadline_at(until):
                return await self._pages.read(url)
        except TimeoutError:
            return PageTimeoutError(PAGE_LATE)
        except AppException as error:
            return error

    async def _look_up(
        self, items: Sequence[ContextItem], filters: Filters, until: float, collected: CollectedContext
    ) -> dict[str, LookupResult] | None:
        """Return the indexed documents of the items; None if the lookup fails."""
        doc_ids = dict.fromkeys(item.doc_id for item in items if item.doc_id)
        if not doc_ids:
            return {}
        with_text = {item.doc_id for item in items if item.doc_id and _is_id_only(item)}
        try:
            async with deadline_at(until):
                return await self._documents.find(doc_ids, with_text, filters)
        except TimeoutError:
            collected.add_error(INDEX, VectorStoreError(INDEX_LATE))
        except AppException as error:
            collected.add_error(INDEX, error)
        return None


async def _map_concurrently(
    call: Callable[[Item], Awaitable[Result]], items: Sequence[Item], limit: int
) -> dict[Item, Result]:
    """Return the results by item, at most `limit` calls at a time."""
    slots = asyncio.Semaphore(limit)

    async def one(item: Item) -> Result:
        async with slots:
            return await call(item)

    return dict(zip(items, await asyncio.gather(*map(one, items)), strict=True))


def _make_passages(
    items: Sequence[ContextItem], pages: _Pages, documents: Mapping[str, LookupResult]
) -> Iterator[ContextPassage]:
    for item in items:
        page = None if _get_snippet(item) else pages.get(item.url or "")
        if isinstance(page, Page):
            yield ContextPassage(page.text, make_document_citation(item.doc_id, page.title, item.url), page.pages)
        elif text := _choose_text(item, documents):
            document = documents.get(item.doc_id or "")
            title, url = (document.title, document.url or item.url) if document else (None, item.url)
            page_starts = document.pages if document else ()
            yield ContextPassage(text, make_document_citation(item.doc_id, title, url), page_starts)


def _get_snippet(item: ContextItem) -> str:
    return item.snippet if item.snippet and item.snippet.strip() else ""


def _choose_text(item: ContextItem, documents: Mapping[str, LookupResult]) -> str:
    """Return the snippet, or the indexed text of a document given by its id only."""
    if not _is_id_only(item):
        return _get_snippet(item)
    document = documents.get(item.doc_id or "")
    return document.text if document else ""


def _is_id_only(item: ContextItem) -> bool:
    return bool(item.doc_id) and not item.url and not _get_snippet(item)


# --- the cited documents --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CitedDocuments:
    """`[n]` in the text is the n-th of the citations; `degraded` counts the unsupported citations."""

    text: str
    citations: tuple[RagCitation, ...]
    degraded: tuple[Degraded, ...]


def cite_documents(
    answer: WrittenAnswer, passages: Sequence[ContextPassage], *, cites_closest: bool = False
) -> CitedDocuments:
    """Return the documents with supported citations, each once, in the order of the text.

    With `cites_closest`, the documents of the closest passages below a refusal follow. Passages of one document share its
    number. A marker of a document that is not cited is removed.
    """
    documents: dict[tuple[str, str], RagCitation] = {}
    for citation in sorted(answer.checked.citations, key=lambda citation: citation.start):
        passage = passages[citation.source_index - 1]
        if citation.verdict in SUPPORTING_VERDICTS and passage.key is not None:
            documents.setdefault(passage.key, passage.document.model_copy(update={"page": citation.page}))
    if cites_closest and not answer.synthesis.answered:
        for number in _list_closest(answer):
            passage = passages[number - 1]
            if passage.key is not None:
                documents.setdefault(passage.key, passage.document)
    positions = {key: position for position, key in enumerate(documents, 1)}
    numbers = {number: positions[passage.key] for number, passage in enumerate(passages, 1) if passage.key in positions}
    citations = tuple(documents.values())
    return CitedDocuments(_renumber_markers(answer, numbers, citations), citations, _report_unsupported(answer))


def _list_closest(answer: WrittenAnswer) -> Iterator[int]:
    """Yield the numbers of the sources that only the closest passages cite, in the order of the text."""
    checked = {citation.source_index for citation in answer.checked.citations}
    for _, _, number in render_markers(answer.text):
        if number in answer.checked.cited and number not in checked:
            yield number


def _renumber_markers(answer: WrittenAnswer, numbers: dict[int, int], citations: Sequence[RagCitation]) -> str:
    cited = answer.checked.cited
    if all(numbers.get(number) == number for number in cited) and len(cited) == len(citations):
        return answer.text
    # Removing a marker joins the text around it, so the result is sanitised again.
    sources = [
        Source(index=position, title="", url=citation.url or "", text="")
        for position, citation in enumerate(citations, 1)
    ]
    return sanitize(renumber_markers(answer.text, numbers), sources)


def _report_unsupported(answer: WrittenAnswer) -> tuple[Degraded, ...]:
    verdicts = [citation.verdict for citation in answer.checked.citations]
    failed = sum(verdict not in SUPPORTING_VERDICTS for verdict in verdicts)
    if not failed:
        return ()
    verb = "was not found in its document" if failed == 1 else "were not found in their documents"
    reason = f"unsupported: {failed} of {format_count(len(verdicts), 'citation')} {verb}"
    return (Degraded(component=answer.synthesis.synthesizer, reason=reason),)
