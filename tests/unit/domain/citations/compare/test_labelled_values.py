"""A label of the source with the value of another label is contradicted."""

from __future__ import annotations

from tests.support.cases import for_each
from tests.support.contradictions import assert_contradicted, cite

COMMITTEE = "Chair: Ann Lee. Treasurer: Bob Ray. Secretary: Dora Finn."
MINUTES = "Present: Ann Lee, Bob Ray\nApologies: Dora Finn, Emil Holt\n"
HOURS = "Monday: closed\nTuesday: 10 to 18\nWednesday: 10 to 14\n"
VERTRAG = "Vermieter: Ute Lang\nMieter: Max Braun\nObjekt: Wohnung im Hof\n"


@for_each(
    ("text", "sentence", "claimed", "found", "language"),
    [
        (COMMITTEE, "Bob Ray is the chair.", "Bob Ray", "Ann Lee", "en"),
        (MINUTES, "Dora Finn was present.", "Dora Finn", "Ann Lee, Bob Ray", "en"),
        (HOURS, "The shop is closed on Tuesday.", "closed", "10 to 18", "en"),
        (VERTRAG, "Der Vermieter ist Max Braun.", "Max Braun", "Ute Lang", "de"),
    ],
)
def test_the_value_of_another_label_is_contradicted(
    text: str, sentence: str, claimed: str, found: str, language: str
) -> None:
    assert_contradicted(sentence, text, language, claimed=claimed, found=found)


@for_each(
    ("text", "sentence", "language"),
    [
        (COMMITTEE, "Bob Ray is the treasurer.", "en"),
        (COMMITTEE, "Bob Ray is not the chair.", "en"),
        (f"{COMMITTEE} Bob Ray was elected chair for 2026.", "Bob Ray is the chair for 2026.", "en"),
        (MINUTES, "Dora Finn sent apologies.", "en"),
        (HOURS, "The shop is closed on Monday.", "en"),
        ("Salad: Ida\nDrinks: Max\n", "Max brings the drinks and Ida the salad.", "en"),
    ],
)
def test_the_value_of_the_same_label_is_not(text: str, sentence: str, language: str) -> None:
    assert cite(sentence, text, language).finding != "contradicts"
