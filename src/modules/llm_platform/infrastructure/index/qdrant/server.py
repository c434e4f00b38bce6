"""Requests to a Qdrant server as objects of its client, which is imported on first use, and the client's errors."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from json import JSONDecodeError
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from modules.llm_platform.domain.exceptions import VectorStoreConfigError, VectorStoreError
from modules.llm_platform.domain.text.scripts import replace_surrogates
from modules.llm_platform.infrastructure.index import payloads
from modules.llm_platform.infrastructure.index.hybrid import CANDIDATES, HybridQuery

if TYPE_CHECKING:
    from qdrant_client.models import CollectionInfo, Filter, FilterSelector, PointStruct, UpdateOperation


def build_filter(fields: Sequence[tuple[str, Sequence[str]]]) -> Filter | None:
    from qdrant_client import models

    conditions = [models.FieldCondition(key=field, match=models.MatchAny(any=list(values))) for field, values in fields]
    return models.Filter(must=list(conditions)) if conditions else None


def select_points(doc_ids: Iterable[str], kind: str, except_ids: Sequence[Any] = ()) -> FilterSelector:
    """Return the points of this kind of the documents, except those with the ids `except_ids`."""
    from qdrant_client import models

    selected = (
        build_filter([(payloads.KIND, [kind]), (payloads.DOC_ID, [replace_surrogates(doc_id) for doc_id in doc_ids])])
        or models.Filter()
    )
    if except_ids:
        selected.must_not = [models.HasIdCondition(has_id=list(except_ids))]
    return models.FilterSelector(filter=selected)


def replace_operations(new: list[PointStruct], replaced: FilterSelector, last: PointStruct) -> list[UpdateOperation]:
    """Operations of one request, which the server runs one after the other."""
    from qdrant_client import models

    operations: list[UpdateOperation] = [models.UpsertOperation(upsert=models.PointsList(points=new))] if new else []
    operations.append(models.DeleteOperation(delete=replaced))
    operations.append(models.UpsertOperation(upsert=models.PointsList(points=[last])))
    return operations


def make_query(hybrid: HybridQuery, fields: Filter | None) -> dict[str, Any]:
    from qdrant_client import models

    lists: list[Any] = []
    if hybrid.words:
        lists.append((payloads.WORDS, models.SparseVector(indices=hybrid.words.indices, values=hybrid.words.values)))
    if hybrid.vector is not None:
        lists.append((payloads.DENSE, hybrid.vector))
    prefetch = [models.Prefetch(query=vector, using=using, filter=fields, limit=CANDIDATES) for using, vector in lists]
    return {
        "prefetch": prefetch,
        "query": models.FusionQuery(fusion=models.Fusion.DBSF),
        "with_payload": True,
    }


def make_passage_point(point: payloads.PreparedPoint) -> PointStruct:
    from qdrant_client import models

    vectors: dict[str, Any] = {} if point.vector is None else {payloads.DENSE: point.vector}
    if point.words:
        vectors[payloads.WORDS] = models.SparseVector(indices=point.words.indices, values=point.words.values)
    return models.PointStruct(id=point.id, vector=vectors, payload=point.payload)


def make_bare_point(point_id: str, payload: dict[str, Any]) -> PointStruct:
    """Return a point without vectors, found by its id only."""
    from qdrant_client import models

    return models.PointStruct(id=point_id, vector={}, payload=payload)


def is_unfinished(about: CollectionInfo) -> bool:
    """Return whether a collection without facts is one that `llm-platform` began to create: it has its vectors and no point."""
    vectors, words = about.config.params.vectors, about.config.params.sparse_vectors or {}
    is_ours = isinstance(vectors, dict) and vectors.keys() <= {payloads.DENSE} and words.keys() == {payloads.WORDS}
    return is_ours and about.points_count == 0


def read_dimension(about: CollectionInfo) -> int:
    """Return the length of the dense vectors of a collection, or 0 if it has none."""
    vectors = about.config.params.vectors
    dense = vectors.get(payloads.DENSE) if isinstance(vectors, dict) else vectors
    return 0 if dense is None else dense.size


# Errors. The server's messages are not repeated: they may quote the key.


TRANSIENT: Final = frozenset({408, 409, 425, 429})
NO_ANSWER: Final = "the Qdrant server cannot be reached: nothing answers at QDRANT_URL; is it running?"
NOT_QDRANT: Final = "another program than a Qdrant server answers: check QDRANT_URL"
TOO_SLOW: Final = "the Qdrant server did not answer in time: try again"


@contextmanager
def translate_errors(collection: str) -> Iterator[None]:
    """Turns the client's errors into vector store errors, without importing the client."""
    try:
        yield
    except TimeoutError as error:
        raise VectorStoreError(TOO_SLOW) from error
    except OSError as error:
        raise VectorStoreError(NO_ANSWER) from error
    except ImportError as error:
        raise VectorStoreConfigError(
            'a Qdrant server needs another package: pip install "llm-platform[qdrant]"'
        ) from error
    except (JSONDecodeError, UnicodeDecodeError, AssertionError) as error:  # the client asserts the shape of an answer
        raise VectorStoreConfigError(NOT_QDRANT) from error
    except (KeyError, ValidationError) as error:  # a payload is damaged
        raise payloads.make_unknown_collection(collection) from error
    except _list_client_errors() as error:
        failure = _translate_error(error, collection)
    else:
        return
    raise failure  # outside the handler: the client's error would be its context


def _list_client_errors() -> tuple[type[Exception], ...]:
    exceptions: Any = sys.modules.get("qdrant_client.http.exceptions")
    common: Any = sys.modules.get("qdrant_client.common.client_exceptions")
    known: list[type[Exception]] = [] if exceptions is None else [exceptions.ApiException]
    if common is not None:
        known.append(common.QdrantException)
    return tuple(known)


def _translate_error(error: Exception, collection: str) -> VectorStoreError | VectorStoreConfigError:
    wait = getattr(error, "retry_after_s", None)
    if wait is not None:
        return VectorStoreError(
            "the Qdrant server limits the rate of requests: try again later", retry_after_s=float(wait)
        )
    status = getattr(error, "status_code", None)
    if status is None:
        # There was no valid answer. pydantic's ValidationError is a ValueError.
        source = getattr(error, "source", error)
        if isinstance(source, (ValueError, TypeError)):
            return VectorStoreConfigError(NOT_QDRANT)
        return VectorStoreError(TOO_SLOW if "timeout" in type(source).__name__.lower() else NO_ANSWER)
    if status in (401, 403):
        return VectorStoreConfigError(f"the Qdrant server refuses the key ({status}): check QDRANT_API_KEY")
    if status == 404:
        return payloads.no_collection(collection) if _is_from_qdrant(error) else VectorStoreConfigError(NOT_QDRANT)
    if status < 500 and status not in TRANSIENT:
        return VectorStoreConfigError(
            f"the Qdrant server does not accept the request ({status}): check QDRANT_URL, and that its version is 1.16 or newer"
        )
    return VectorStoreError(f"the Qdrant server failed ({status}): try again")


def _is_from_qdrant(error: Exception) -> bool:
    """Return whether an error body is Qdrant's. Proxies and web servers have 404s of their own."""
    try:
        body = json.loads(getattr(error, "content", b""))
    except (ValueError, TypeError, RecursionError):
        return False
    return isinstance(body, dict) and "status" in body
