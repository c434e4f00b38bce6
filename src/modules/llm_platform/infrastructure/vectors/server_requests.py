"""What a Qdrant server is asked, in the words of its client, which is loaded when the first of these is made."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from modules.llm_platform.infrastructure.vectors.hybrid import Question
from modules.llm_platform.infrastructure.vectors.payloads import DENSE, DOC_ID, KIND, WORDS, clean
from modules.llm_platform.infrastructure.vectors.points import PreparedPoint

if TYPE_CHECKING:
    from qdrant_client.models import Filter, FilterSelector, PointStruct, UpdateOperation


def matching(wanted: Sequence[tuple[str, Sequence[str]]]) -> Filter | None:
    """Points that have any of the values in each of the fields; None where nothing is wanted."""
    from qdrant_client import models

    conditions = [models.FieldCondition(key=field, match=models.MatchAny(any=list(values))) for field, values in wanted]
    return models.Filter(must=list(conditions)) if conditions else None


def theirs(doc_ids: Iterable[str], kind: str, keep: Sequence[Any] = ()) -> FilterSelector:
    """The points of this kind that these documents have, but for those with the ids in `keep`."""
    from qdrant_client import models

    wanted = matching([(KIND, [kind]), (DOC_ID, [clean(doc_id) for doc_id in doc_ids])]) or models.Filter()
    if keep:
        wanted.must_not = [models.HasIdCondition(has_id=list(keep))]
    return models.FilterSelector(filter=wanted)


def in_this_order(new: list[PointStruct], gone: FilterSelector, last: PointStruct) -> list[UpdateOperation]:
    """One request: the server does the next of these when it has done the one before."""
    from qdrant_client import models

    operations: list[UpdateOperation] = [models.UpsertOperation(upsert=models.PointsList(points=new))] if new else []
    operations.append(models.DeleteOperation(delete=gone))
    operations.append(models.UpsertOperation(upsert=models.PointsList(points=[last])))
    return operations


def query(asked: Question, wanted: Filter | None) -> dict[str, Any]:
    """The lists of a question, fused by the server."""
    from qdrant_client import models

    lists: list[Any] = []
    if asked.words:
        lists.append((WORDS, models.SparseVector(indices=asked.words.indices, values=asked.words.values)))
    if asked.vector is not None:
        lists.append((DENSE, asked.vector))
    prefetch = [
        models.Prefetch(query=each, using=using, filter=wanted, limit=asked.candidates) for using, each in lists
    ]
    return {
        "prefetch": prefetch,
        "query": models.FusionQuery(fusion=models.Fusion.DBSF),
        "with_payload": True,
    }


def passage_point(each: PreparedPoint) -> PointStruct:
    """A passage as it is kept."""
    from qdrant_client import models

    vectors: dict[str, Any] = {} if each.vector is None else {DENSE: each.vector}
    if each.words:
        vectors[WORDS] = models.SparseVector(indices=each.words.indices, values=each.words.values)
    return models.PointStruct(id=each.id, vector=vectors, payload=each.payload)


def bare_point(point_id: str, payload: dict[str, Any]) -> PointStruct:
    """One that is found by its id alone."""
    from qdrant_client import models

    return models.PointStruct(id=point_id, vector={}, payload=payload)
