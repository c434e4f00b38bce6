"""Passages as they enter a store: what is searched by, ready for either client."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from modules.llm_platform.domain.bm25 import SparseVector, passage_words
from modules.llm_platform.domain.centring import LEAST_LENGTH, centred
from modules.llm_platform.domain.dtos.retrieval_dtos import Collection, EmbeddedPassage, Vector
from modules.llm_platform.infrastructure.vectors.payloads import clean, passage_payload


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
        return [centred(vector, facts.mean, facts.dimension) for vector in vectors]
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
