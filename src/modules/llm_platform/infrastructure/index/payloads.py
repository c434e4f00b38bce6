"""The schema of passages, documents and a collection's facts in Qdrant, the same for the embedded engine and a server.

A collection has three kinds of points. A passage has the vectors `d` (dense) and `s` (words). A document has none and is
found by its id, and so is the one point that has the facts. Filters are stored as texts `key=value` in one list, so that one
index serves all keys.
"""

import errno
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID, uuid5

from modules.llm_platform.domain.dtos import retrieval_dtos as dtos
from modules.llm_platform.domain.exceptions import (
    VectorStoreBusyError,
    VectorStoreConfigError,
    VectorStoreError,
    VectorStoreUnavailableError,
)
from modules.llm_platform.domain.retrieval.bm25 import FORM, SparseVector, make_passage_vector
from modules.llm_platform.domain.retrieval.mean_centering import MIN_LENGTH, subtract_mean
from modules.llm_platform.domain.text.scripts import replace_surrogates

# Errors that all vector stores raise in the same words.

DAMAGED: Final = "the index is damaged or the disk is full: free space, or index again"


# These errors say nothing about the files of an index: once their cause is gone, it can be used as it is.
TEMPORARY_ERRORS: Final = frozenset(
    {
        errno.EACCES,
        errno.EAGAIN,
        errno.EDQUOT,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOLCK,
        errno.ENOMEM,
        errno.ENOSPC,
        errno.EPERM,
        errno.EROFS,
    }
)


def make_file_error(error: OSError) -> VectorStoreError:
    reason = error.strerror or "its files are damaged"
    if error.errno in TEMPORARY_ERRORS:
        return make_unavailable_index(reason)
    return VectorStoreError(_describe_file_error(reason))


def make_unavailable_index(reason: str) -> VectorStoreUnavailableError:
    return VectorStoreUnavailableError(_describe_file_error(reason))


def _describe_file_error(reason: str) -> str:
    return f"the index cannot be used ({reason}): check the data folder, LLM_PLATFORM_DATA_DIR"


def no_collection(name: str) -> VectorStoreConfigError:
    return VectorStoreConfigError(f"there is no collection {name!r}: create it with `llm-platform index PATH`")


def make_embedder_mismatch(stored: dtos.Collection, requested: dtos.Collection) -> VectorStoreConfigError:
    return VectorStoreConfigError(
        f"the collection {stored.name!r} was built with {stored.embedder} ({stored.dimension} dimensions), not with "
        f"{requested.embedder} ({requested.dimension}): set EMBEDDER back, or set another QDRANT_COLLECTION and index again"
    )


def make_unknown_collection(name: str) -> VectorStoreConfigError:
    return VectorStoreConfigError(
        f"the collection {name!r} was not made by llm-platform: set another QDRANT_COLLECTION and index again"
    )


def make_other_sparse_format(name: str) -> VectorStoreConfigError:
    return VectorStoreConfigError(
        f"the collection {name!r} was made by another version of llm-platform, with keywords in another format: set another "
        "QDRANT_COLLECTION and index again"
    )


def make_busy_collection(name: str) -> VectorStoreBusyError:
    return VectorStoreBusyError(
        f"another process is writing to the collection {name!r}: wait until it is done, or use a Qdrant server (QDRANT_URL), "
        "which allows several writers"
    )


DENSE: Final = "d"
WORDS: Final = "s"
KIND: Final = "kind"
DOC_ID: Final = "doc_id"
FIELDS: Final = "fields"
PASSAGE: Final = "passage"
DOCUMENT: Final = "document"
COLLECTION_INFO: Final = "facts"
FILTERABLE: Final = (KIND, DOC_ID, FIELDS)  # have an index of values
FACTS_ID: Final = "5bf7d3c1-1f3c-5d55-9d5e-0d3f0a4e6c11"

_DOCUMENTS: Final = UUID("0d6e1f0e-54a0-5b0b-8c5e-9a3b0f7c2d10")  # the namespace of the points of documents


@contextmanager
def _damage_as_key_error() -> Iterator[None]:
    """Raise KeyError for a field of a wrong type, as for one that is missing: another program may write to a collection."""
    try:
        yield
    except (AttributeError, TypeError, ValueError) as error:
        raise KeyError("damaged payload") from error


def make_document_point(doc_id: str) -> str:
    """Return the id of a document's own point."""
    return str(uuid5(_DOCUMENTS, replace_surrogates(doc_id)))


def make_field_texts(key: str, values: Iterable[str]) -> list[str]:
    """Return `key=value` for each value. The first `=` divides them, so `=` in the key is written as %3D."""
    name = replace_surrogates(key).replace("%", "%25").replace("=", "%3D")
    return [f"{name}={replace_surrogates(value)}" for value in values]


def make_passage_payload(passage: dtos.Passage, position: int) -> dict[str, Any]:
    """Return a passage as the payload of a point. `position` is the passage's position in its document."""
    return {
        KIND: PASSAGE,
        DOC_ID: replace_surrogates(passage.doc_id),
        "place": position,
        "title": replace_surrogates(passage.title),
        "text": replace_surrogates(passage.text),
        "start": passage.start,
        **{
            name: replace_surrogates(value)
            for name in ("url", "source", "lang")
            if (value := getattr(passage, name)) is not None
        },
        **({"label": replace_surrogates(passage.label)} if passage.label else {}),
        **({"pages": [list(start) for start in passage.pages]} if passage.pages else {}),
        FIELDS: [text for key, values in passage.fields.items() for text in make_field_texts(key, values)],
    }


@_damage_as_key_error()
def parse_passage(point_id: object, payload: Mapping[str, Any]) -> dtos.Passage:
    """Return the passage of a point. Raises KeyError for a damaged payload, as the other functions that read one do."""
    return dtos.Passage(
        id=str(point_id),
        doc_id=payload[DOC_ID],
        title=payload["title"],
        text=payload["text"],
        start=payload["start"],
        url=payload.get("url"),
        source=payload.get("source"),
        lang=payload.get("lang"),
        fields=_collect_fields(payload.get(FIELDS) or ()),
        label=payload.get("label") or "",
        pages=tuple((offset, page) for offset, page in payload.get("pages") or ()),
    )


@_damage_as_key_error()
def parse_place(payload: Mapping[str, Any]) -> int:
    """Return the position of a passage in its document."""
    return int(payload["place"])


def _collect_fields(texts: Iterable[str]) -> dtos.Filters:
    values: dict[str, list[str]] = {}
    for text in texts:
        name, _, value = text.partition("=")
        values.setdefault(name.replace("%3D", "=").replace("%25", "%"), []).append(value)
    return {key: tuple(names) for key, names in values.items()}


def make_document_payload(document: dtos.IndexedDocument) -> dict[str, Any]:
    known = {"url": document.url, "origin": document.origin, "form": document.form or None}
    return {
        KIND: DOCUMENT,
        DOC_ID: replace_surrogates(document.doc_id),
        "sha256": document.sha256,
        "passages": document.passages,
        "title": replace_surrogates(document.title),
        **({} if document.embedded else {"embedded": False}),
        **{name: replace_surrogates(value) for name, value in known.items() if value is not None},
    }


@_damage_as_key_error()
def parse_document(payload: Mapping[str, Any]) -> dtos.IndexedDocument:
    return dtos.IndexedDocument.model_validate(payload)


def make_facts_payload(collection: dtos.Collection) -> dict[str, Any]:
    return {
        KIND: COLLECTION_INFO,
        "embedder": collection.embedder,
        "dimension": collection.dimension,
        "mean": list(collection.mean),
        "words": FORM,
    }


@_damage_as_key_error()
def parse_facts(name: str, payload: Mapping[str, Any]) -> dtos.Collection:
    """Return the facts of a collection. Raises VectorStoreConfigError if its keywords have another format than queries."""
    if payload.get("words") != FORM:
        raise make_other_sparse_format(name)
    return dtos.Collection(
        name=name, embedder=payload["embedder"], dimension=payload["dimension"], mean=tuple(payload["mean"])
    )


# Passages as points, for either client.


@dataclass(frozen=True, slots=True)
class PreparedPoint:
    """A point to store. `vector` is centered and has length 1, or is None."""

    id: str
    vector: list[float] | None
    words: SparseVector
    payload: dict[str, Any]


def prepare_points(facts: dtos.Collection, *documents: Sequence[dtos.EmbeddedPassage]) -> list[PreparedPoint]:
    """Return the points of documents, in their order."""
    passages = [passage for document in documents for passage in document]
    vectors = center_vectors([passage.vector for passage in passages], facts)
    payloads = [
        make_passage_payload(embedded.passage, position)
        for document in documents
        for position, embedded in enumerate(document)
    ]
    return [
        PreparedPoint(
            embedded.passage.id, vector, make_passage_vector(replace_surrogates(embedded.passage.searched)), payload
        )
        for embedded, vector, payload in zip(passages, vectors, payloads, strict=True)
    ]


def center_vectors(vectors: Sequence[dtos.Vector | None], facts: dtos.Collection) -> list[list[float] | None]:
    """Return many vectors as `subtract_mean` does one, four times as fast with numpy."""
    centered: list[list[float] | None] = [None] * len(vectors)
    usable = [
        position for position, vector in enumerate(vectors) if vector is not None and len(vector) == facts.dimension
    ]
    if not usable or not facts.dimension:
        return centered
    try:
        import numpy as np
    except ImportError:  # an embedding service needs no extra
        return [subtract_mean(vector, facts.mean, facts.dimension) for vector in vectors]
    with np.errstate(all="ignore"):  # NaN and infinity are filtered below
        shifted = np.array([vectors[position] for position in usable], dtype=np.float64)
        if facts.mean:
            shifted -= facts.mean
        lengths = np.linalg.norm(shifted, axis=1)
        valid = (lengths > MIN_LENGTH) & np.isfinite(lengths)
        rows = (shifted / np.where(valid, lengths, 1)[:, None]).tolist()
    for position, row, is_valid in zip(usable, rows, valid.tolist(), strict=True):
        centered[position] = row if is_valid else None
    return centered
