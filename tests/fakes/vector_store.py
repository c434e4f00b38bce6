"""A vector store in memory, for tests."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from modules.llm_platform.domain.dtos.retrieval_dtos import (
    Collection,
    EmbeddedPassage,
    Filters,
    FoundPassage,
    IndexedDocument,
    Passage,
    Vector,
)
from modules.llm_platform.domain.ports.vector_store import IVectorStore
from modules.llm_platform.domain.retrieval.bm25 import SparseVector, make_passage_vector, make_question_vector
from modules.llm_platform.domain.retrieval.mean_centering import subtract_mean
from modules.llm_platform.domain.text.scripts import replace_surrogates
from modules.llm_platform.infrastructure.index.payloads import (
    make_embedder_mismatch,
    make_passage_payload,
    no_collection,
    parse_passage,
)
from shared.exceptions import AppException

SMOOTHING: Final = 0.5  # added in the inverse document frequency


@dataclass(frozen=True, slots=True)
class _StoredPassage:
    passage: Passage
    vector: list[float] | None
    words: Mapping[int, float]


@dataclass(slots=True)
class _StoredCollection:
    collection: Collection
    documents: dict[str, tuple[IndexedDocument, list[_StoredPassage]]] = field(default_factory=dict)


class MemoryVectorStore(IVectorStore):
    """Stores collections in this process; changes are visible at once.

    `MemoryVectorStore(same_as=store)` shares the collections of another store. `error`, which can be set at any time, is
    raised by every call. `searches` records text, filters and limit of each search.
    """

    name = "memory"

    def __init__(self, *, same_as: MemoryVectorStore | None = None, error: AppException | None = None) -> None:
        self._collections: dict[str, _StoredCollection] = {} if same_as is None else same_as._collections
        self.error = error
        self.searches: list[tuple[str, Filters, int]] = []

    async def describe(self, collection: str) -> Collection | None:
        self._check()
        stored = self._collections.get(collection)
        return stored.collection if stored else None

    async def prepare(self, collection: Collection) -> None:
        self._check()
        collection_info = self._collections.setdefault(collection.name, _StoredCollection(collection)).collection
        if (collection_info.embedder, collection_info.dimension) != (collection.embedder, collection.dimension):
            raise make_embedder_mismatch(collection_info, collection)

    async def replace(self, collection: str, document: IndexedDocument, passages: Sequence[EmbeddedPassage]) -> None:
        stored = self._stored(collection)
        kept = [
            _StoredPassage(
                _round_trip(passage.passage),
                subtract_mean(passage.vector, stored.collection.mean, stored.collection.dimension),
                _word_weights(passage),
            )
            for passage in passages
        ]
        doc_id = replace_surrogates(document.doc_id)
        title = replace_surrogates(document.title)
        stored.documents[doc_id] = document.model_copy(update={"doc_id": doc_id, "title": title}), kept

    async def remove(self, collection: str, doc_ids: Sequence[str]) -> None:
        stored = self._stored(collection)
        for doc_id in doc_ids:
            stored.documents.pop(replace_surrogates(doc_id), None)

    async def documents(self, collection: str) -> AsyncIterator[IndexedDocument]:
        for document, _ in list(self._stored(collection).documents.values()):
            yield document

    async def lookup(self, collection: str, doc_ids: Sequence[str]) -> dict[str, IndexedDocument]:
        documents = self._stored(collection).documents
        keys = {doc_id: replace_surrogates(doc_id) for doc_id in doc_ids}
        return {doc_id: documents[key][0] for doc_id, key in keys.items() if key in documents}

    async def search(
        self, collection: str, text: str, vector: Vector | None, filters: Filters, limit: int
    ) -> list[FoundPassage]:
        stored = self._stored(collection)
        self.searches.append((text, filters, limit))
        kept = [
            passage for _, passages in stored.documents.values() for passage in passages if _matches(passage, filters)
        ]
        query_vector = subtract_mean(vector, stored.collection.mean, stored.collection.dimension)
        scores = [_keyword_scores(kept, make_question_vector(text))]
        if query_vector is not None:
            scores.append([max(0.0, _dot(query_vector, stored.vector)) for stored in kept])
        fused = [sum(normalized) / len(scores) for normalized in zip(*map(_normalized, scores), strict=True)]
        found = [
            FoundPassage(passage=stored.passage, score=score)
            for stored, score in zip(kept, fused, strict=True)
            if score > 0
        ]
        return sorted(found, key=lambda hit: -hit.score)[:limit]

    async def passages(self, collection: str, doc_id: str) -> list[Passage]:
        _, kept = self._stored(collection).documents.get(replace_surrogates(doc_id), (None, []))
        return [stored.passage for stored in kept]

    async def finish(self, collection: str) -> None:
        self._check()

    async def aclose(self) -> None:
        """Do nothing."""

    def _stored(self, collection: str) -> _StoredCollection:
        self._check()
        if collection not in self._collections:
            raise no_collection(collection)
        return self._collections[collection]

    def _check(self) -> None:
        if self.error is not None:
            raise self.error


def _round_trip(passage: Passage) -> Passage:
    """Return the passage as a store returns it."""
    return parse_passage(passage.id, make_passage_payload(passage, 0))


def _word_weights(embedded: EmbeddedPassage) -> Mapping[int, float]:
    words = make_passage_vector(embedded.passage.searched)
    return dict(zip(words.indices, words.values, strict=True))


def _matches(kept: _StoredPassage, filters: Filters) -> bool:
    fields = kept.passage.fields
    return all(not set(values).isdisjoint(fields.get(key, ())) for key, values in filters.items() if values)


def _keyword_scores(kept: Sequence[_StoredPassage], query: SparseVector) -> list[float]:
    having = Counter(index for stored in kept for index in stored.words)
    rarity = {
        index: math.log(1 + (len(kept) - having[index] + SMOOTHING) / (having[index] + SMOOTHING))
        for index in query.indices
    }
    return [sum(stored.words.get(index, 0.0) * weight for index, weight in rarity.items()) for stored in kept]


def _dot(one: Sequence[float], other: Sequence[float] | None) -> float:
    return 0.0 if other is None else math.fsum(a * b for a, b in zip(one, other, strict=True))


def _normalized(scores: Iterable[float]) -> list[float]:
    """Scale the scores so that the best one is 1."""
    listed = list(scores)
    best = max(listed, default=0.0)
    return [score / best for score in listed] if best > 0 else listed
