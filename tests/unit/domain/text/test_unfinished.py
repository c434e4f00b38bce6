"""A text that ends before it has said anything."""

from __future__ import annotations

from tests.support.cases import for_each

from modules.llm_platform.domain.text.unfinished import is_unfinished


@for_each(
    "text",
    ["The wifi password in the village hall is [3][1]", "Le numéro de la gardienne est [1].", "**The fee is** [2]"],
)
def test_markers_after_to_be_leave_a_sentence_unfinished(text: str) -> None:
    assert is_unfinished(text.replace("**", ""))


@for_each(
    "text",
    [
        "Yes, the pool is [1].",
        "The price depends on how old the child is. [1]",
        "The price depends on how old the child is [1].",
        "Der Eintritt ist frei, weil heute Sonntag ist [1].",
        "The sources do not say who the owner is [1].",
        "Nobody knows where it is [1]",
        "It is [1]",
        "The hall is. It was [1]",
        "The password is secret [1]",
        "The password is",
        "",
        "[1]",
    ],
)
def test_other_texts_are_finished(text: str) -> None:
    assert not is_unfinished(text)
