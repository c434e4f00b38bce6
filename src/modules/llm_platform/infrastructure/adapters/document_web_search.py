"""Documents as a search provider: a collection that was indexed, or a folder that is kept in step with its files."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from modules.llm_platform.application.services.retrieval_service import MAX_TOP_K, SCORE_DIGITS, RetrievalService
from modules.llm_platform.domain.bm25 import passage_words, question_words
from modules.llm_platform.domain.canonical_url import is_openable
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.retrieval_dtos import FoundPassage, Passage, RagSearch
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest, WebSearchResponse, WebSearchResultItem
from modules.llm_platform.domain.exceptions import (
    EmbeddingConfigError,
    EmbeddingError,
    VectorStoreConfigError,
    VectorStoreError,
    WebSearchConfigError,
    WebSearchConnectionError,
    WebSearchTimeoutError,
)
from modules.llm_platform.domain.freshness import freshness_window
from modules.llm_platform.domain.merge_passages import merge_passages
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from modules.llm_platform.domain.redaction import Redactor
from modules.llm_platform.infrastructure.documents.addresses import DocumentAddresses
from modules.llm_platform.infrastructure.documents.file_source import INDEXED
from modules.llm_platform.infrastructure.documents.folder_index import FolderIndex
from modules.llm_platform.infrastructure.documents.folder_state import FolderView

# What documents of one's own cannot do of a search request.


def lacking_of(request: WebSearchRequest, name: str) -> Iterator[Degraded]:
    """A word about each thing that is left out. Raises WebSearchRequestError for a freshness that nobody knows."""
    if freshness_window(request) is not None:
        yield Degraded(component=name, reason="documents are not searched by date: freshness was left out")
    if request.engines:
        yield Degraded(component=name, reason="documents have no engines to choose from")
    if request.domains:
        yield Degraded(component=name, reason="documents belong to no site: domains were left out")
    for kind in ("news", "academic"):
        if kind in request.sources:
            yield Degraded(component=name, reason=f"documents were searched instead of {kind}")


# What an answer says about a folder's bad files.


WORDS_SHOWN: Final = 20  # files left out that an answer names one by one


def words_about(name: str, words: Mapping[str, str], redactor: Redactor) -> Iterator[Degraded]:
    """A word about each of the first ones, by place, and how many more there are."""
    for place in sorted(words)[:WORDS_SHOWN]:
        shown = "".join(letter if letter.isprintable() else "\ufffd" for letter in redactor.text(place))
        yield Degraded(component=f"{name}/{shown}", reason=words[place])
    if len(words) > WORDS_SHOWN:
        yield Degraded(component=name, reason=f"and {len(words) - WORDS_SHOWN} more files")


MIN_PASSAGES: Final = (
    40  # that are looked at: more neighbours of the best ones blur the answers of the extractive writer
)
FIRST_LOOK_S: Final = 90.0  # for a folder to be read; reading goes on, and the next search finds it read
PING_S: Final = 0.5  # a health check waits no longer for a folder that is being read
NOTHING_READABLE: Final = "the documents folder holds nothing that can be read"
BAD_FILES_NAMED: Final = 5
MAX_SHOWN: Final = 10_000  # addresses whose documents we remember
ENOUGH: Final = f"only the best {MAX_TOP_K} documents are shown: ask for an earlier page"


class DocumentWebSearch(IWebSearchProvider):
    """One hit for each document, at its best passage, which is quoted verbatim with what adjoins it and answers too.

    Of a folder, files that could not be read are named in `degraded`, and so is that only words find it yet. A search waits
    up to `timeout` seconds for the folder to be read; reading goes on after that.

    A document whose address nobody can open gets `doc:<its id>`. `document_of` tells which document an address that was
    shown stands for, so that it can be read from the index rather than from the web. `otherwise` ends the words on what has to
    be set up: what one may do instead.

    Something is always nearest in meaning. With `needs_words`, for static vectors, a search finds nothing where no telling word
    of its query stands in anything near: of 15 questions about other things 12 find nothing then, of 22 about what the
    documents say, 8 of them in words of their own, none.
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
        timeout: float = FIRST_LOOK_S,
    ) -> None:
        self._source = source
        self.folder = source if isinstance(source, FolderIndex) else None
        self._timeout = timeout
        self._otherwise = otherwise
        self._needs_words = needs_words or self.folder is not None  # whose vectors are static
        self.redactor = redactor or Redactor()
        self._own = DocumentAddresses(None, redactor)
        self._published = DocumentAddresses(base_url, redactor)
        self._shown: dict[str, str] = {}  # oldest first

    @property
    def retrieval(self) -> RetrievalService:
        return self._source.retrieval if isinstance(self._source, FolderIndex) else self._source

    async def search(self, request: WebSearchRequest) -> WebSearchResponse:
        view = await self.in_step()
        if view is None:
            return await self._found(request)
        if not view.documents:
            raise WebSearchConfigError(self.redactor.text(_nothing_readable(view)))
        answer = await self._found(request)
        words = words_about(self.name, {**view.bad, **view.notes}, self.redactor)
        unread = (Degraded(component=self.name, reason=view.unread),) if view.unread else ()
        return answer.model_copy(update={"degraded": (*answer.degraded, *words, *unread)})

    async def in_step(self) -> FolderView | None:
        """The folder as it is now; None without one. Raises web search errors: WebSearchTimeoutError while it is read."""
        if self.folder is None:
            return None
        try:
            async with asyncio.timeout(self._timeout):
                with _translated(self._otherwise):
                    return await self.folder.in_step()
        except TimeoutError as error:
            raise WebSearchTimeoutError(
                f"the documents are still being read ({self.folder.so_far} so far): try again in a moment"
            ) from error

    async def _found(self, request: WebSearchRequest) -> WebSearchResponse:
        lacking = tuple(lacking_of(request, self.name))
        wanted = request.count * request.page
        with _translated(self._otherwise):
            asked = RagSearch(query=request.query, top_k=min(wanted + 1, MAX_TOP_K))
            found = await self.retrieval.documents(asked, MIN_PASSAGES)
        documents = found.documents
        if self._needs_words and not _shares_a_word(request.query, documents):
            documents = []
        shown = documents[wanted - request.count : wanted]
        beyond = (Degraded(component=self.name, reason=ENOUGH),) if wanted > MAX_TOP_K and not shown else ()
        return WebSearchResponse(
            query=request.query,
            total_matches=len(documents) if len(documents) <= min(wanted, MAX_TOP_K - 1) else None,
            results=tuple(map(self._item, shown)),
            provider=self.name,
            degraded=(*lacking, *beyond, *found.degraded),
        )

    def document_of(self, url: str) -> str | None:
        """The id of the document that this address stands for; None where it is no document's."""
        return self._shown.get(url) or self._published.path_in(url)

    async def ping(self) -> str:
        """Which collection is searched, or how many documents of a folder. Raises web search errors when there are none."""
        if self.folder is not None:
            return await self._ping_folder(self.folder)
        with _translated(self._otherwise):
            facts = await self.retrieval.describe()
        return f"collection {facts.name}, by {facts.embedder}"

    async def _ping_folder(self, folder: FolderIndex) -> str:
        try:
            async with asyncio.timeout(PING_S):
                with _translated(self._otherwise):
                    view = await folder.in_step()
        except TimeoutError:
            return f"{folder.so_far} documents so far, still reading"
        return f"{view.documents} documents"

    async def aclose(self) -> None:
        """Stop reading."""
        if self.folder is not None:
            await self.folder.aclose()

    def address_of(self, passage: Passage) -> str:
        """The address of a passage's document: its own where that can be opened."""
        return passage.url if passage.url and is_openable(passage.url) else self._own.of(passage.doc_id)

    def _item(self, found: Sequence[FoundPassage]) -> WebSearchResultItem:
        best = found[0].passage
        url = self.address_of(best)
        self._remember(url, best.doc_id)
        return WebSearchResultItem(
            title=self.redactor.text(best.title or best.doc_id),
            url=url,
            snippet=self.redactor.text(merge_passages(found)),
            source=self.name,
            site_name=best.source,
            score=round(min(1.0, max(0.0, found[0].score)), SCORE_DIGITS),
        )

    def _remember(self, url: str, doc_id: str) -> None:
        self._shown.pop(url, None)
        self._shown[url] = doc_id
        if len(self._shown) > MAX_SHOWN:
            del self._shown[next(iter(self._shown))]


def _shares_a_word(query: str, documents: Iterable[Iterable[FoundPassage]]) -> bool:
    """Whether any telling word of the question stands in anything that was found."""
    asked = set(question_words(query).indices)
    passages = (each.passage for found in documents for each in found)
    return any(not asked.isdisjoint(passage_words(f"{each.title}\n{each.text}").indices) for each in passages)


def _nothing_readable(view: FolderView) -> str:
    """Why there is nothing to search, and what to do about it."""
    bad = [f"{place}: {word}" for place, word in sorted(view.bad.items())]
    more = [f"and {len(bad) - BAD_FILES_NAMED} more files"] if len(bad) > BAD_FILES_NAMED else []
    why = "; ".join([*filter(None, [view.unread]), *bad[:BAD_FILES_NAMED], *more]) or "there are no files"
    return f"{NOTHING_READABLE} ({why}): put documents there, or name another folder. Read are {', '.join(INDEXED)}"


@contextmanager
def _translated(otherwise: str) -> Iterator[None]:
    """The same failure as a search provider tells it."""
    try:
        yield
    except (VectorStoreConfigError, EmbeddingConfigError) as error:
        raise WebSearchConfigError(error.message + otherwise) from error
    except (VectorStoreError, EmbeddingError) as error:
        raise WebSearchConnectionError(error.message) from error
