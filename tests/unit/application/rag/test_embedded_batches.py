"""application/rag/embedded_batches.py"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from modules.llm_platform.application.rag.embedded_batches import MEAN_PASSAGES, EmbeddedBatch, collect_mean
from modules.llm_platform.domain.dtos.retrieval_dtos import EmbeddedPassage, IndexedDocument, Passage, Vector
from modules.llm_platform.domain.retrieval.mean_centering import MIN_VECTORS

DOCUMENT = IndexedDocument(doc_id="a", sha256="1", passages=1)
PASSAGE = Passage(id="1", doc_id="a", title="", text="text")
BATCH = 256
LONGEST_STEP = 2.0  # between two vectors of length 1


async def mean_of(vectors: Sequence[Vector]) -> tuple[float, ...]:
    async def batches() -> AsyncGenerator[EmbeddedBatch, None]:
        for begin in range(0, len(vectors), BATCH):
            passages = [EmbeddedPassage(PASSAGE, vector) for vector in vectors[begin : begin + BATCH]]
            yield EmbeddedBatch(begin, [(DOCUMENT, passages)])

    _, mean = await collect_mean(batches())
    return mean


def two_subjects(count: int) -> list[Vector]:
    """Return unit vectors. The first four fifths point in one direction, and the rest in another."""
    return [[1.0, 0.0, 0.0] if position < count * 4 // 5 else [0.0, 1.0, 0.0] for position in range(count)]


@given(st.integers(MIN_VECTORS, MEAN_PASSAGES - 1), st.floats(0, 1))
@example(399, 0.0)
@example(999, 0.8)
@settings(max_examples=30, deadline=None)
def test_one_more_passage_moves_the_mean_by_its_share(count: int, place: float) -> None:
    """Otherwise a page that answers no question would change the answers to all of them."""
    before = two_subjects(count)
    position = int(place * count)
    after = [*before[:position], [0.0, 0.0, 1.0], *before[position:]]
    assert math.dist(asyncio.run(mean_of(before)), asyncio.run(mean_of(after))) <= LONGEST_STEP / (count + 1)


async def test_every_vector_counts() -> None:
    """A subject that only the last passages have is part of the mean."""
    assert await mean_of(two_subjects(999)) == pytest.approx((799 / 999, 200 / 999, 0.0))
