"""Qdrant's engine in this process (qdrant-edge-py 0.9): how it is loaded, set up and spoken to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from modules.llm_platform.domain.bm25 import SparseVector
from modules.llm_platform.domain.exceptions import VectorStoreConfigError, VectorStoreError
from modules.llm_platform.infrastructure.vectors.payloads import DENSE, DOC_ID, WORDS, clean

if TYPE_CHECKING:
    import qdrant_edge

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
