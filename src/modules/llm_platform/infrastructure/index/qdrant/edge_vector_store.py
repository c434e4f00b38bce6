"""The embedded index on Qdrant Edge (qdrant-edge-py 0.9): Qdrant's engine runs in this process.

The shard has no write-ahead log (`wal_enabled=False`). So loading and closing a finished generation writes nothing, and many
processes can open it. After a crash, unfinished changes are lost: the next writer deletes the folder `work`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from modules.llm_platform.domain.dtos import retrieval_dtos as dtos
from modules.llm_platform.domain.exceptions import VectorStoreConfigError, VectorStoreError
from modules.llm_platform.domain.retrieval.bm25 import SparseVector
from modules.llm_platform.domain.text.scripts import replace_surrogates
from modules.llm_platform.infrastructure.files.file_lock import FileLock
from modules.llm_platform.infrastructure.files.private_files import PRIVATE_FOLDER, require_free_space
from modules.llm_platform.infrastructure.index import payloads
from modules.llm_platform.infrastructure.index.embedded_vector_store import EmbeddedVectorStore
from modules.llm_platform.infrastructure.index.hybrid import CANDIDATES, build_hybrid_query, select_active_filters
from modules.llm_platform.infrastructure.index.qdrant.generations import Generations, Stamp, measure_folder

if TYPE_CHECKING:
    import qdrant_edge
    from qdrant_edge import EdgeShard

DELETED_SHARE: Final = 0.2  # A shard with a larger share of deleted points is rewritten without them.
VACUUM_FROM_POINTS: Final = 1000  # A smaller shard is not rewritten.
NEW_SHARD_BYTES: Final = 24 * 1024 * 1024  # The size of the mapped files of a new shard, without its vectors.
VECTORS_BYTES: Final = 32 * 1024 * 1024  # The size of a file of vectors. The engine begins another one when it is full.
PAGE_DOCUMENTS: Final = 1000  # Documents in one page of the list.

logger = logging.getLogger(__name__)


class translate_errors:  # noqa: N801  The name reads well in a `with` statement.
    """Turn errors inside the block into vector store errors.

    The engine raises bare `Exception`. Only exactly this type is matched, because `except Exception` would hide bugs. The
    engine's messages may quote stored text and are not repeated.
    """

    def __enter__(self) -> None:
        """Do nothing. The work is done in `__exit__`."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, OSError):
            raise payloads.make_file_error(error) from error
        if isinstance(error, KeyError | ValidationError):
            # A payload lacks a field, or has a value of another type.
            raise VectorStoreError("the index contains a point that llm-platform did not write: index again") from error
        if kind is Exception:
            raise VectorStoreError(payloads.DAMAGED) from error


def load_engine() -> Any:
    """Return the module of the engine. Raises VectorStoreConfigError if it is not installed."""
    try:
        import qdrant_edge
    except ImportError as error:
        raise VectorStoreConfigError(
            'the embedded index needs another package: pip install "llm-platform[retrieval]", or, to use a server, '
            'pip install "llm-platform[qdrant]" and set QDRANT_URL'
        ) from error
    return qdrant_edge


def make_config(edge: Any, dimension: int) -> qdrant_edge.EdgeConfig:
    """Return the configuration of a collection. `dimension` is 0 for a collection without vectors.

    Vectors are compared one by one, without a graph. That is fast enough for some hundred thousand passages.
    """
    dense = (
        {payloads.DENSE: edge.EdgeVectorParams(size=dimension, distance=edge.Distance.Cosine)} if dimension else None
    )
    config: qdrant_edge.EdgeConfig = edge.EdgeConfig(
        vectors=dense,
        sparse_vectors={payloads.WORDS: edge.EdgeSparseVectorParams(modifier=edge.Modifier.Idf)},
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


def build_filter(edge: Any, fields: Iterable[tuple[str, Sequence[str]]]) -> qdrant_edge.Filter | None:
    conditions = [edge.FieldCondition(field, match=edge.MatchAny(list(values))) for field, values in fields]
    return edge.Filter(must=conditions) if conditions else None


def delete_operation(edge: Any, doc_ids: Sequence[str]) -> qdrant_edge.UpdateOperation:
    documents = build_filter(edge, [(payloads.DOC_ID, [replace_surrogates(doc_id) for doc_id in doc_ids])])
    operation: qdrant_edge.UpdateOperation = edge.UpdateOperation.delete_points_by_filter(documents)
    return operation


def make_vectors(edge: Any, vector: list[float] | None, words: SparseVector) -> dict[str, Any]:
    """Return the named vectors of a point. Vectors that are missing or empty are left out."""
    dense = {} if vector is None else {payloads.DENSE: vector}
    return {**dense, payloads.WORDS: edge.SparseVector(words.indices, words.values)} if words else dense


@dataclass(frozen=True, slots=True)
class _Open:
    """A loaded shard and the facts of its collection.

    A generation that is open for reading has a shared lock, and the stamp at which it was opened.
    """

    shard: EdgeShard
    facts: dtos.Collection
    lock: FileLock | None = None
    stamp: Stamp | None = None


class EdgeCollection:
    """One collection. All methods block, must be called by one thread, and raise only vector store errors."""

    def __init__(self, name: str, folder: Path) -> None:
        self._name = name
        self._generations = Generations(folder)
        self._reading: _Open | None = None
        self._work: _Open | None = None

    # --- reading ----------------------------------------------------------------------------------------------------------

    def facts(self) -> dtos.Collection | None:
        with translate_errors():
            current = self._open_current()
            return current.facts if current else None

    def search(
        self, text: str, vector: dtos.Vector | None, filters: dtos.Filters, limit: int
    ) -> list[dtos.FoundPassage]:
        edge = load_engine()
        with translate_errors():
            current = self._require()
            query = build_hybrid_query(current.facts, text, vector)
            if not query.lists:
                return []
            fields = build_filter(
                edge,
                [
                    (payloads.FIELDS, payloads.make_field_texts(key, values))
                    for key, values in select_active_filters(filters)
                ],
            )
            lists = []
            if query.vector is not None:
                lists.append(edge.Query.Nearest(query.vector, payloads.DENSE))
            if query.words:
                lists.append(
                    edge.Query.Nearest(edge.SparseVector(query.words.indices, query.words.values), payloads.WORDS)
                )
            request = edge.QueryRequest(
                limit=limit,
                query=edge.Fusion.Dbsf(),
                prefetches=[edge.Prefetch(limit=CANDIDATES, query=query, filter=fields) for query in lists],
                with_payload=True,
            )
            points = current.shard.query(request)
            return [
                dtos.FoundPassage(
                    passage=payloads.parse_passage(point.id, point.payload or {}), score=query.score(point.score)
                )
                for point in points
            ]

    def lookup(self, doc_ids: Sequence[str]) -> dict[str, dtos.IndexedDocument]:
        with translate_errors():
            records = self._require().shard.retrieve(
                [payloads.make_document_point(doc_id) for doc_id in doc_ids], True, False
            )
            found = {
                record.payload[payloads.DOC_ID]: payloads.parse_document(record.payload)
                for record in records
                if record.payload
            }
            return {
                doc_id: found[replace_surrogates(doc_id)] for doc_id in doc_ids if replace_surrogates(doc_id) in found
            }

    def documents(self, after: Any) -> tuple[list[dtos.IndexedDocument], Any]:
        """Return a page of documents from the position `after` (None for the first page), and the position of the next page.

        The second value is None at the end.
        """
        edge = load_engine()
        with translate_errors():
            documents = build_filter(edge, [(payloads.KIND, [payloads.DOCUMENT])])
            records, following = self._require().shard.scroll(
                edge.ScrollRequest(
                    offset=after, limit=PAGE_DOCUMENTS, filter=documents, with_payload=True, with_vector=False
                )
            )
            return [payloads.parse_document(record.payload) for record in records if record.payload], following

    def passages(self, doc_id: str) -> list[dtos.Passage]:
        edge = load_engine()
        with translate_errors():
            shard = self._require().shard
            fields = build_filter(
                edge, [(payloads.DOC_ID, [replace_surrogates(doc_id)]), (payloads.KIND, [payloads.PASSAGE])]
            )
            count = shard.count(edge.CountRequest(filter=fields))
            request = edge.ScrollRequest(limit=count + 1, filter=fields, with_payload=True, with_vector=False)
            records, _ = shard.scroll(request)
            found = [(record.id, record.payload) for record in records if record.payload]
            return [
                payloads.parse_passage(*point)
                for point in sorted(found, key=lambda point: payloads.parse_place(point[1]))
            ]

    # --- writing ----------------------------------------------------------------------------------------------------------

    def prepare(self, facts: dtos.Collection) -> None:
        with translate_errors():
            self._check(facts)
            self._take()
            # Another writer may have created the collection before this one took the lock.
            self._check(facts)
            if self._open_current() is None:
                self._create(facts)

    def replace(self, documents: Sequence[tuple[dtos.IndexedDocument, Sequence[dtos.EmbeddedPassage]]]) -> None:
        """Replace several documents at once, because a call of the engine costs as much as a few points.

        If several have the same id, the last one is stored.
        """
        edge = load_engine()
        with translate_errors():
            work = self._begin_work()
            new = {
                payloads.make_document_point(document.doc_id): (document, passages) for document, passages in documents
            }
            self._require_room(work)
            stored = {str(record.id) for record in work.shard.retrieve(list(new), False, False)}
            if stored:
                replaced = [document.doc_id for point, (document, _) in new.items() if point in stored]
                work.shard.update(delete_operation(edge, replaced))
            points = [
                edge.Point(point.id, make_vectors(edge, point.vector, point.words), point.payload)
                for point in payloads.prepare_points(work.facts, *(passages for _, passages in new.values()))
            ]
            points += [
                edge.Point(point, {}, payloads.make_document_payload(document)) for point, (document, _) in new.items()
            ]
            work.shard.update(edge.UpdateOperation.upsert_points(points))

    def add_vectors(self, documents: Sequence[tuple[dtos.IndexedDocument, Sequence[dtos.EmbeddedPassage]]]) -> None:
        """Add the vectors of stored passages in place.

        New passages would leave the old ones behind as deleted points.
        """
        edge = load_engine()
        with translate_errors():
            work = self._begin_work()
            self._require_room(work)
            passages = [passage for _, passages_of_document in documents for passage in passages_of_document]
            centered = payloads.center_vectors([passage.vector for passage in passages], work.facts)
            new_vectors = [
                edge.PointVectors(embedded.passage.id, {payloads.DENSE: vector})
                for embedded, vector in zip(passages, centered, strict=True)
                if vector is not None
            ]
            if new_vectors:
                work.shard.update(edge.UpdateOperation.update_vectors(new_vectors))
            points = [
                edge.Point(payloads.make_document_point(document.doc_id), {}, payloads.make_document_payload(document))
                for document, _ in documents
            ]
            work.shard.update(edge.UpdateOperation.upsert_points(points))

    def remove(self, doc_ids: Sequence[str]) -> None:
        with translate_errors():
            if self.lookup(doc_ids):
                self._begin_work().shard.update(delete_operation(load_engine(), doc_ids))

    def finish(self) -> None:
        with translate_errors():
            work, self._work = self._work, None
            try:
                if work is not None:
                    self._save(work.shard)
                    self._generations.publish()
            finally:
                self._generations.end()

    def close(self) -> None:
        with translate_errors():
            self._close_reading()
            work, self._work = self._work, None
            if work is not None:
                work.shard.close()
            self._generations.end()

    def _save(self, shard: EdgeShard) -> None:
        """Write the shard to the disk and close it. If many of its points are deleted, it is rewritten without them."""
        shard.flush()
        # To rewrite the shard, the engine needs as much space again.
        require_free_space(self._generations.work, measure_folder(self._generations.work).allocated)
        if shard.optimize():
            logger.info("index_vacuumed", extra={"collection": self._name})
            shard.flush()
        shard.close()

    # --- opening ----------------------------------------------------------------------------------------------------------

    def _require(self) -> _Open:
        current = self._open_current()
        if current is None:
            raise payloads.no_collection(self._name)
        return current

    def _open_current(self) -> _Open | None:
        """Return the shard that is being written, or else the newest generation. Return None if there is no collection."""
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
            require_free_space(path, measure_folder(path).unfilled)
            shard = load_engine().EdgeShard.load(str(path))
            opened = _Open(shard, self._read_facts(shard), lock, stamp)
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

    def _read_facts(self, shard: EdgeShard) -> dtos.Collection:
        records = shard.retrieve([payloads.FACTS_ID], True, False)
        if not records or not records[0].payload:
            raise payloads.make_unknown_collection(self._name)
        return payloads.parse_facts(self._name, records[0].payload)

    def _check(self, facts: dtos.Collection) -> None:
        """Raise if the collection exists and was made with another embedder."""
        current = self._open_current()
        if current is None:
            return
        stored = current.facts
        if (stored.embedder, stored.dimension) != (facts.embedder, facts.dimension):
            raise payloads.make_embedder_mismatch(stored, facts)

    def _take(self) -> None:
        if not self._generations.take():
            raise payloads.make_busy_collection(self._name)

    def _begin_work(self) -> _Open:
        """Return the shard that is being written. The first call copies the newest generation.

        Raises VectorStoreBusyError if another process writes.
        """
        if self._work is None:
            self._require()
            self._take()
            self._close_reading()
            self._generations.copy_newest()
            shard = load_engine().EdgeShard.load(str(self._generations.work))
            self._work = _Open(shard, self._read_facts(shard))
        return self._work

    def _require_room(self, work: _Open) -> None:
        """Raise OSError if the disk may have too little space for more points."""
        require_free_space(self._generations.work, VECTORS_BYTES if work.facts.dimension else 0)

    def _create(self, facts: dtos.Collection) -> None:
        edge = load_engine()
        require_free_space(self._generations.folder, NEW_SHARD_BYTES + (VECTORS_BYTES if facts.dimension else 0))
        self._generations.work.mkdir(PRIVATE_FOLDER)
        shard = edge.EdgeShard.create(str(self._generations.work), make_config(edge, facts.dimension))
        for field in payloads.FILTERABLE:
            shard.update(edge.UpdateOperation.create_field_index(field, edge.PayloadSchemaType.Keyword))
        shard.update(
            edge.UpdateOperation.upsert_points([edge.Point(payloads.FACTS_ID, {}, payloads.make_facts_payload(facts))])
        )
        self._work = _Open(shard, facts)


class QdrantEdgeVectorStore(EmbeddedVectorStore):
    """A thread of its own does the work, one call after the other: the engine holds the interpreter's lock anyway, and
    nothing can be asked of a generation while it is being switched.
    """

    name = "qdrant-edge"

    def _open_collection(self, name: str, folder: Path) -> EdgeCollection:
        return EdgeCollection(name, folder)
