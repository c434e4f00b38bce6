"""What a Qdrant server is asked, in the words of its client, which is loaded when the first of these is made."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from json import JSONDecodeError
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from modules.llm_platform.domain.exceptions import VectorStoreConfigError, VectorStoreError
from modules.llm_platform.infrastructure.vectors.hybrid import Question
from modules.llm_platform.infrastructure.vectors.payloads import (
    DENSE,
    DOC_ID,
    KIND,
    WORDS,
    PreparedPoint,
    clean,
    no_collection,
    not_one_of_ours,
)

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


# What can go wrong with a Qdrant server, and which of our errors that is. Nothing that it says is repeated.


PASSING: Final = frozenset({408, 409, 425, 429})
NO_ANSWER: Final = "the Qdrant server cannot be reached: nothing answers at QDRANT_URL; is it running?"
ANOTHER: Final = "something else than a Qdrant server answers: check QDRANT_URL"
TOO_SLOW: Final = "the Qdrant server did not answer in time: try again"


@contextmanager
def translated(collection: str) -> Iterator[None]:
    """Errors of the client become errors of ours. The client is looked at only once something else has loaded it."""
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
    except (JSONDecodeError, UnicodeDecodeError, AssertionError) as error:  # the package asserts what an answer holds
        raise VectorStoreConfigError(ANOTHER) from error
    except (KeyError, ValidationError) as error:  # of a payload
        raise not_one_of_ours(collection) from error
    except _client_errors() as error:
        failure = _of(error, collection)
    else:
        return
    raise failure  # outside of the handler: the client's errors quote the server, which may quote the key


def _client_errors() -> tuple[type[Exception], ...]:
    exceptions: Any = sys.modules.get("qdrant_client.http.exceptions")
    common: Any = sys.modules.get("qdrant_client.common.client_exceptions")
    known: list[type[Exception]] = [] if exceptions is None else [exceptions.ApiException]
    if common is not None:
        known.append(common.QdrantException)
    return tuple(known)


def _of(error: Exception, collection: str) -> VectorStoreError | VectorStoreConfigError:
    wait = getattr(error, "retry_after_s", None)
    if wait is not None:
        return VectorStoreError(
            "the Qdrant server says that we ask too often: try again later", retry_after_s=float(wait)
        )
    status = getattr(error, "status_code", None)
    if status is None:
        return _unheard(getattr(error, "source", error))
    if status in (401, 403):
        return VectorStoreConfigError(f"the Qdrant server refuses the key ({status}): check QDRANT_API_KEY")
    if status == 404:
        return no_collection(collection) if _is_qdrants(error) else VectorStoreConfigError(ANOTHER)
    if status < 500 and status not in PASSING:
        return VectorStoreConfigError(
            f"the Qdrant server does not accept the request ({status}): check QDRANT_URL, and that its version is 1.16 or newer"
        )
    return VectorStoreError(f"the Qdrant server failed ({status}): try again")


def _is_qdrants(error: Exception) -> bool:
    """Whether what came with a status is written as Qdrant writes it; a proxy or a web server has 404s of its own."""
    try:
        said = json.loads(getattr(error, "content", b""))
    except (ValueError, TypeError, RecursionError):
        return False
    return isinstance(said, dict) and "status" in said


def _unheard(source: object) -> VectorStoreError | VectorStoreConfigError:
    """Of a request without an answer, or with one that is none of Qdrant's."""
    if isinstance(source, (ValueError, TypeError)):  # pydantic's error is one
        return VectorStoreConfigError(ANOTHER)
    return VectorStoreError(TOO_SLOW if "timeout" in type(source).__name__.lower() else NO_ANSWER)
