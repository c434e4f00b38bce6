"""The indexed documents as a search provider: what the worker and `ask` find, for searches, researches and reports."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from modules.llm_platform.application.services.retrieval_service import MAX_TOP_K, SCORE_DIGITS, RetrievalService
from modules.llm_platform.domain.bm25 import passage_words, question_words
from modules.llm_platform.domain.canonical_url import is_openable
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.retrieval_dtos import FoundPassage, Passage, RagSearch
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest, WebSearchResponse, WebSearchResultItem
from modules.llm_platform.domain.exceptions import (
    VectorStoreConfigError,
    VectorStoreError,
    WebSearchConfigError,
    WebSearchConnectionError,
)
from modules.llm_platform.domain.joined_passages import joined
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from modules.llm_platform.domain.redaction import Redactor
from modules.llm_platform.infrastructure.documents.addresses import DocumentAddresses
from modules.llm_platform.infrastructure.documents.lacking import lacking_of

MIN_PASSAGES: Final = 40  # that are looked at: more neighbours of the best ones blur the answers of the extractive writer
MAX_SHOWN: Final = 10_000  # addresses whose documents we remember
ENOUGH: Final = f"only the best {MAX_TOP_K} documents are shown: ask for an earlier page"


class IndexWebSearch(IWebSearchProvider):
    """One hit for each document, at its best passage, which is quoted verbatim with what adjoins it and answers too.

    A document whose address nobody can open gets `doc:<its id>`. `document_of` tells which document an address that was
    shown stands for, so that it can be read from the index rather than from the web. `otherwise` ends the words on what has to
    be set up: what one may do instead. `retrieval` may be a function, where it is made late or anew.

    Something is always nearest in meaning. With `needs_words`, for static vectors, a search finds nothing where no telling word
    of its query stands in anything near: of 15 questions about other things 12 find nothing then, of 22 about what the
    documents say, 8 of them in words of their own, none.
    """

    name = "documents"

    def __init__(
        self,
        retrieval: RetrievalService | Callable[[], RetrievalService],
        base_url: str | None = None,
        redactor: Redactor | None = None,
        otherwise: str = "",
        *,
        needs_words: bool = False,
    ) -> None:
        self._retrieval = retrieval
        self._otherwise = otherwise
        self._needs_words = needs_words
        self.redactor = redactor or Redactor()
        self._own = DocumentAddresses(None, redactor)
        self._published = DocumentAddresses(base_url, redactor)
        self._shown: dict[str, str] = {}  # oldest first

    @property
    def retrieval(self) -> RetrievalService:
        return self._retrieval if isinstance(self._retrieval, RetrievalService) else self._retrieval()

    async def search(self, request: WebSearchRequest) -> WebSearchResponse:
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
        """Which collection is searched. Raises web search errors when there is none."""
        with _translated(self._otherwise):
            facts = await self.retrieval.describe()
        return f"collection {facts.name}, by {facts.embedder}"

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
            snippet=self.redactor.text(joined(found)),
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


@contextmanager
def _translated(otherwise: str) -> Iterator[None]:
    """The same failure as a search provider tells it."""
    try:
        yield
    except VectorStoreConfigError as error:
        raise WebSearchConfigError(error.message + otherwise) from error
    except VectorStoreError as error:
        raise WebSearchConnectionError(error.message) from error
