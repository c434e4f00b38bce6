"""How a hybrid query is put to a store."""

from __future__ import annotations

from tests.support.cases import for_each

from modules.llm_platform.domain.dtos.retrieval_dtos import Collection
from modules.llm_platform.infrastructure.index.hybrid import build_hybrid_query, select_active_filters

STATIC = Collection(name="n", embedder="wordllama/l2_supercat_256", dimension=2)


@for_each(
    ("text", "vector", "lists"),
    [
        ("cats drink milk", [1.0, 0.0], 2),
        ("как отменить задачу", [1.0, 0.0], 2),
        ("cats drink milk", None, 1),
        ("?!", [1.0, 0.0], 1),
        ("?!", [0.0, 0.0], 0),
    ],
)
def test_a_list_each(text: str, vector: list[float] | None, lists: int) -> None:
    """One by meaning and one by words, in any language; none where there is nothing to ask by."""
    assert build_hybrid_query(STATIC, text, vector).lists == lists


def test_scores() -> None:
    """From 0 to 1, whatever the store adds up."""
    asked = build_hybrid_query(STATIC, "cats", [1.0, 0.0])
    assert [asked.score(fused) for fused in (-0.2, 0.0, 1.0, 1.6)] == [0.0, 0.0, 0.5, 0.8]
    assert 0.9 < asked.score(2.4) < 1


def test_best_scores_stay_distinct() -> None:
    """High outliers keep different scores, however far above the others they are."""
    asked = build_hybrid_query(STATIC, "cats", None)
    scores = [asked.score(tenth / 10) for tenth in range(30)]
    assert sorted(set(scores)) == scores


def test_empty_filters_are_none() -> None:
    """An empty list is as if nothing had been given."""
    assert select_active_filters({"a": (), "b": ("x",)}) == [("b", ("x",))]
