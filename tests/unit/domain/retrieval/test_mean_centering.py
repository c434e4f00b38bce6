"""The mean that is taken away from vectors."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each

from modules.llm_platform.domain.retrieval.mean_centering import MIN_VECTORS, compute_mean_vector, subtract_mean


def test_the_mean() -> None:
    """All vectors have equal weight. Too few vectors have no mean."""
    assert compute_mean_vector([[1.0, 0.0]] * (MIN_VECTORS - 1)) == ()
    assert compute_mean_vector([[1.0, 0.0], [0.0, 1.0]] * MIN_VECTORS) == (0.5, 0.5)
    assert compute_mean_vector([[1.0, 0.0]] * 900 + [[0.0, 9.0]] * 100) == (0.9, 0.9)


def test_the_mean_is_subtracted() -> None:
    """What is left points away from the mean, and has length 1."""
    assert subtract_mean([1.0, 0.1], (1.0, 0.0), 2) == [0.0, 1.0]
    assert subtract_mean([3.0, 4.0], (), 2) == pytest.approx([0.6, 0.8])


@for_each("vector", [None, [], [1.0], [1.0, 2.0, 3.0], [math.nan, 1.0], [math.inf, 1.0], [0.0, 0.0], [1e-9, 0.0]])
def test_vectors_without_direction_give_none(vector: list[float] | None) -> None:
    """No direction, no vector."""
    assert subtract_mean(vector, (), 2) is None


def test_a_vector_that_is_the_mean() -> None:
    """Nothing is left of it."""
    assert subtract_mean([0.6, 0.8], (0.6, 0.8), 2) is None


@given(st.lists(st.floats(width=32), min_size=3, max_size=3))
def test_never_nan(vector: list[float]) -> None:
    """Either a vector of length 1 or none at all."""
    found = subtract_mean(vector, (0.1, 0.1, 0.1), 3)
    assert found is None or math.hypot(*found) == pytest.approx(1.0)
