"""The facts of a collection that is being made: the mean of its vectors is taken from its first passages, and frozen."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Final

from modules.llm_platform.domain.centring import MAX_VECTORS, mean_of
from modules.llm_platform.domain.dtos.retrieval_dtos import EmbeddedPassage, IndexedDocument, Vector

MEAN_FROM: Final = 2000  # passages that are waited for, so that the mean is not that of the first few documents


@dataclass(slots=True)
class EmbeddedBatch:
    """Documents with vectors, ready to be stored; see `Batch`."""

    place: int
    documents: list[tuple[IndexedDocument, list[EmbeddedPassage]]] = field(default_factory=list)
    known: Mapping[str, IndexedDocument] = field(default_factory=dict)

    @property
    def vectors(self) -> list[Vector]:
        return [each.vector for _, passages in self.documents for each in passages if each.vector is not None]


async def beginning(batches: AsyncGenerator[EmbeddedBatch, None]) -> tuple[list[EmbeddedBatch], tuple[float, ...]]:
    """The first batches, until there are enough passages or no more batches, and the mean of their vectors."""
    first: list[EmbeddedBatch] = []
    passages = 0
    async for batch in batches:
        first.append(batch)
        passages += sum(len(each) for _, each in batch.documents)
        if passages >= MEAN_FROM:
            break
    vectors = [vector for batch in first for vector in batch.vectors]
    step = max(1, len(vectors) // MAX_VECTORS)
    return first, mean_of(vectors[::step])
