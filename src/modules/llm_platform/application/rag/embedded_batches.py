"""Documents with vectors, and the mean of the vectors of a new collection."""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Final

from modules.llm_platform.domain.dtos.retrieval_dtos import EmbeddedPassage, IndexedDocument, Vector
from modules.llm_platform.domain.retrieval.mean_centering import compute_mean_vector

MEAN_PASSAGES: Final = 2000  # the mean of the vectors is computed once there are this many


@dataclass(slots=True)
class EmbeddedBatch:
    """Documents with vectors, ready to be stored; see DocumentBatch."""

    position: int
    documents: list[tuple[IndexedDocument, list[EmbeddedPassage]]] = field(default_factory=list)
    known: Mapping[str, IndexedDocument] = field(default_factory=dict)

    @property
    def vectors(self) -> list[Vector]:
        return [passage.vector for _, passages in self.documents for passage in passages if passage.vector is not None]


async def collect_mean(
    batches: AsyncGenerator[EmbeddedBatch, None],
) -> tuple[list[EmbeddedBatch], tuple[float, ...]]:
    """Return the first batches with at least MEAN_PASSAGES passages together, and the mean of their vectors."""
    first: list[EmbeddedBatch] = []
    passages = 0
    async for batch in batches:
        first.append(batch)
        passages += sum(len(embedded) for _, embedded in batch.documents)
        if passages >= MEAN_PASSAGES:
            break
    return first, compute_mean_vector([vector for batch in first for vector in batch.vectors])
