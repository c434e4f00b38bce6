"""Search of the indexed documents, for the worker, `ask` and the search provider `documents`."""

from __future__ import annotations

import heapq
import logging
import time
from collections.abc import Callable, Container, Iterable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from modules.llm_platform.domain.concurrency.deadline import deadline_in
from modules.llm_platform.domain.dtos import retrieval_dtos as dtos
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.exceptions import EmbeddingConfigError, EmbeddingError, VectorStoreConfigError
from modules.llm_platform.domain.ports.embedder import IEmbedder
from modules.llm_platform.domain.ports.tracing import stage
from modules.llm_platform.domain.ports.vector_store import IVectorStore
from modules.llm_platform.domain.text.tokens import cut_to_tokens
from modules.llm_platform.domain.urls.canonical_url import is_openable

log = logging.getLogger(__name__)

MAX_TOP_K: Final = 100
MAX_QUERY_TOKENS: Final = 8000  # more words do not improve a search
PASSAGES_PER_DOCUMENT: Final = 4  # one document often has several of the best passages
MORE_PASSAGES_FACTOR: Final = 5  # the next search asks for more if the passages come from too few documents
MAX_PASSAGES: Final = 2000
MAX_TITLED: Final = 1000  # documents that are looked at for titles
MAX_LISTED_FROM: Final = 50_000  # documents that are looked at for a list
EMBEDDING_TIMEOUT_S: Final = 15.0  # the embedding of a question; when it is late, only keywords are searched
COLLECTION_TTL_S: Final = 30.0  # lifetime of the cached embedder of the collection
SCORE_DIGITS: Final = 4
NO_VECTOR: Final = f"the embedder gave no vector within {EMBEDDING_TIMEOUT_S:g} s: try again"
EMBEDDER_LATE: Final = f"no vector within {EMBEDDING_TIMEOUT_S:g} s: keyword search only"


@dataclass(frozen=True, slots=True)
class FoundPassages:
    """Passages, best first; several may belong to one document."""

    passages: list[dtos.FoundPassage]
    query_cut: bool = False
    degraded: tuple[Degraded, ...] = ()


@dataclass(frozen=True, slots=True)
class FoundDocuments:
    """Documents, best first, each with its found passages (at least one), best first."""

    documents: list[list[dtos.FoundPassage]]
    query_cut: bool = False
    degraded: tuple[Degraded, ...] = ()


class RetrievalService:
    """Hybrid search (vectors and keywords) in one collection.

    Only keywords are searched if the embedder makes no vectors, or if it fails and the request allows the keyword fallback.
    Raises VectorStoreError, VectorStoreConfigError and, without the keyword fallback, EmbeddingError and EmbeddingConfigError.
    """

    def __init__(
        self,
        embedder: IEmbedder,
        store: IVectorStore,
        collection: str,
        *,
        top_k: int,
        embedding_timeout_s: float = EMBEDDING_TIMEOUT_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._embedder = embedder
        self._store = store
        self.collection = collection
        self._top_k = top_k
        self._embedding_timeout_s = embedding_timeout_s
        self._clock = clock
        self._indexed_with: tuple[float, str] | None = None  # expiry, and the embedder of the collection

    async def search(self, request: dtos.RagSearch) -> dtos.RagHits:
        """Return one hit per document, with its best passage; at most `top_k` and MAX_TOP_K hits."""
        found = await self.search_documents(request)
        hits = tuple(_make_hit(best.passage, best.score) for best, *_ in found.documents)
        return dtos.RagHits(hits=hits, query_cut=found.query_cut, degraded=found.degraded)

    async def search_documents(self, request: dtos.RagSearch, min_passages: int = 0) -> FoundDocuments:
        """Search as `search` does, and return all found passages of each document.

        The store is asked for at least `min_passages` passages. If a caller always gives the same number, a higher `top_k`
        does not change the order of the first documents.
        """
        top_k = min(request.top_k or self._top_k, MAX_TOP_K)
        began = self._clock()
        query = await self._embed_query(request)
        limit = max(top_k * PASSAGES_PER_DOCUMENT, min_passages)
        while True:
            found = await self._search_store(query, request, limit)
            documents = _group_by_document(found)
            if len(documents) >= top_k or len(found) < limit or limit >= MAX_PASSAGES:
                break
            limit = min(limit * MORE_PASSAGES_FACTOR, MAX_PASSAGES)  # the best passages come from too few documents
        self._log(began, query, len(documents[:top_k]))
        return FoundDocuments(documents[:top_k], query.cut, query.degraded)

    async def search_passages(self, request: dtos.RagSearch) -> FoundPassages:
        """Return the best `top_k` passages, whichever documents they come from."""
        began = self._clock()
        query = await self._embed_query(request)
        found = await self._search_store(query, request, min(request.top_k or self._top_k, MAX_TOP_K))
        self._log(began, query, len(found))
        return FoundPassages(found, query.cut, query.degraded)

    async def load_document(self, doc_id: str) -> list[dtos.Passage]:
        """Return all passages of a document in order; empty if it is not indexed."""
        return await self._store.passages(self.collection, doc_id)

    async def list_titles(self, limit: int, origins: Container[str | None] | None = None) -> list[str]:
        """Return at most `limit` distinct titles of indexed documents. `origins` selects documents; None selects all.

        Only the first MAX_TITLED documents are examined, so titles may be missing if a collection has many origins.
        """
        found: dict[str, None] = {}
        looked_at = 0
        async with aclosing(self._store.documents(self.collection)) as documents:  # type: ignore[type-var]  # a generator
            async for document in documents:
                looked_at += 1
                if document.title and (origins is None or document.origin in origins):
                    found[document.title] = None
                if len(found) >= limit or looked_at >= MAX_TITLED:
                    break
        return list(found)

    async def list_documents(
        self, limit: int, origins: Container[str | None] | None = None
    ) -> tuple[list[dtos.IndexedDocument], int | None]:
        """Return the first `limit` documents by id, and the number of all selected documents.

        `origins` selects documents; None selects all. In a collection of more than MAX_LISTED_FROM documents, only the first
        MAX_LISTED_FROM in the order of the store are examined, and the number is None.
        """
        found: list[dtos.IndexedDocument] = []
        looked_at = 0
        async with aclosing(self._store.documents(self.collection)) as documents:  # type: ignore[type-var]  # a generator
            async for document in documents:
                looked_at += 1
                if looked_at > MAX_LISTED_FROM:
                    break
                if origins is None or document.origin in origins:
                    found.append(document)
        first = heapq.nsmallest(limit, found, key=lambda document: document.doc_id)
        return first, len(found) if looked_at <= MAX_LISTED_FROM else None

    async def describe(self) -> dtos.Collection:
        """Return the collection. Raises VectorStoreConfigError, with the message of the store, if it does not exist."""
        collection = await self._store.describe(self.collection)
        if collection is None:
            await self._store.lookup(self.collection, [])
            raise VectorStoreConfigError
        return collection

    @stage("retrieve")
    async def _search_store(self, query: _Query, request: dtos.RagSearch, limit: int) -> list[dtos.FoundPassage]:
        return await self._store.search(self.collection, query.text, query.vector, request.filters, limit)

    @stage("embed")
    async def _embed_query(self, request: dtos.RagSearch) -> _Query:
        query = request.query
        window = min(self._embedder.window_tokens, MAX_QUERY_TOKENS)
        text = query if len(query) <= window else cut_to_tokens(query, window)  # a token has at least one character
        cut = len(text) < len(query.rstrip())
        if cut:
            log.info("query cut", extra={"window_tokens": window, "query_chars": len(query)})
        vector, degraded = await self._make_vector(text, keyword_fallback=request.keyword_fallback)
        if vector is not None:
            await self._check_embedder(len(vector))
        return _Query(text, vector, cut, degraded)

    async def _make_vector(
        self, text: str, *, keyword_fallback: bool
    ) -> tuple[dtos.Vector | None, tuple[Degraded, ...]]:
        name = self._embedder.name
        try:
            async with deadline_in(self._embedding_timeout_s):
                (vector,) = await self._embedder.embed([text])
        except (EmbeddingError, EmbeddingConfigError) as error:
            log.warning("embedding failed", extra={"embedder": name, "error": error.code})
            if not keyword_fallback:
                raise
            return None, (Degraded.of(name, error),)
        except TimeoutError as error:
            log.warning("embedding failed", extra={"embedder": name, "error": "timeout"})
            if not keyword_fallback:
                raise EmbeddingError(NO_VECTOR) from error
            return None, (Degraded(component=name, reason=EMBEDDER_LATE),)
        if vector is None and not self._embedder.dimension:
            return None, (Degraded(component=name, reason=self._embedder.why_no_vectors),)
        return vector, ()

    async def _check_embedder(self, dimension: int) -> None:
        """Raise VectorStoreConfigError if another embedder made the collection: its vectors are not comparable."""
        indexed_with = await self._find_collection_embedder()
        current = f"{self._embedder.name} ({dimension} dimensions)"
        if indexed_with and indexed_with != current:
            raise VectorStoreConfigError(
                f"the collection {self.collection!r} was indexed with {indexed_with}, but questions are embedded with "
                f"{current}: "
                "set EMBEDDER and EMBEDDING_MODEL to the former values, or set another QDRANT_COLLECTION and index again"
            )

    async def _find_collection_embedder(self) -> str:
        """Return the embedder that made the collection; empty if it does not exist, which the search of the store reports."""
        now = self._clock()
        if self._indexed_with is None or self._indexed_with[0] < now:
            collection = await self._store.describe(self.collection)
            if collection is None:
                return ""
            self._indexed_with = now + COLLECTION_TTL_S, f"{collection.embedder} ({collection.dimension} dimensions)"
        return self._indexed_with[1]

    def _log(self, began: float, query: _Query, count: int) -> None:
        log.info(
            "retrieval",
            extra={
                "collection": self.collection,
                "duration_ms": round((self._clock() - began) * 1000, 1),
                "count": count,
                "query_chars": len(query.text),
                "keywords_only": query.vector is None,
            },
        )


@dataclass(frozen=True, slots=True)
class _Query:
    """A query as the store gets it."""

    text: str
    vector: dtos.Vector | None
    cut: bool
    degraded: tuple[Degraded, ...]


def _group_by_document(found: Iterable[dtos.FoundPassage]) -> list[list[dtos.FoundPassage]]:
    """Return the passages of each document, best first, the document with the best one first. Equal scores go by id."""
    documents: dict[str, list[dtos.FoundPassage]] = {}
    for hit in sorted(found, key=lambda hit: (-hit.score, hit.passage.doc_id, hit.passage.start)):
        documents.setdefault(hit.passage.doc_id, []).append(hit)
    return list(documents.values())


def _make_hit(passage: dtos.Passage, score: float) -> dtos.Hit:
    return dtos.Hit(
        doc_id=passage.doc_id,
        score=round(min(1.0, max(0.0, score)), SCORE_DIGITS),
        title=passage.title or None,
        snippet=passage.text or None,
        source=passage.source,
        url=passage.url if passage.url and is_openable(passage.url) else None,
        pages=passage.pages,
    )
