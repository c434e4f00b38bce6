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
        ("pip install torch", STATIC, 1, 2),
        ("How do I convert a naïve datetime?", STATIC, 1, 2),
        ("Wie kann ich herausfinden, welches Paket eine Datei enthält?", STATIC, 3, 4),
        ("Quelle est la différence entre ces deux paquets ?", STATIC, 3, 4),
        ("Quelle est la différence entre ces deux paquets ?", OTHER, 1, 2),
        ("生产环境中的向量数据库", STATIC, 3, 4),
        ("как отменить задачу", STATIC, 3, 4),
        ("как отменить задачу", OTHER, 1, 2),
        ("?!", STATIC, 0, 1),
    ],
)
def test_words_count_thrice_where_vectors_are_weak(text: str, facts: Collection, words: int, lists: int) -> None:
    """In languages that the static vectors know little of; not for another embedder, nor where no language can be told."""
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
    assert [asked.score(fused) for fused in (-0.2, 0.0, 1.0, 1.6)] == [0.0, 0.0, 0.5, 0.8]
    assert 0.9 < asked.score(2.4) < 1


def test_the_best_are_told_apart() -> None:
    """Those that stand out from all candidates are no equals, however far they do."""
    asked = question(STATIC, "cats", None, 5)
    scores = [asked.score(tenth / 10) for tenth in range(30)]
    assert sorted(set(scores)) == scores


def test_empty_filters_are_none() -> None:
    """An empty list is as if nothing had been given."""
    assert chosen({"a": (), "b": ("x",)}) == [("b", ("x",))]
