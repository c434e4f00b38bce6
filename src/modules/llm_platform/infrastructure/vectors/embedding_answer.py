"""Vectors out of a service's answer: `{"data": [{"index": 0, "embedding": [...]}, …]}`, whatever else it may be."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from modules.llm_platform.domain.centring import centred
from modules.llm_platform.domain.dtos.retrieval_dtos import Vector
from modules.llm_platform.domain.exceptions import EmbeddingError
from modules.llm_platform.infrastructure.foreign_json import dict_of, list_of, number_of

MAX_DIMENSION: Final = 16_384


def vectors_in(answer: Mapping[str, Any], count: int, name: str) -> tuple[list[Vector | None], int]:
    """`count` vectors of length 1 in the order of the texts, and their dimension; None for one that points nowhere.

    Raises EmbeddingError where they are too few, too many or of several lengths.
    """
    rows = [dict_of(row) for row in list_of(answer.get("data"))]
    by_index = {_index(row, place): list_of(row.get("embedding")) for place, row in enumerate(rows)}
    if len(rows) != count or sorted(by_index) != list(range(count)):
        raise EmbeddingError(f"{name} answered with {len(rows)} vectors for {count} texts")
    lengths = {len(numbers) for numbers in by_index.values()}
    if len(lengths) > 1 or not 0 < max(lengths, default=0) <= MAX_DIMENSION:
        raise EmbeddingError(f"{name} answered with something that are no vectors")
    dimension = lengths.pop()
    return [centred(_numbers(by_index[place]), (), dimension) for place in range(count)], dimension


def _index(row: Mapping[str, Any], place: int) -> int:
    index = row.get("index")
    return index if type(index) is int else place


def _numbers(values: Sequence[Any]) -> list[float]:
    """NaN, which gives no vector, in the place of what is no number."""
    return [math.nan if (number := number_of(value)) is None else number for value in values]
