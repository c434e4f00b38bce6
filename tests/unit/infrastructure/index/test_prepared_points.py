"""Passages as they enter a store."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modules.llm_platform.domain.dtos.retrieval_dtos import Collection, EmbeddedPassage, Passage, Vector
from modules.llm_platform.domain.retrieval.mean_centering import subtract_mean
from modules.llm_platform.infrastructure.index.payloads import prepare_points

COLLECTION_INFO = Collection(name="n", embedder="e", dimension=3, mean=(0.25, 0.0, -0.5))
NUMBERS = st.floats() | st.sampled_from([0.0, 0.25, -0.5, math.nan, math.inf])


def vectors_of(collection_info: Collection, vectors: list[Vector | None]) -> list[list[float] | None]:
    passage = Passage(id="i", doc_id="d", title="", text="")
    return [
        point.vector
        for point in prepare_points(collection_info, [EmbeddedPassage(passage, vector) for vector in vectors])
    ]


@given(st.lists(st.none() | st.lists(NUMBERS, max_size=4), max_size=6))
def test_centred_as_one_by_one(vectors: list[Vector | None]) -> None:
    """Each vector equals the result of the domain function, whatever the batch."""
    for found, vector in zip(vectors_of(COLLECTION_INFO, vectors), vectors, strict=True):
        expected = subtract_mean(vector, COLLECTION_INFO.mean, COLLECTION_INFO.dimension)
        if vector and max(map(abs, vector)) > 1e150:  # beyond that one of the two ways may give up
            assert found is None or all(map(math.isfinite, found))
        else:
            assert found == (None if expected is None else pytest.approx(expected, abs=1e-9))


def test_without_an_embedder() -> None:
    """A keyword collection has no vectors."""
    assert vectors_of(COLLECTION_INFO.model_copy(update={"dimension": 0, "mean": ()}), [[1.0], [], None]) == [None] * 3


def test_the_place_in_the_document() -> None:
    """Each passage knows its place."""
    passages = [EmbeddedPassage(Passage(id=str(n), doc_id="d", title="Zebra", text=f"text{n}"), None) for n in range(3)]
    points = list(prepare_points(COLLECTION_INFO, passages))
    assert [(point.id, point.payload["place"]) for point in points] == [("0", 0), ("1", 1), ("2", 2)]


def test_the_words_of_the_label() -> None:
    """The words of the label are searchable, but the stored text is the passage's own."""
    passage = Passage(id="1", doc_id="d", title="", text="It draws four kilowatts.")
    (plain,) = prepare_points(COLLECTION_INFO, [EmbeddedPassage(passage, None)])
    (led,) = prepare_points(COLLECTION_INFO, [EmbeddedPassage(passage.model_copy(update={"label": "Pump"}), None)])
    assert len(set(led.words.indices) - set(plain.words.indices)) == 1
    assert led.payload == {**plain.payload, "label": "Pump"}
