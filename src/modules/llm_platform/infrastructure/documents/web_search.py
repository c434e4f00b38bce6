"""Documents as a search provider: an indexed collection, or a folder whose index follows its files."""

import asyncio
import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from modules.llm_platform.application.rag.retrieval import MAX_TOP_K, SCORE_DIGITS, RetrievalService
from modules.llm_platform.domain import exceptions
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.document_dtos import DocumentList, DocumentProblem, ListedDocument
from modules.llm_platform.domain.dtos.indexing_dtos import ORIGIN_FIELD
from modules.llm_platform.domain.dtos.retrieval_dtos import FoundPassage, IndexedDocument, Passage, RagSearch
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest, WebSearchResponse, WebSearchResultItem
from modules.llm_platform.domain.extractive.table_text import TABLE_MARK
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from modules.llm_platform.domain.privacy.redaction import Redactor
from modules.llm_platform.domain.retrieval.bm25 import make_passage_vector, make_question_vector
from modules.llm_platform.domain.retrieval.merge_passages import (
    MAX_SHORT_CHARS,
    MAX_WHOLE,
    MergedText,
    merge_passages,
    merge_short_document,
)
from modules.llm_platform.domain.retrieval.whole_table import join_whole_tables, needs_all_rows, wants_whole_table
from modules.llm_platform.domain.search.freshness import freshness_window
from modules.llm_platform.domain.text.counts import format_count
from modules.llm_platform.domain.urls.canonical_url import is_openable
from modules.llm_platform.infrastructure.documents.addresses import DocumentAddresses
from modules.llm_platform.infrastructure.documents.file_source import INDEXED
from modules.llm_platform.infrastructure.documents.folder_index import FolderIndex
from modules.llm_platform.infrastructure.documents.folder_state import FolderView
from modules.llm_platform.infrastructure.parsing.decoding import replace_unprintable
from shared.exceptions import AppException

MIN_PASSAGES: Final = 40  # passages looked at; more neighbours of the best passages blur extractive answers
REFRESH_TIMEOUT_S: Final = 90.0  # limit for reading a folder; reading continues, and the next search finds it read
PING_S: Final = 0.5  # health check of a folder that is being read
TITLES_S: Final = 1.0
LISTING_S: Final = 2.0
LISTED_TITLE_CHARS: Final = 200  # longest title in a list
BAD_FILES_NAMED: Final = 5  # files named in an error
DEGRADED_FILES_NAMED: Final = 20  # files named in an answer
MAX_SHOWN: Final = 10_000  # addresses whose documents are remembered
NOTHING_READABLE: Final = (
    "the documents folder contains nothing that can be read ({why}): put documents there, or name another folder. "
    f"File types: {', '.join(INDEXED)}"
)
ENOUGH: Final = f"only the best {MAX_TOP_K} documents are shown: request an earlier page"


def list_unsupported_parts(request: WebSearchRequest, name: str) -> Iterator[Degraded]:
    """Yield an entry for each part of a request that a search of documents ignores.

    Raises WebSearchRequestError for an unknown freshness.
    """
    if freshness_window(request) is not None:
        yield Degraded(component=name, reason="documents are not searched by date: freshness was left out")
    if request.engines:
        yield Degraded(component=name, reason="documents have no engines to choose from")
    if request.domains:
        yield Degraded(component=name, reason="documents belong to no site: domains were left out")
    for kind in ("news", "academic"):
        if kind in request.sources:
            yield Degraded(component=name, reason=f"documents were searched instead of {kind}")


def describe_bad_files(name: str, reasons: Mapping[str, str], redactor: Redactor) -> Iterator[Degraded]:
    """Yield the first bad files by place, and the number of others."""
    for position in sorted(reasons)[:DEGRADED_FILES_NAMED]:
        yield Degraded(component=f"{name}/{replace_unprintable(redactor.text(position))}", reason=reasons[position])
    if len(reasons) > DEGRADED_FILES_NAMED:
        yield Degraded(component=name, reason=f"and {format_count(len(reasons) - DEGRADED_FILES_NAMED, 'more file')}")


class DocumentWebSearch(IWebSearchProvider):
    """One result for each document: its best passage, quoted verbatim with adjoining passages that answer as well.

    A short document comes whole beside it (`document_text`), because the sentence that answers may have no word of the query.

    `degraded` names files of the folder that could not be read, and says if only keywords are searched yet. A search waits up
    to `timeout` seconds for the folder to be read. After that, reading continues in the background.

    A document without a web address gets `doc:<its id>`. `find_document_id` maps an address that was shown to its document, so
    that the document is read from the index and not from the web. `otherwise` is appended to configuration errors, and says
    what else the user can do.

    A vector search always finds something. With `needs_words`, meant for static vectors, a search finds nothing if no result
    has a significant word of the query, except tables if the query needs all rows. In a test, this rejected 12 of 15 questions
    on other topics, and none of 22 questions on the documents' topics.
    """

    name = "documents"

    def __init__(
        self,
        source: RetrievalService | FolderIndex,
        base_url: str | None = None,
        redactor: Redactor | None = None,
        otherwise: str = "",
        *,
        needs_words: bool = False,
        timeout: float = REFRESH_TIMEOUT_S,
    ) -> None:
        self._source = source
        self.folder = source if isinstance(source, FolderIndex) else None
        self._timeout = timeout
        self._otherwise = otherwise
        self._needs_words = needs_words
        self.redactor = redactor or Redactor()
        self._own = DocumentAddresses(None, redactor)
        self._published = DocumentAddresses(base_url, redactor)
        self._shown: dict[str, str] = {}  # oldest first
        self._listed: tuple[object, Sequence[IndexedDocument]] | None = None  # the last list, and what it depends on

    @property
    def retrieval(self) -> RetrievalService:
        return self._source.retrieval if isinstance(self._source, FolderIndex) else self._source

    async def search(self, request: WebSearchRequest) -> WebSearchResponse:
        view = await self.refresh()
        if view is None:
            return await self._search_folders(request)
        if not view.documents:
            bad = [f"{position}: {reason}" for position, reason in sorted(view.bad.items())]
            hidden = len(bad) - BAD_FILES_NAMED
            more = [f"and {format_count(hidden, 'more file')}"] if hidden > 0 else []
            why = "; ".join([*filter(None, [view.unread]), *bad[:BAD_FILES_NAMED], *more]) or "there are no files"
            raise exceptions.WebSearchConfigError(self.redactor.text(NOTHING_READABLE.format(why=why)))
        answer = await self._search_folders(request)
        problems = describe_bad_files(self.name, {**view.bad, **view.notes}, self.redactor)
        unread = (Degraded(component=self.name, reason=view.unread),) if view.unread else ()
        return answer.model_copy(update={"degraded": (*answer.degraded, *problems, *unread)})

    async def refresh(self) -> FolderView | None:
        """Return the folder as it is now, or None without one.

        Raises WebSearchTimeoutError while the folder is read, and other search errors.
        """
        if self.folder is None:
            return None
        try:
            async with asyncio.timeout(self._timeout):
                with _translate_errors(self._otherwise):
                    return await self.folder.refresh()
        except TimeoutError as error:
            raise exceptions.WebSearchTimeoutError(
                f"the documents are still being read ({self.folder.documents_read} so far): try again in a moment"
            ) from error

    async def _search_folders(self, request: WebSearchRequest) -> WebSearchResponse:
        ignored = tuple(list_unsupported_parts(request, self.name))
        last = request.count * request.page
        with _translate_errors(self._otherwise):
            filters = self.folder.filters if self.folder else {}
            query = RagSearch(query=request.query, top_k=min(last + 1, MAX_TOP_K), filters=filters)
            found = await self.retrieval.search_documents(query, MIN_PASSAGES)
        documents = found.documents
        if self._needs_words:
            words = set(make_question_vector(request.query).indices)
            texts = (f"{hit.passage.title}\n{hit.passage.text}" for hits in documents for hit in hits)
            if all(words.isdisjoint(make_passage_vector(text).indices) for text in texts):
                documents = _keep_tables(documents) if needs_all_rows(request.query) else []
        shown = documents[last - request.count : last]
        beyond = (Degraded(component=self.name, reason=ENOUGH),) if last > MAX_TOP_K and not shown else ()
        return WebSearchResponse(
            query=request.query,
            total_matches=len(documents) if len(documents) <= min(last, MAX_TOP_K - 1) else None,
            results=tuple([await self._make_item(hits, request.query, rank) for rank, hits in enumerate(shown)]),
            provider=self.name,
            degraded=(*ignored, *beyond, *found.degraded),
        )

    def find_document_id(self, url: str) -> str | None:
        """Return the id of the document at this address, or None if it is not a document's."""
        return self._shown.get(url) or self._published.find_path(url)

    async def document(self, doc_id: str) -> list[Passage]:
        """Return all passages of a document, from the folder if there is one."""
        return await (self.retrieval.load_document(doc_id) if self.folder is None else self.folder.document(doc_id))

    async def titles(self, limit: int) -> tuple[str, ...]:
        """Return titles of at most `limit` documents.

        There are none if they are not known within TITLES_S, such as while the folder is read.
        """
        with suppress(TimeoutError, AppException):
            async with asyncio.timeout(TITLES_S):
                if self.folder is None:
                    found = await self.retrieval.list_titles(limit)
                else:
                    view = await self.folder.refresh()
                    origins = self.folder.filters.get(ORIGIN_FIELD)
                    found = await self.retrieval.list_titles(limit, origins) if view.documents else []
            return tuple(self.redactor.text(title)[:LISTED_TITLE_CHARS] for title in found)
        return ()

    async def list_documents(self, limit: int) -> DocumentList:
        """Return at most `limit` documents and as many problems. Raises web search errors.

        If the folder is not read within LISTING_S, only `reading` says how far it is.
        """
        if self.folder is None:
            with _translate_errors(self._otherwise):
                found, total = await self.retrieval.list_documents(limit)
            return DocumentList(total=total, documents=self._list(found))
        try:
            async with asyncio.timeout(LISTING_S):
                with _translate_errors(self._otherwise):
                    view = await self.folder.refresh()
        except TimeoutError:
            return DocumentList(total=None, reading=self.folder.documents_read)
        return DocumentList(
            total=view.documents,
            documents=self._list(await self._list_first_documents(self.folder, view, limit)),
            not_read=len(view.bad),
            partly_read=len(view.notes),
            problems=tuple(itertools.islice(self._list_problems(view), limit)),
            unread=view.unread,
            keywords_only=view.pending,
        )

    async def _list_first_documents(
        self, folder: FolderIndex, view: FolderView, limit: int
    ) -> Sequence[IndexedDocument]:
        """Return the first documents of the folder. They are listed once in each state of the index."""
        key = (folder.state_stamp, limit)
        if self._listed is None or self._listed[0] != key:
            origins = folder.filters.get(ORIGIN_FIELD)
            with _translate_errors(self._otherwise):
                found = (await self.retrieval.list_documents(limit, origins))[0] if view.documents else []
            self._listed = key, found
        return self._listed[1]

    def _list(self, found: Sequence[IndexedDocument]) -> tuple[ListedDocument, ...]:
        return tuple(
            ListedDocument(
                title=self.redactor.text(document.title or document.doc_id)[:LISTED_TITLE_CHARS],
                url=document.url if document.url and is_openable(document.url) else self._own.of(document.doc_id),
            )
            for document in found
        )

    def _list_problems(self, view: FolderView) -> Iterator[DocumentProblem]:
        for reasons, is_partly_read in ((view.bad, False), (view.notes, True)):
            for path in sorted(reasons):
                shown = replace_unprintable(self.redactor.text(path))
                yield DocumentProblem(path=shown, reason=reasons[path], is_partly_read=is_partly_read)

    async def ping(self) -> str:
        """Return the collection, or the number of documents of a folder. Raises web search errors when there are none."""
        if self.folder is not None:
            return await self._ping_folder(self.folder)
        with _translate_errors(self._otherwise):
            collection_info = await self.retrieval.describe()
        return f"collection {collection_info.name}, by {collection_info.embedder}"

    async def _ping_folder(self, folder: FolderIndex) -> str:
        try:
            async with asyncio.timeout(PING_S):
                with _translate_errors(self._otherwise):
                    view = await folder.refresh()
        except TimeoutError:
            return f"{format_count(folder.documents_read, 'document')} so far, still reading"
        return format_count(view.documents, "document")

    async def aclose(self) -> None:
        if self.folder is not None:
            await self.folder.aclose()

    def get_address(self, passage: Passage) -> str:
        """Return the address of a passage's document: its own if that is a web address."""
        return passage.url if passage.url and is_openable(passage.url) else self._own.of(passage.doc_id)

    async def _make_item(self, found: Sequence[FoundPassage], query: str, rank: int) -> WebSearchResultItem:
        best = found[0].passage
        url = self.get_address(best)
        self._shown.pop(url, None)  # An address that is shown again becomes the newest one.
        self._shown[url] = best.doc_id
        if len(self._shown) > MAX_SHOWN:
            del self._shown[next(iter(self._shown))]
        tables = await self._read_tables(found, query)
        merged = tables or merge_passages(found, query)
        snippet = self.redactor.text(merged.text)
        whole = await self._read_short_document(found) if tables is None and rank < MAX_WHOLE else None
        document = self.redactor.text(whole.text) if whole else None
        return WebSearchResultItem(
            title=self.redactor.text(best.title or best.doc_id),
            url=url,
            snippet=snippet,
            pages=merged.pages if snippet == merged.text else (),
            is_whole=tables is not None or document == snippet,
            document_text=document,
            document_pages=whole.pages if whole and document == whole.text else (),
            source=self.name,
            site_name=best.source,
            score=round(min(1.0, max(0.0, found[0].score)), SCORE_DIGITS),
        )

    async def _read_tables(self, found: Sequence[FoundPassage], query: str) -> MergedText | None:
        """Return the tables of a document with all of their rows, for a question that compares or counts them; else None."""
        if not wants_whole_table(query, (hit.passage.text for hit in found)):
            return None
        with _translate_errors(self._otherwise):
            passages = await self.document(found[0].passage.doc_id)
        return join_whole_tables(passages, merge_passages(found, query).text)

    async def _read_short_document(self, found: Sequence[FoundPassage]) -> MergedText | None:
        """Return the whole text of a short document; None for a longer one, mostly without reading it."""
        if any(hit.passage.start + len(hit.passage.text) > MAX_SHORT_CHARS for hit in found):
            return None
        with _translate_errors(self._otherwise):
            return merge_short_document(await self.document(found[0].passage.doc_id))


def _keep_tables(documents: Sequence[list[FoundPassage]]) -> list[list[FoundPassage]]:
    """Return the documents with a table among the found passages."""
    return [hits for hits in documents if any(TABLE_MARK in hit.passage.text for hit in hits)]


@contextmanager
def _translate_errors(otherwise: str) -> Iterator[None]:
    """Turn errors of store and embedder inside the block into errors of a search provider."""
    try:
        yield
    except (exceptions.VectorStoreConfigError, exceptions.EmbeddingConfigError) as error:
        raise exceptions.WebSearchConfigError(error.message + otherwise) from error
    except (exceptions.VectorStoreError, exceptions.EmbeddingError) as error:
        raise exceptions.WebSearchConnectionError(error.message) from error
