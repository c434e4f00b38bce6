"""One embedded collection on Qdrant's engine in this process (qdrant-edge-py 0.9): what is asked of it, in one thread.

The shard has no log of its own (`wal_enabled=False`). A finished generation can therefore be open in many processes at
once: to load or close one writes no byte that was not there before. What a crash interrupts is thrown away with the folder
`work`, so nothing is lost by it but what was not finished.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from modules.llm_platform.domain.bm25 import SparseVector
from modules.llm_platform.domain.dtos.retrieval_dtos import (
    Collection,
    EmbeddedPassage,
    Filters,
    FoundPassage,
    IndexedDocument,
    Passage,
    Vector,
)
from modules.llm_platform.domain.exceptions import VectorStoreConfigError, VectorStoreError
from modules.llm_platform.infrastructure.files.file_lock import FileLock
from modules.llm_platform.infrastructure.files.private_files import PRIVATE_FOLDER, require_free_space
from modules.llm_platform.infrastructure.vectors.generations import Generations, Stamp
from modules.llm_platform.infrastructure.vectors.hybrid import chosen, question
from modules.llm_platform.infrastructure.vectors.payloads import (
    DENSE,
    DOC_ID,
    DOCUMENT,
    FACTS_ID,
    FIELDS,
    INDEXED,
    KIND,
    PASSAGE,
    WORDS,
    another_embedder,
    centred_all,
    clean,
    document_of,
    document_payload,
    document_point,
    facts_of,
    facts_payload,
    field_texts,
    no_collection,
    not_one_of_ours,
    passage_of,
    prepared,
)

if TYPE_CHECKING:
    import qdrant_edge
    from qdrant_edge import EdgeShard


# Qdrant's engine in this process (qdrant-edge-py 0.9): how it is loaded, set up and spoken to.


DELETED_SHARE: Final = 0.2  # of a shard's points, from which on it is written anew without them
VACUUM_FROM_POINTS: Final = 1000
NOT_INSTALLED: Final = (
    'the embedded index needs another package: pip install "llm-platform[retrieval]", or, to use a server, '
    'pip install "llm-platform[qdrant]" and set QDRANT_URL'
)


class translated:  # noqa: N801  used as a word of a `with` statement
    """Errors inside become vector store errors.

    Those of the engine have no type of their own, they are bare `Exception`s: asked for here by exactly that type, since a
    handler of it would catch every mistake of ours as well. What they say may quote what is stored, and is not repeated.
    """

    def __enter__(self) -> None:
        """Nothing is needed before."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, OSError):
            why = error.strerror or "its files are not as they should be"
            remedy = "look at the data folder, LLM_PLATFORM_DATA_DIR"
            raise VectorStoreError(f"the index cannot be used ({why}): {remedy}") from error
        if isinstance(error, KeyError):  # of a payload
            raise VectorStoreError("the index holds something that is none of ours: index anew") from error
        if kind is Exception:
            raise VectorStoreError("the index is damaged or the disk is full: free space, or index anew") from error


def engine() -> Any:
    try:
        import qdrant_edge
    except ImportError as error:
        raise VectorStoreConfigError(NOT_INSTALLED) from error
    return qdrant_edge


def config(edge: Any, dimension: int) -> qdrant_edge.EdgeConfig:
    """Exact search, no graph: it is fast enough for some hundred thousand passages and needs no building."""
    dense = {DENSE: edge.EdgeVectorParams(size=dimension, distance=edge.Distance.Cosine)} if dimension else None
    config: qdrant_edge.EdgeConfig = edge.EdgeConfig(
        vectors=dense,
        sparse_vectors={WORDS: edge.EdgeSparseVectorParams(modifier=edge.Modifier.Idf)},
        hnsw_config=edge.HnswIndexConfig(m=0, ef_construct=4, full_scan_threshold=0),
        optimizers=edge.EdgeOptimizersConfig(
            deleted_threshold=DELETED_SHARE,
            vacuum_min_vector_number=VACUUM_FROM_POINTS,
            default_segment_number=1,
            indexing_threshold=0,
        ),
        wal_enabled=False,
    )
    return config


def only(edge: Any, wanted: Iterable[tuple[str, Sequence[str]]]) -> qdrant_edge.Filter | None:
    conditions = [edge.FieldCondition(field, match=edge.MatchAny(list(values))) for field, values in wanted]
    return edge.Filter(must=conditions) if conditions else None


def forget(edge: Any, doc_ids: Sequence[str]) -> qdrant_edge.UpdateOperation:
    theirs = only(edge, [(DOC_ID, [clean(doc_id) for doc_id in doc_ids])])
    operation: qdrant_edge.UpdateOperation = edge.UpdateOperation.delete_points_by_filter(theirs)
    return operation


def vectors(edge: Any, vector: list[float] | None, words: SparseVector) -> dict[str, Any]:
    dense = {} if vector is None else {DENSE: vector}
    return {**dense, WORDS: edge.SparseVector(words.indices, words.values)} if words else dense


PAGE: Final = 1000  # documents listed at once
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Open:
    """A shard, what it says of itself, and of a generation the lock that keeps it and the stamp it was opened at."""

    shard: EdgeShard
    facts: Collection
    lock: FileLock | None = None
    stamp: Stamp | None = None


class EdgeCollection:
    """All methods block, and are to be called by one thread. They raise vector store errors and nothing else."""

    def __init__(self, name: str, folder: Path) -> None:
        self._name = name
        self._generations = Generations(folder)
        self._reading: _Open | None = None
        self._work: _Open | None = None

    # --- asking -----------------------------------------------------------------------------------------------------------

    def facts(self) -> Collection | None:
        with translated():
            current = self._current()
            return current.facts if current else None

    def search(self, text: str, vector: Vector | None, filters: Filters, limit: int) -> list[FoundPassage]:
        edge = engine()
        with translated():
            current = self._needed()
            asked = question(current.facts, text, vector, limit)
            if not asked.lists:
                return []
            wanted = only(edge, [(FIELDS, field_texts(key, values)) for key, values in chosen(filters)])
            lists = []
            if asked.vector is not None:
                lists.append(edge.Query.Nearest(asked.vector, DENSE))
            if asked.words:
                lists.append(edge.Query.Nearest(edge.SparseVector(asked.words.indices, asked.words.values), WORDS))
            request = edge.QueryRequest(
                limit=limit,
                query=edge.Fusion.Dbsf(),
                prefetches=[edge.Prefetch(limit=asked.candidates, query=each, filter=wanted) for each in lists],
                with_payload=True,
            )
            points = current.shard.query(request)
            return [
                FoundPassage(passage=passage_of(point.id, point.payload or {}), score=asked.score(point.score))
                for point in points
            ]

    def lookup(self, doc_ids: Sequence[str]) -> dict[str, IndexedDocument]:
        with translated():
            records = self._needed().shard.retrieve([document_point(doc_id) for doc_id in doc_ids], True, False)
            found = {record.payload[DOC_ID]: document_of(record.payload) for record in records if record.payload}
            return {doc_id: found[clean(doc_id)] for doc_id in doc_ids if clean(doc_id) in found}

    def documents(self, after: Any) -> tuple[list[IndexedDocument], Any]:
        """A page of them, and where the next one begins; None at the end."""
        edge = engine()
        with translated():
            wanted = only(edge, [(KIND, [DOCUMENT])])
            records, following = self._needed().shard.scroll(
                edge.ScrollRequest(offset=after, limit=PAGE, filter=wanted, with_payload=True, with_vector=False)
            )
            return [document_of(record.payload) for record in records if record.payload], following

    def passages(self, doc_id: str) -> list[Passage]:
        edge = engine()
        with translated():
            shard = self._needed().shard
            wanted = only(edge, [(DOC_ID, [clean(doc_id)]), (KIND, [PASSAGE])])
            count = shard.count(edge.CountRequest(filter=wanted))
            request = edge.ScrollRequest(limit=count + 1, filter=wanted, with_payload=True, with_vector=False)
            records, _ = shard.scroll(request)
            found = [(record.id, record.payload) for record in records if record.payload]
            return [passage_of(*each) for each in sorted(found, key=lambda each: each[1]["place"])]

    # --- writing ----------------------------------------------------------------------------------------------------------

    def prepare(self, wanted: Collection) -> None:
        with translated():
            self._check(wanted)
            self._take()
            self._check(wanted)  # another writer may have made it meanwhile
            if self._current() is None:
                self._create(wanted)

    def replace(self, documents: Sequence[tuple[IndexedDocument, Sequence[EmbeddedPassage]]]) -> None:
        """Several at once, since each call of the engine costs as much as a few points. Of one id the last one counts."""
        edge = engine()
        with translated():
            work = self._begun()
            new = {document_point(document.doc_id): (document, passages) for document, passages in documents}
            there = {str(record.id) for record in work.shard.retrieve(list(new), False, False)}
            if there:
                gone = [document.doc_id for point, (document, _) in new.items() if point in there]
                work.shard.update(forget(edge, gone))
            points = [
                edge.Point(each.id, vectors(edge, each.vector, each.words), each.payload)
                for each in prepared(work.facts, *(passages for _, passages in new.values()))
            ]
            points += [edge.Point(point, {}, document_payload(document)) for point, (document, _) in new.items()]
            work.shard.update(edge.UpdateOperation.upsert_points(points))

    def add_vectors(self, documents: Sequence[tuple[IndexedDocument, Sequence[EmbeddedPassage]]]) -> None:
        """In place: to write the passages anew would leave as many behind to be cleared away."""
        edge = engine()
        with translated():
            work = self._begun()
            passages = [each for _, theirs in documents for each in theirs]
            found = zip(passages, centred_all([each.vector for each in passages], work.facts), strict=True)
            made = [edge.PointVectors(each.passage.id, {DENSE: vector}) for each, vector in found if vector is not None]
            if made:
                work.shard.update(edge.UpdateOperation.update_vectors(made))
            points = [edge.Point(document_point(each.doc_id), {}, document_payload(each)) for each, _ in documents]
            work.shard.update(edge.UpdateOperation.upsert_points(points))

    def remove(self, doc_ids: Sequence[str]) -> None:
        with translated():
            if self.lookup(doc_ids):
                self._begun().shard.update(forget(engine(), doc_ids))

    def finish(self) -> None:
        with translated():
            work, self._work = self._work, None
            try:
                if work is not None:
                    self._write_down(work.shard)
                    self._generations.publish()
            finally:
                self._generations.end()

    def close(self) -> None:
        with translated():
            self._close_reading()
            work, self._work = self._work, None
            if work is not None:
                work.shard.close()
            self._generations.end()

    def _write_down(self, shard: EdgeShard) -> None:
        shard.flush()
        if shard.optimize():  # only where much was deleted
            logger.info("index_vacuumed", extra={"collection": self._name})
            shard.flush()
        shard.close()

    # --- opening ----------------------------------------------------------------------------------------------------------

    def _needed(self) -> _Open:
        current = self._current()
        if current is None:
            raise no_collection(self._name)
        return current

    def _current(self) -> _Open | None:
        """What we write ourselves, else the newest generation."""
        if self._work is not None:
            return self._work
        stamp = self._generations.stamp()
        if self._reading is None or self._reading.stamp != stamp:
            self._close_reading()
            self._reading = self._open_newest(stamp)
        return self._reading

    def _open_newest(self, stamp: Stamp | None) -> _Open | None:
        shared = self._generations.share()
        if shared is None:
            return None
        path, lock = shared
        opened = None
        try:
            require_free_space(path)  # in memory disks the engine fills the holes of its files when it maps them
            shard = engine().EdgeShard.load(str(path))
            opened = _Open(shard, self._facts_in(shard), lock, stamp)
            return opened
        finally:
            if opened is None:
                lock.release()

    def _close_reading(self) -> None:
        reading, self._reading = self._reading, None
        if reading is not None:
            reading.shard.close()
            if reading.lock is not None:
                reading.lock.release()

    def _facts_in(self, shard: EdgeShard) -> Collection:
        records = shard.retrieve([FACTS_ID], True, False)
        if not records or not records[0].payload:
            raise not_one_of_ours(self._name)
        return facts_of(self._name, records[0].payload)

    def _check(self, wanted: Collection) -> None:
        current = self._current()
        if current is None:
            return
        there = current.facts
        if (there.embedder, there.dimension) != (wanted.embedder, wanted.dimension):
            raise another_embedder(there, wanted)

    def _take(self) -> None:
        if not self._generations.take():
            raise VectorStoreConfigError(
                f"another process is writing to the collection {self._name!r}: wait until it is done, or use a Qdrant "
                "server (QDRANT_URL), which takes several"
            )

    def _begun(self) -> _Open:
        """The shard that is written, begun as a copy of the newest generation."""
        if self._work is None:
            self._needed()
            self._take()
            self._close_reading()
            self._generations.copy_newest()
            shard = engine().EdgeShard.load(str(self._generations.work))
            self._work = _Open(shard, self._facts_in(shard))
        return self._work

    def _create(self, facts: Collection) -> None:
        edge = engine()
        self._generations.work.mkdir(PRIVATE_FOLDER)
        shard = edge.EdgeShard.create(str(self._generations.work), config(edge, facts.dimension))
        for field in INDEXED:
            shard.update(edge.UpdateOperation.create_field_index(field, edge.PayloadSchemaType.Keyword))
        shard.update(edge.UpdateOperation.upsert_points([edge.Point(FACTS_ID, {}, facts_payload(facts))]))
        self._work = _Open(shard, facts)
