"""Each name of a sentence has its own clause: what another person does contradicts the claim."""

from __future__ import annotations

from tests.support.cases import for_each
from tests.support.contradictions import assert_contradicted, cite

KEYS = "Ann Lee has the keys and Bob Ray does the accounts."


def test_what_another_person_does_contradicts() -> None:
    assert_contradicted("Bob Ray has the keys.", KEYS, "en", claimed="Bob Ray", found="Ann Lee")


@for_each(
    ("text", "sentence"),
    [
        (KEYS, "Ann Lee has the keys."),
        (KEYS, "Bob Ray does the accounts."),
        ("The bridge was designed by Ann Lee and opened by Bob Ray in 1990.", "Bob Ray opened the bridge."),
        (
            "Two singers, Wilma and Kurt, go by train and meet us in Ljubljana.",
            "Two singers go by train, and join in Ljubljana.",
        ),
    ],
)
def test_its_own_clause_does_not(text: str, sentence: str) -> None:
    assert cite(sentence, text).finding != "contradicts"


@for_each(
    ("text", "sentence", "language"),
    [
        ("Imke Brandt verträgt kein Gluten.", "Inge Brandt verträgt kein Gluten.", "de"),
        ("Joanne Lee sells the tickets.", "Joan Lea sells the tickets.", "en"),
    ],
)
def test_a_similar_name_is_not_supported(text: str, sentence: str, language: str) -> None:
    assert cite(sentence, text, language).verdict != "supported"
