"""How a question is put to a store."""

from __future__ import annotations

import pytest

from modules.llm_platform.domain.dtos.retrieval_dtos import Collection
from modules.llm_platform.infrastructure.vectors.hybrid import CANDIDATES, chosen, question

STATIC = Collection(name="n", embedder="wordllama/l2_supercat_256", dimension=2)
OTHER = STATIC.model_copy(update={"embedder": "openai/text-embedding-3-small"})


@pytest.mark.parametrize(
    ("text", "facts", "words", "lists"),
    [
        ("cats drink milk", STATIC, 1, 2),
        ("Straße nach Köln", STATIC, 1, 2),
        ("向量数据库 in production", STATIC, 1, 2),
        ("生产环境中的向量数据库", STATIC, 2, 3),
        ("как отменить задачу", STATIC, 2, 3),
        ("как отменить задачу", OTHER, 1, 2),
        ("?!", STATIC, 0, 1),
    ],
)
def test_words_count_twice_where_vectors_are_weak(text: str, facts: Collection, words: int, lists: int) -> None:
    """In scripts that the static vectors know little of; not for another embedder."""
    asked = question(facts, text, [1.0, 0.0], 5)
    assert (asked.word_lists, asked.lists) == (words, lists)


def test_without_a_vector() -> None:
    """Words alone need no second list."""
    asked = question(STATIC, "как отменить задачу", None, 5)
    assert (asked.vector, asked.word_lists) == (None, 1)
    assert question(STATIC, "?!", [0.0, 0.0], 5).lists == 0


def test_candidates() -> None:
    """Enough to fuse, and more than are wanted."""
    assert question(STATIC, "x", None, 5).candidates == CANDIDATES
    assert question(STATIC, "x", None, 500).candidates == 1000


def test_scores() -> None:
    """From 0 to 1, whatever the store adds up."""
    asked = question(STATIC, "cats", [1.0, 0.0], 5)
    assert [asked.score(fused) for fused in (-0.2, 0.0, 1.0, 2.4)] == [0.0, 0.0, 0.5, 1.0]


def test_empty_filters_are_none() -> None:
    """An empty list is as if nothing had been given."""
    assert chosen({"a": (), "b": ("x",)}) == [("b", ("x",))]
