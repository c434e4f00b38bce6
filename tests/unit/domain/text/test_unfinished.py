"""A text that ends before it has said anything."""

from __future__ import annotations

from tests.support.cases import for_each

from modules.llm_platform.domain.text.unfinished import lacks_end


@for_each(
    "text",
    ["The wifi password in the village hall is", "Le numéro de la gardienne est :", "Die Miete beträgt sie und ist"],
)
def test_a_sentence_that_ends_in_to_be_lacks_its_end(text: str) -> None:
    assert lacks_end(text)


@for_each(
    "text",
    ["Yes, the pool is", "Nobody knows where it is", "It is", "The hall is. It was", "The password is secret", "", "5"],
)
def test_other_texts_are_finished(text: str) -> None:
    assert not lacks_end(text)
