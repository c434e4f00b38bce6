"""Indexing of documents into a collection: new and changed ones are read, chunked, embedded and stored."""

import logging
import time
from collections.abc import AsyncGenerator, Callable, Container, Sequence
from contextlib import aclosing
from itertools import islice
from pathlib import Path
from typing import Final

from modules.llm_platform.application.rag.checkpoints import CHECKPOINT_S, Checkpoints
from modules.llm_platform.application.rag.embedded_batches import MEAN_PASSAGES, EmbeddedBatch, collect_mean
from modules.llm_platform.application.rag.intake import DocumentBatch, DocumentIntake
from modules.llm_platform.application.rag.prefetch import prefetch
from modules.llm_platform.application.rag.progress import IndexingProgress
from modules.llm_platform.domain.dtos.indexing_dtos import IndexProgress, IndexReport
from modules.llm_platform.domain.dtos.retrieval_dtos import Collection, EmbeddedPassage
from modules.llm_platform.domain.ports.document_source import IDocumentSource
from modules.llm_platform.domain.ports.embedder import IEmbedder
from modules.llm_platform.domain.ports.vector_store import IVectorStore
from modules.llm_platform.domain.text.counts import format_count

log = logging.getLogger(__name__)

STORE_BATCH_DOCUMENTS: Final = 32
REMOVE_BATCH_DOCUMENTS: Final = 500
UPGRADED: Final = "{documents} read and embedded again, because another version of this program had stored the text"
NOTHING_FOUND: Final = "no document was found, so nothing was removed"
INCOMPLETE_WALK: Final = "not every place could be read, so nothing was removed"


class IndexingService:
    """Indexes documents into one collection.

    After a crash or an error the collection is at its last checkpoint, each document complete or absent, and the next run
    continues from there. Memory grows only with the ids of the documents.
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
        self,
        paths: Sequence[Path],
        *,
        prune: bool = False,
        replaces_collection: bool = False,
        vectors_later: bool = False,
    ) -> AsyncGenerator[IndexProgress | IndexReport, None]:
        """Yield progress, and the report as the last value. Bad files are skipped and reported.

        - `prune` removes documents that no longer exist in these folders.
        - `replaces_collection` also removes the documents of all other folders.
        - `vectors_later` stores documents for keyword search only, until `add_vectors` makes their vectors. The first documents
          of a new collection get vectors at once, because its mean is computed from them.

        Raises EmbeddingError, VectorStoreError, EmbeddingConfigError and VectorStoreConfigError. Documents stored before an
        error stay in the collection.
        """
        began = self._clock()
        progress = IndexingProgress()
        try:
            intake = DocumentIntake(
                self._source, self._store, self.collection, progress, replaces_collection=replaces_collection
            )
            async with aclosing(self._read_batches(intake, paths, progress, vectors_later=vectors_later)) as batches:
                async for batch in batches:
                    progress.done_bytes = max(progress.done_bytes, batch.position)
                    yield progress.take_snapshot()
            if prune or replaces_collection:
                await self._prune(progress, replaces_collection=replaces_collection)
        finally:
            await self._store.finish(self.collection)
        await intake.report_stored()
        if progress.upgraded:
            documents = format_count(progress.upgraded, "document was", "documents were")
            progress.add_problem(self.collection, UPGRADED.format(documents=documents))
        report = progress.report(self.collection, self._embedder.name)
        counts = report.model_dump(exclude={"problems"})
        log.info("indexed", extra={**counts, "duration_ms": round((self._clock() - began) * 1000, 1)})
        yield report

    async def add_vectors(self) -> AsyncGenerator[tuple[int, int], None]:
        """Make the vectors that `vectors_later` postponed. Yield (documents done, postponed documents). Raises as `index`."""
        pending = [document async for document in self._store.documents(self.collection) if not document.embedded]
        if not pending:
            return
        await self._store.prepare(self._describe_collection())
        checkpoints = Checkpoints(lambda: self._store.finish(self.collection), self._checkpoint_s, self._clock)
        try:
            for first in range(0, len(pending), STORE_BATCH_DOCUMENTS):
                some = pending[first : first + STORE_BATCH_DOCUMENTS]
                passages = [await self._store.passages(self.collection, document.doc_id) for document in some]
                vectors = iter(
                    await self._embedder.embed([passage.searched for theirs in passages for passage in theirs])
                )
                made = [
                    (
                        document.model_copy(update={"embedded": True}),
                        [EmbeddedPassage(passage, next(vectors)) for passage in theirs],
                    )
                    for document, theirs in zip(some, passages, strict=True)
                ]
                await self._store.add_vectors(self.collection, made)
                checkpoints.record_write()
                await checkpoints.finish_if_due()
                yield first + len(some), len(pending)
        finally:
            await self._store.finish(self.collection)

    async def _read_batches(
        self, intake: DocumentIntake, paths: Sequence[Path], progress: IndexingProgress, *, vectors_later: bool
    ) -> AsyncGenerator[EmbeddedBatch, None]:
        """Yield the stored batches; the next ones are read and embedded concurrently."""
        is_new = await self._is_new()
        checkpoints = Checkpoints(lambda: self._store.finish(self.collection), self._checkpoint_s, self._clock)
        read = prefetch(intake.read_batches(paths, is_new=is_new))
        embed_first = (MEAN_PASSAGES if is_new else 0) if vectors_later else None
        async with aclosing(prefetch(self._embed_batches(read, embed_first))) as embedded:
            if is_new:
                first, mean = await collect_mean(embedded)
                if any(batch.documents for batch in first):
                    await self._store.prepare(self._describe_collection(mean))
                for batch in first:
                    await self._store_batch(batch, progress, checkpoints)
                    yield batch
            async for batch in embedded:
                await self._store_batch(batch, progress, checkpoints)
                yield batch

    async def _is_new(self) -> bool:
        """Return whether the collection does not exist. An existing one is opened for writing, if this embedder made it."""
        if not self._embedder.dimension:
            await self._embedder.embed(["dimension"])  # some embedders know it only after the first call
        if await self._store.describe(self.collection) is None:
            return True
        await self._store.prepare(self._describe_collection())
        return False

    def _describe_collection(self, mean: tuple[float, ...] = ()) -> Collection:
        embedder = self._embedder
        return Collection(name=self.collection, embedder=embedder.name, dimension=embedder.dimension, mean=mean)

    async def _embed_batches(
        self, batches: AsyncGenerator[DocumentBatch, None], embed_first: int | None
    ) -> AsyncGenerator[EmbeddedBatch, None]:
        """Yield the batches with vectors. After `embed_first` passages, batches get no vectors; None embeds all batches."""
        passages = 0
        async with aclosing(batches):
            async for batch in batches:
                later = embed_first is not None and passages >= embed_first
                passages += batch.passages
                yield _leave_vectors_out(batch) if later else await self._embed(batch)

    async def _embed(self, batch: DocumentBatch) -> EmbeddedBatch:
        vectors = iter(await self._embedder.embed([text for chunked in batch.documents for text in chunked.to_embed]))
        documents = [
            (chunked.document, [EmbeddedPassage(passage, next(vectors)) for passage in chunked.passages])
            for chunked in batch.documents
        ]
        return EmbeddedBatch(batch.position, documents, batch.known)

    async def _store_batch(self, batch: EmbeddedBatch, progress: IndexingProgress, checkpoints: Checkpoints) -> None:
        rest = iter(batch.documents)
        while batch_documents := list(islice(rest, STORE_BATCH_DOCUMENTS)):
            await self._store.replace_many(self.collection, batch_documents)
            checkpoints.record_write()
            for document, _ in batch_documents:
                progress.count_stored(document, batch.known.get(document.doc_id))
        await checkpoints.finish_if_due()

    async def _prune(self, progress: IndexingProgress, *, replaces_collection: bool) -> None:
        """Remove the documents of these origins that the walk did not find; none if a folder could not be read.

        With `replaces_collection`, documents of any other origin are removed too.
        """
        reason = NOTHING_FOUND if not progress.seen else INCOMPLETE_WALK if "" in progress.hidden else None
        if reason:
            progress.add_problem("--prune", reason)
            return
        if await self._store.describe(self.collection) is None:
            return
        origins: Container[str | None] = (None,) if progress.origins is None else progress.origins
        missing = [
            document
            async for document in self._store.documents(self.collection)
            if (replaces_collection or document.origin in origins) and progress.is_missing(document.doc_id)
        ]
        for first in range(0, len(missing), REMOVE_BATCH_DOCUMENTS):
            some = missing[first : first + REMOVE_BATCH_DOCUMENTS]
            await self._store.remove(self.collection, [document.doc_id for document in some])
            progress.removed += len(some)
            elsewhere = [
                document.origin for document in some if document.origin and document.came_from_elsewhere(origins)
            ]
            progress.removed_elsewhere += len(elsewhere)
            progress.displaced_origins.update(elsewhere)


def _leave_vectors_out(batch: DocumentBatch) -> EmbeddedBatch:
    documents = [
        (
            chunked.document.model_copy(update={"embedded": False}),
            [EmbeddedPassage(passage, None) for passage in chunked.passages],
        )
        for chunked in batch.documents
    ]
    return EmbeddedBatch(batch.position, documents, batch.known)
