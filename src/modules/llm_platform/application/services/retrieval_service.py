"""Search in the indexed documents, for all who answer from them: the worker, `ask`, the search provider `documents`."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from modules.llm_platform.domain.canonical_url import is_openable
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.retrieval_dtos import (
    Collection,
    FoundPassage,
    Hit,
    Passage,
    RagHits,
    RagSearch,
    Vector,
)
from modules.llm_platform.domain.exceptions import EmbeddingConfigError, EmbeddingError, VectorStoreConfigError
from modules.llm_platform.domain.ports.embedder import IEmbedder
from modules.llm_platform.domain.ports.vector_store import IVectorStore
from modules.llm_platform.domain.text.tokens import first_tokens

log = logging.getLogger(__name__)

MAX_TOP_K: Final = 100
MAX_QUERY_TOKENS: Final = 8000  # also where the embedder reads more: words beyond find nothing better
PASSAGES_PER_DOCUMENT: Final = 4  # asked for at first: the best document often has the best three passages
MORE: Final = 5  # times as many are asked for when those came from too few documents
MAX_PASSAGES: Final = 2000
EMBEDDING_S: Final = 15.0  # for a question; then its words alone are searched
FACTS_FOR_S: Final = 30.0  # that we remember which embedder a collection belongs to
SCORE_DIGITS: Final = 4
NO_VECTOR: Final = f"the embedder gave no vector within {EMBEDDING_S:g} s: try again"
TOO_LATE: Final = f"no vector within {EMBEDDING_S:g} s: found by words alone"


@dataclass(frozen=True, slots=True)
class FoundPassages:
    """Passages, best first; several may be of one document."""

    passages: list[FoundPassage]
    query_cut: bool = False
    degraded: tuple[Degraded, ...] = ()


@dataclass(frozen=True, slots=True)
class FoundDocuments:
    """Documents, best first, each with those of its passages that were found, best first: one at least."""

    documents: list[list[FoundPassage]]
    query_cut: bool = False
    degraded: tuple[Degraded, ...] = ()


class RetrievalService:
    """Finds passages of one collection by meaning and by words; by words alone where the embedder fails.

    Raises VectorStoreError (try again) and VectorStoreConfigError (do what it says), and where words may not serve alone
    EmbeddingError and EmbeddingConfigError; nothing else.
    """

    def __init__(
        self,
        embedder: IEmbedder,
        store: IVectorStore,
        collection: str,
        *,
        top_k: int,
        embedding_s: float = EMBEDDING_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._embedder = embedder
        self._store = store
        self.collection = collection
        self._top_k = top_k
        self._embedding_s = embedding_s
        self._clock = clock
        self._made_by: tuple[float, str] | None = None  # until when we believe it

    async def search(self, request: RagSearch) -> RagHits:
        """One hit for each document, at its best passage; at most `top_k`, and never more than MAX_TOP_K."""
        found = await self.documents(request)
        hits = tuple(_hit(best.passage, best.score) for best, *_ in found.documents)
        return RagHits(hits=hits, query_cut=found.query_cut, degraded=found.degraded)

    async def documents(self, request: RagSearch, at_least: int = 0) -> FoundDocuments:
        """As `search`, with what else of each document was found among the best passages, of which there are `at_least` so
        many: then asking for more documents changes nothing about the first ones, whatever their scores share.
        """
        wanted = min(request.top_k or self._top_k, MAX_TOP_K)
        began = self._clock()
        asked = await self._asked(request)
        limit = max(wanted * PASSAGES_PER_DOCUMENT, at_least)
        while True:
            found = await self._found(asked, request, limit)
            documents = _by_document(found)
            if len(documents) >= wanted or len(found) < limit or limit >= MAX_PASSAGES:
                break
            limit = min(limit * MORE, MAX_PASSAGES)  # a few documents hold all the best passages
        self._log(began, asked, len(documents[:wanted]))
        return FoundDocuments(documents[:wanted], asked.cut, asked.degraded)

    async def passages(self, request: RagSearch) -> FoundPassages:
        """The best `top_k` passages, whichever documents they are of."""
        began = self._clock()
        asked = await self._asked(request)
        found = await self._found(asked, request, min(request.top_k or self._top_k, MAX_TOP_K))
        self._log(began, asked, len(found))
        return FoundPassages(found, asked.cut, asked.degraded)

    async def document(self, doc_id: str) -> list[Passage]:
        """All passages of a document in its order; empty when it is not there."""
        return await self._store.passages(self.collection, doc_id)

    async def describe(self) -> Collection:
        """The collection's facts; VectorStoreConfigError, in the store's words, when there is none."""
        facts = await self._store.describe(self.collection)
        if facts is None:
            await self._store.lookup(self.collection, [])
            raise VectorStoreConfigError
        return facts

    async def _found(self, asked: _Query, request: RagSearch, limit: int) -> list[FoundPassage]:
        return await self._store.search(self.collection, asked.text, asked.vector, request.filters, limit)

    async def _asked(self, request: RagSearch) -> _Query:
        query = request.query
        window = min(self._embedder.window_tokens, MAX_QUERY_TOKENS)
        text = query if len(query) <= window else first_tokens(query, window)  # a token has a character at least
        cut = len(text) < len(query.rstrip())
        if cut:
            log.info("query cut", extra={"window_tokens": window, "query_chars": len(query)})
        vector, degraded = await self._vector(text, by_words_alone=request.by_words_alone)
        if vector is not None:
            await self._check_embedder(len(vector))
        return _Query(text, vector, cut, degraded)

    async def _vector(self, text: str, *, by_words_alone: bool) -> tuple[Vector | None, tuple[Degraded, ...]]:
        name = self._embedder.name
        try:
            async with asyncio.timeout(self._embedding_s):
                (vector,) = await self._embedder.embed([text])
        except (EmbeddingError, EmbeddingConfigError) as error:
            log.warning("embedding failed", extra={"embedder": name, "error": error.code})
            if not by_words_alone:
                raise
            return None, (Degraded.of(name, error),)
        except TimeoutError as error:
            log.warning("embedding failed", extra={"embedder": name, "error": "timeout"})
            if not by_words_alone:
                raise EmbeddingError(NO_VECTOR) from error
            return None, (Degraded(component=name, reason=TOO_LATE),)
        if vector is None and not self._embedder.dimension:
            return None, (Degraded(component=name, reason=self._embedder.why_no_vectors),)
        return vector, ()

    async def _check_embedder(self, dimension: int) -> None:
        """Vectors of two embedders cannot be compared: every score would be chance."""
        made_by = await self._maker()
        ours = f"{self._embedder.name} ({dimension} numbers)"
        if made_by and made_by != ours:
            raise VectorStoreConfigError(
                f"the collection {self.collection!r} was indexed with {made_by}, and questions are embedded with {ours}: "
                "set EMBEDDER and EMBEDDING_MODEL as they were, or another QDRANT_COLLECTION and index anew"
            )

    async def _maker(self) -> str:
        """Which embedder made the collection; empty when there is none, of which the store will tell."""
        now = self._clock()
        if self._made_by is None or self._made_by[0] < now:
            facts = await self._store.describe(self.collection)
            if facts is None:
                return ""
            self._made_by = now + FACTS_FOR_S, f"{facts.embedder} ({facts.dimension} numbers)"
        return self._made_by[1]

    def _log(self, began: float, asked: _Query, count: int) -> None:
        log.info(
            "retrieval",
            extra={
                "collection": self.collection,
                "duration_ms": round((self._clock() - began) * 1000, 1),
                "count": count,
                "query_chars": len(asked.text),
                "by_words_alone": asked.vector is None,
            },
        )


@dataclass(frozen=True, slots=True)
class _Query:
    """A question as the store is asked."""

    text: str
    vector: Vector | None
    cut: bool
    degraded: tuple[Degraded, ...]


def _by_document(found: Iterable[FoundPassage]) -> list[list[FoundPassage]]:
    """The passages of each document, best first; the document with the best one comes first. The store knows no order among
    equals.
    """
    documents: dict[str, list[FoundPassage]] = {}
    for each in sorted(found, key=lambda each: (-each.score, each.passage.doc_id, each.passage.start)):
        documents.setdefault(each.passage.doc_id, []).append(each)
    return list(documents.values())


def _hit(passage: Passage, score: float) -> Hit:
    return Hit(
        doc_id=passage.doc_id,
        score=round(min(1.0, max(0.0, score)), SCORE_DIGITS),
        title=passage.title or None,
        snippet=passage.text or None,
        source=passage.source,
        url=passage.url if passage.url and is_openable(passage.url) else None,
    )
