"""Put documents into a collection: what is new or changed is read, cut, embedded and stored; the rest costs nothing."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from itertools import islice
from pathlib import Path
from typing import Final

from modules.llm_platform.application.rag.indexing import (
    CHECKPOINT_S,
    MEAN_FROM,
    Checkpoints,
    DocumentBatch,
    DocumentIntake,
    EmbeddedBatch,
    IndexingProgress,
    new_collection_facts,
    prefetch,
)
from modules.llm_platform.domain.dtos.indexing_dtos import IndexProgress, IndexReport
from modules.llm_platform.domain.dtos.retrieval_dtos import Collection, EmbeddedPassage
from modules.llm_platform.domain.ports.document_source import IDocumentSource
from modules.llm_platform.domain.ports.embedder import IEmbedder
from modules.llm_platform.domain.ports.vector_store import IVectorStore

log = logging.getLogger(__name__)

STORED_AT_ONCE: Final = 32  # documents
REMOVED_AT_ONCE: Final = 500
NOTHING_FOUND: Final = "no document was found, so nothing was removed"
NOT_ALL_SEEN: Final = "not all of it could be looked into, so nothing was removed"


class IndexingService:
    """Indexes into one collection.

    What a crash or an error interrupts is there up to the last checkpoint, each document whole or not at all; indexing
    again goes on from there. Memory does not grow with the documents, but for their ids.
    """

    def __init__(
        self,
        source: IDocumentSource,
        embedder: IEmbedder,
        store: IVectorStore,
        collection: str,
        *,
        checkpoint_s: float = CHECKPOINT_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source = source
        self._embedder = embedder
        self._store = store
        self.collection = collection
        self._checkpoint_s = checkpoint_s
        self._clock = clock

    async def index(
        self, paths: Sequence[Path], *, prune: bool = False, vectors_later: bool = False
    ) -> AsyncGenerator[IndexProgress | IndexReport, None]:
        """Progress now and then, and the report as the last value. With `prune` documents of the collection that these
        paths do not hold are removed. Bad files are skipped and stand in the report. With `vectors_later` words find
        what is stored, and `add_vectors` makes the vectors, but for those that a new collection takes its mean from.

        Raises EmbeddingError, VectorStoreError (try again), EmbeddingConfigError and VectorStoreConfigError (do what it
        says); what was stored before is kept.
        """
        began = self._clock()
        tally = IndexingProgress()
        try:
            async with aclosing(self._batches(paths, tally, vectors_later=vectors_later)) as batches:
                async for batch in batches:
                    tally.done_bytes = max(tally.done_bytes, batch.place)
                    yield tally.progress()
            if prune:
                await self._prune(tally)
        finally:
            await self._store.finish(self.collection)
        report = tally.report(self.collection, self._embedder.name)
        self._log(report, began)
        yield report

    async def add_vectors(self) -> AsyncGenerator[tuple[int, int], None]:
        """Make the vectors that are waited for: how many documents are done, and of how many. Raises as `index` does; what
        was made before is kept.
        """
        waiting = [each async for each in self._store.documents(self.collection) if not each.embedded]
        if not waiting:
            return
        await self._store.prepare(self._facts())
        checkpoints = Checkpoints(lambda: self._store.finish(self.collection), self._checkpoint_s, self._clock)
        try:
            for first in range(0, len(waiting), STORED_AT_ONCE):
                some = waiting[first : first + STORED_AT_ONCE]
                passages = [await self._store.passages(self.collection, each.doc_id) for each in some]
                vectors = iter(await self._embedder.embed([each.searched for theirs in passages for each in theirs]))
                made = [
                    (
                        document.model_copy(update={"embedded": True}),
                        [EmbeddedPassage(each, next(vectors)) for each in theirs],
                    )
                    for document, theirs in zip(some, passages, strict=True)
                ]
                await self._store.add_vectors(self.collection, made)
                checkpoints.wrote()
                await checkpoints.reached()
                yield first + len(some), len(waiting)
        finally:
            await self._store.finish(self.collection)

    async def _batches(
        self, paths: Sequence[Path], tally: IndexingProgress, *, vectors_later: bool
    ) -> AsyncGenerator[EmbeddedBatch, None]:
        """Batches that have been stored; each is read and the next one embedded meanwhile."""
        is_new = await self._is_new()
        intake = DocumentIntake(self._source, self._store, self.collection, tally)
        checkpoints = Checkpoints(lambda: self._store.finish(self.collection), self._checkpoint_s, self._clock)
        read = prefetch(intake.batches(paths, is_new=is_new))
        embed_first = (MEAN_FROM if is_new else 0) if vectors_later else None
        async with aclosing(prefetch(self._embedded(read, embed_first))) as embedded:
            if is_new:
                first, mean = await new_collection_facts(embedded)
                if any(batch.documents for batch in first):
                    await self._store.prepare(self._facts(mean))
                for batch in first:
                    await self._put(batch, tally, checkpoints)
                    yield batch
            async for batch in embedded:
                await self._put(batch, tally, checkpoints)
                yield batch

    async def _is_new(self) -> bool:
        """Whether the collection has to be made. Takes the writer's place in one that is there, if it is this embedder's."""
        if not self._embedder.dimension:
            await self._embedder.embed(["dimension"])  # some know it only then
        if await self._store.describe(self.collection) is None:
            return True
        await self._store.prepare(self._facts())
        return False

    def _facts(self, mean: tuple[float, ...] = ()) -> Collection:
        embedder = self._embedder
        return Collection(name=self.collection, embedder=embedder.name, dimension=embedder.dimension, mean=mean)

    async def _embedded(
        self, batches: AsyncGenerator[DocumentBatch, None], embed_first: int | None
    ) -> AsyncGenerator[EmbeddedBatch, None]:
        """`embed_first`: so many passages, and the others later; None: all of them."""
        passages = 0
        async with aclosing(batches):
            async for batch in batches:
                later = embed_first is not None and passages >= embed_first
                passages += batch.passages
                yield _without_vectors(batch) if later else await self._embed(batch)

    async def _embed(self, batch: DocumentBatch) -> EmbeddedBatch:
        vectors = iter(await self._embedder.embed([text for each in batch.documents for text in each.to_embed]))
        documents = [
            (each.document, [EmbeddedPassage(passage, next(vectors)) for passage in each.passages])
            for each in batch.documents
        ]
        return EmbeddedBatch(batch.place, documents, batch.known)

    async def _put(self, batch: EmbeddedBatch, tally: IndexingProgress, checkpoints: Checkpoints) -> None:
        rest = iter(batch.documents)
        while several := list(islice(rest, STORED_AT_ONCE)):
            await self._store.replace_many(self.collection, several)
            checkpoints.wrote()
            for document, _ in several:
                tally.stored(document, batch.known.get(document.doc_id))
        await checkpoints.reached()

    async def _prune(self, tally: IndexingProgress) -> None:
        """Remove what was not met; nothing, where that may be because we could not look."""
        reason = NOTHING_FOUND if not tally.met else NOT_ALL_SEEN if "" in tally.hidden else None
        if reason:
            tally.remark("--prune", reason)
            return
        if await self._store.describe(self.collection) is None:
            return
        gone = [each async for each in self._store.documents(self.collection) if tally.is_gone(each.doc_id)]
        for first in range(0, len(gone), REMOVED_AT_ONCE):
            some = gone[first : first + REMOVED_AT_ONCE]
            await self._store.remove(self.collection, [each.doc_id for each in some])
            tally.removed += len(some)
            tally.removed_elsewhere += sum(each.came_from_elsewhere(tally.origins) for each in some)

    def _log(self, report: IndexReport, began: float) -> None:
        counts = report.model_dump(exclude={"problems"})
        log.info("indexed", extra={**counts, "duration_ms": round((self._clock() - began) * 1000, 1)})


def _without_vectors(batch: DocumentBatch) -> EmbeddedBatch:
    documents = [
        (
            each.document.model_copy(update={"embedded": False}),
            [EmbeddedPassage(passage, None) for passage in each.passages],
        )
        for each in batch.documents
    ]
    return EmbeddedBatch(batch.place, documents, batch.known)
