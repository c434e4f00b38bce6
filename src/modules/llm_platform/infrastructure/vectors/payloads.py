"""How passages, documents and a collection's facts are written down in Qdrant: one schema, embedded or on a server.

A collection holds three kinds of points. Passages have the vectors `d` (dense) and `s` (words); a document has none and is
found by its id alone, and so is the one point that holds the facts. Filters are kept as texts `key=value` in one list, so
that one index serves every key, whatever its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID, uuid5

from modules.llm_platform.domain.bm25 import FORM, SparseVector, passage_words
from modules.llm_platform.domain.dtos.retrieval_dtos import (
    Collection,
    EmbeddedPassage,
    Filters,
    IndexedDocument,
    Passage,
    Vector,
)
from modules.llm_platform.domain.exceptions import VectorStoreConfigError
from modules.llm_platform.domain.mean_centering import LEAST_LENGTH, mean_centered

# What every vector store says of a collection that is not as it should be.


def no_collection(name: str) -> VectorStoreConfigError:
    return VectorStoreConfigError(f"there is no collection {name!r}: make it with `llm-platform index PATH`")


def another_embedder(there: Collection, wanted: Collection) -> VectorStoreConfigError:
    return VectorStoreConfigError(
        f"the collection {there.name!r} holds vectors of {there.embedder} ({there.dimension} numbers), not of "
        f"{wanted.embedder} ({wanted.dimension}): set EMBEDDER as it was, or another QDRANT_COLLECTION and index anew"
    )


def not_one_of_ours(name: str) -> VectorStoreConfigError:
    return VectorStoreConfigError(
        f"the collection {name!r} was not made by llm-platform: set another QDRANT_COLLECTION and index anew"
    )


def other_words(name: str) -> VectorStoreConfigError:
    return VectorStoreConfigError(
        f"the collection {name!r} was made by another version of llm-platform, whose words ours do not match: set another "
        "QDRANT_COLLECTION and index anew"
    )


DENSE: Final = "d"
WORDS: Final = "s"
KIND: Final = "kind"
DOC_ID: Final = "doc_id"
FIELDS: Final = "fields"
PASSAGE: Final = "passage"
DOCUMENT: Final = "document"
FACTS: Final = "facts"
INDEXED: Final = (KIND, DOC_ID, FIELDS)  # what is asked for by value
FACTS_ID: Final = "5bf7d3c1-1f3c-5d55-9d5e-0d3f0a4e6c11"

_DOCUMENTS: Final = UUID("0d6e1f0e-54a0-5b0b-8c5e-9a3b0f7c2d10")  # the namespace of the points of documents


def clean(text: str) -> str:
    """The text as UTF-8 can hold it: half a pair becomes a question mark."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="replace").decode()
    return text


def document_point(doc_id: str) -> str:
    """The id of a document's own point."""
    return str(uuid5(_DOCUMENTS, clean(doc_id)))


def field_texts(key: str, values: Iterable[str]) -> list[str]:
    """`key=value` for each value; the first `=` divides, so those of the key are written as %3D."""
    name = clean(key).replace("%", "%25").replace("=", "%3D")
    return [f"{name}={clean(value)}" for value in values]


def passage_payload(passage: Passage, place: int) -> dict[str, Any]:
    """`place` is the passage's place among those of its document."""
    return {
        KIND: PASSAGE,
        DOC_ID: clean(passage.doc_id),
        "place": place,
        "title": clean(passage.title),
        "text": clean(passage.text),
        "start": passage.start,
        **{name: clean(value) for name in ("url", "source", "lang") if (value := getattr(passage, name)) is not None},
        **({"label": clean(passage.label)} if passage.label else {}),
        FIELDS: [text for key, values in passage.fields.items() for text in field_texts(key, values)],
    }


def passage_of(point_id: object, payload: Mapping[str, Any]) -> Passage:
    return Passage(
        id=str(point_id),
        doc_id=payload[DOC_ID],
        title=payload["title"],
        text=payload["text"],
        start=payload["start"],
        url=payload.get("url"),
        source=payload.get("source"),
        lang=payload.get("lang"),
        fields=_fields_of(payload.get(FIELDS) or ()),
        label=payload.get("label") or "",
    )


def _fields_of(texts: Iterable[str]) -> Filters:
    values: dict[str, list[str]] = {}
    for text in texts:
        name, _, value = text.partition("=")
        values.setdefault(name.replace("%3D", "=").replace("%25", "%"), []).append(value)
    return {key: tuple(each) for key, each in values.items()}


def document_payload(document: IndexedDocument) -> dict[str, Any]:
    known = {"url": document.url, "origin": document.origin}
    return {
        KIND: DOCUMENT,
        DOC_ID: clean(document.doc_id),
        "sha256": document.sha256,
        "passages": document.passages,
        "title": clean(document.title),
        **({} if document.embedded else {"embedded": False}),
        **{name: clean(value) for name, value in known.items() if value is not None},
    }


def document_of(payload: Mapping[str, Any]) -> IndexedDocument:
    return IndexedDocument(
        doc_id=payload[DOC_ID],
        sha256=payload["sha256"],
        passages=payload["passages"],
        title=payload["title"],
        url=payload.get("url"),
        origin=payload.get("origin"),
        embedded=payload.get("embedded", True),
    )


def facts_payload(collection: Collection) -> dict[str, Any]:
    return {
        KIND: FACTS,
        "embedder": collection.embedder,
        "dimension": collection.dimension,
        "mean": list(collection.mean),
        "words": FORM,
    }


def facts_of(name: str, payload: Mapping[str, Any]) -> Collection:
    """VectorStoreConfigError where its words were written down in another way than questions are asked."""
    if payload.get("words") != FORM:
        raise other_words(name)
    return Collection(
        name=name, embedder=payload["embedder"], dimension=payload["dimension"], mean=tuple(payload["mean"])
    )


# Passages as they enter a store: what is searched by, ready for either client.


@dataclass(frozen=True, slots=True)
class PreparedPoint:
    """`vector` is centred and of length 1; None where there was none that could be used."""

    id: str
    vector: list[float] | None
    words: SparseVector
    payload: dict[str, Any]


def prepared(facts: Collection, *documents: Sequence[EmbeddedPassage]) -> list[PreparedPoint]:
    """The points of documents, in their order."""
    passages = [each for document in documents for each in document]
    vectors = centred_all([each.vector for each in passages], facts)
    payloads = [passage_payload(each.passage, place) for document in documents for place, each in enumerate(document)]
    return [
        PreparedPoint(each.passage.id, vector, passage_words(clean(each.passage.searched)), payload)
        for each, vector, payload in zip(passages, vectors, payloads, strict=True)
    ]


def centred_all(vectors: Sequence[Vector | None], facts: Collection) -> list[list[float] | None]:
    """What `domain.centring.centred` says of each, four times as fast."""
    found: list[list[float] | None] = [None] * len(vectors)
    usable = [place for place, vector in enumerate(vectors) if vector is not None and len(vector) == facts.dimension]
    if not usable or not facts.dimension:
        return found
    try:
        import numpy as np
    except ImportError:  # it comes with the extra, and an embedding service does without
        return [mean_centered(vector, facts.mean, facts.dimension) for vector in vectors]
    with np.errstate(all="ignore"):  # NaN and endless numbers are what we look for
        moved = np.array([vectors[place] for place in usable], dtype=np.float64)
        if facts.mean:
            moved -= facts.mean
        lengths = np.linalg.norm(moved, axis=1)
        good = (lengths > LEAST_LENGTH) & np.isfinite(lengths)
        rows = (moved / np.where(good, lengths, 1)[:, None]).tolist()
    for place, row, is_good in zip(usable, rows, good.tolist(), strict=True):
        found[place] = row if is_good else None
    return found
