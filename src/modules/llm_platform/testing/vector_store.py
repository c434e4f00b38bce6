"""A vector store in memory, for tests and for users who write services on the port."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from modules.llm_platform.domain.bm25 import SparseVector, passage_words, question_words
from modules.llm_platform.domain.dtos.retrieval_dtos import (
    Collection,
    EmbeddedPassage,
    Filters,
    FoundPassage,
    IndexedDocument,
    Passage,
    Vector,
)
from modules.llm_platform.domain.mean_centering import mean_centered
from modules.llm_platform.domain.ports.vector_store import IVectorStore
from modules.llm_platform.infrastructure.vectors.payloads import (
    another_embedder,
    clean,
    no_collection,
    passage_of,
    passage_payload,
)
from shared.exceptions import AppException

SMOOTHING: Final = 0.5  # of the inverse document frequency


@dataclass(frozen=True, slots=True)
class _Kept:
    passage: Passage
    vector: list[float] | None
    words: Mapping[int, float]


@dataclass(slots=True)
class _Shelf:
    facts: Collection
    documents: dict[str, tuple[IndexedDocument, list[_Kept]]] = field(default_factory=dict)


class MemoryVectorStore(IVectorStore):
    """Keeps everything in this process; what is written is seen at once. `MemoryVectorStore(same_as=store)` shows the same
    collections. `error`, which can be set at any time, is raised by all that is asked.
    """

    name = "memory"

    def __init__(self, *, same_as: MemoryVectorStore | None = None, error: AppException | None = None) -> None:
        self._shelves: dict[str, _Shelf] = {} if same_as is None else same_as._shelves
        self.error = error
        self.searches: list[tuple[str, Filters, int]] = []  # text, filters and limit of each

    async def describe(self, collection: str) -> Collection | None:
        self._check()
        shelf = self._shelves.get(collection)
        return shelf.facts if shelf else None

    async def prepare(self, collection: Collection) -> None:
        self._check()
        facts = self._shelves.setdefault(collection.name, _Shelf(collection)).facts
        if (facts.embedder, facts.dimension) != (collection.embedder, collection.dimension):
            raise another_embedder(facts, collection)

    async def replace(self, collection: str, document: IndexedDocument, passages: Sequence[EmbeddedPassage]) -> None:
        shelf = self._shelf(collection)
        kept = [
            _Kept(
                _kept(each.passage),
                mean_centered(each.vector, shelf.facts.mean, shelf.facts.dimension),
                _words_of(each),
            )
            for each in passages
        ]
        doc_id = clean(document.doc_id)
        shelf.documents[doc_id] = document.model_copy(update={"doc_id": doc_id, "title": clean(document.title)}), kept

    async def remove(self, collection: str, doc_ids: Sequence[str]) -> None:
        shelf = self._shelf(collection)
        for doc_id in doc_ids:
            shelf.documents.pop(clean(doc_id), None)

    async def documents(self, collection: str) -> AsyncIterator[IndexedDocument]:
        for document, _ in list(self._shelf(collection).documents.values()):
            yield document

    async def lookup(self, collection: str, doc_ids: Sequence[str]) -> dict[str, IndexedDocument]:
        documents = self._shelf(collection).documents
        return {doc_id: documents[clean(doc_id)][0] for doc_id in doc_ids if clean(doc_id) in documents}

    async def search(
        self, collection: str, text: str, vector: Vector | None, filters: Filters, limit: int
    ) -> list[FoundPassage]:
        shelf = self._shelf(collection)
        self.searches.append((text, filters, limit))
        kept = [each for _, passages in shelf.documents.values() for each in passages if _passes(each, filters)]
        asked = mean_centered(vector, shelf.facts.mean, shelf.facts.dimension)
        scores = [_by_words(kept, question_words(text))]
        if asked is not None:
            scores.append([max(0.0, _dot(asked, each.vector)) for each in kept])
        fused = [sum(each) / len(scores) for each in zip(*map(_to_one, scores), strict=True)]
        found = [
            FoundPassage(passage=each.passage, score=score)
            for each, score in zip(kept, fused, strict=True)
            if score > 0
        ]
        return sorted(found, key=lambda each: -each.score)[:limit]

    async def passages(self, collection: str, doc_id: str) -> list[Passage]:
        _, kept = self._shelf(collection).documents.get(clean(doc_id), (None, []))
        return [each.passage for each in kept]

    async def finish(self, collection: str) -> None:
        self._check()

    async def aclose(self) -> None:
        """There is nothing to close."""

    def _shelf(self, collection: str) -> _Shelf:
        self._check()
        if collection not in self._shelves:
            raise no_collection(collection)
        return self._shelves[collection]

    def _check(self) -> None:
        if self.error is not None:
            raise self.error


def _kept(passage: Passage) -> Passage:
    """As it comes back from a store."""
    return passage_of(passage.id, passage_payload(passage, 0))


def _words_of(embedded: EmbeddedPassage) -> Mapping[int, float]:
    words = passage_words(embedded.passage.searched)
    return dict(zip(words.indices, words.values, strict=True))


def _passes(kept: _Kept, filters: Filters) -> bool:
    fields = kept.passage.fields
    return all(not set(values).isdisjoint(fields.get(key, ())) for key, values in filters.items() if values)


def _by_words(kept: Sequence[_Kept], asked: SparseVector) -> list[float]:
    having = Counter(index for each in kept for index in each.words)
    rarity = {
        index: math.log(1 + (len(kept) - having[index] + SMOOTHING) / (having[index] + SMOOTHING))
        for index in asked.indices
    }
    return [sum(each.words.get(index, 0.0) * weight for index, weight in rarity.items()) for each in kept]


def _dot(one: Sequence[float], other: Sequence[float] | None) -> float:
    return 0.0 if other is None else math.fsum(a * b for a, b in zip(one, other, strict=True))


def _to_one(scores: Iterable[float]) -> list[float]:
    """The same in proportion, the best one 1."""
    listed = list(scores)
    best = max(listed, default=0.0)
    return [score / best for score in listed] if best > 0 else listed
