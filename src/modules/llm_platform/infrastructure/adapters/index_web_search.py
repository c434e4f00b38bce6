"""The indexed documents as a search provider: what the worker and `ask` find, for searches, researches and reports."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from modules.llm_platform.application.services.retrieval_service import MAX_TOP_K, RetrievalService
from modules.llm_platform.domain.canonical_url import is_openable
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.retrieval_dtos import Hit, RagSearch
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest, WebSearchResponse, WebSearchResultItem
from modules.llm_platform.domain.exceptions import (
    VectorStoreConfigError,
    VectorStoreError,
    WebSearchConfigError,
    WebSearchConnectionError,
)
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from modules.llm_platform.domain.redaction import Redactor
from modules.llm_platform.infrastructure.documents.addresses import DocumentAddresses
from modules.llm_platform.infrastructure.documents.lacking import lacking_of

MAX_SHOWN: Final = 10_000  # addresses whose documents we remember
ENOUGH: Final = f"only the best {MAX_TOP_K} documents are shown: ask for an earlier page"


class IndexWebSearch(IWebSearchProvider):
    """One hit for each document, at its best passage, which is quoted verbatim.

    A document whose address nobody can open gets `doc:<its id>`. `document_of` tells which document an address that was
    shown stands for, so that it can be read from the index rather than from the web. `otherwise` ends the words on what has to
    be set up: what one may do instead.
    """

    name = "documents"

    def __init__(
        self,
        retrieval: RetrievalService,
        base_url: str | None = None,
        redactor: Redactor | None = None,
        otherwise: str = "",
    ) -> None:
        self.retrieval = retrieval
        self._otherwise = otherwise
        self._own = DocumentAddresses(None, redactor)
        self._published = DocumentAddresses(base_url, redactor)
        self._shown: dict[str, str] = {}  # oldest first

    async def search(self, request: WebSearchRequest) -> WebSearchResponse:
        lacking = tuple(lacking_of(request, self.name))
        wanted = request.count * request.page
        with _translated(self._otherwise):
            found = await self.retrieval.search(RagSearch(query=request.query, top_k=min(wanted, MAX_TOP_K)))
        hits = found.hits[wanted - request.count : wanted]
        beyond = (Degraded(component=self.name, reason=ENOUGH),) if wanted > MAX_TOP_K and not hits else ()
        return WebSearchResponse(
            query=request.query,
            total_matches=len(found.hits) if len(found.hits) < min(wanted, MAX_TOP_K) else None,
            results=tuple(map(self._item, hits)),
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

    def _item(self, hit: Hit) -> WebSearchResultItem:
        url = hit.url if hit.url and is_openable(hit.url) else self._own.of(hit.doc_id)
        self._remember(url, hit.doc_id)
        return WebSearchResultItem(
            title=hit.title or hit.doc_id,
            url=url,
            snippet=hit.snippet or "",
            source=self.name,
            site_name=hit.source,
            score=hit.score,
        )

    def _remember(self, url: str, doc_id: str) -> None:
        self._shown.pop(url, None)
        self._shown[url] = doc_id
        if len(self._shown) > MAX_SHOWN:
            del self._shown[next(iter(self._shown))]


@contextmanager
def _translated(otherwise: str) -> Iterator[None]:
    """The same failure as a search provider tells it."""
    try:
        yield
    except VectorStoreConfigError as error:
        raise WebSearchConfigError(error.message + otherwise) from error
    except VectorStoreError as error:
        raise WebSearchConnectionError(error.message) from error
