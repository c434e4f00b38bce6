"""A price contradicts "free of charge"."""

from __future__ import annotations

from tests.support.cases import for_each
from tests.support.contradictions import assert_contradicted, cite


@for_each(
    ("text", "sentence", "claimed", "found", "language"),
    [
        ("Parking costs £5 a day.", "Parking is free.", "is free", "£5", "en"),
        ("The use of the freezer costs £5.", "The use of the freezer is free of charge.", "free of charge", "£5", "en"),
        ("Der Eintritt kostet 5 Euro.", "Der Eintritt ist kostenlos.", "kostenlos", "5 Euro", "de"),
    ],
)
def test_free_of_charge_is_contradicted_by_a_price(
    text: str, sentence: str, claimed: str, found: str, language: str
) -> None:
    assert_contradicted(sentence, text, language, claimed=claimed, found=found)


@for_each(
    ("text", "sentence"),
    [
        ("Admission: adults £5, children free.", "Children enter free of charge."),
        ("The hall costs £10 on Mondays.", "The hall is free on Monday."),
        ("Delivery is free for orders above £50.", "Delivery is free for orders above £50."),
    ],
)
def test_another_sense_or_another_group_is_not(text: str, sentence: str) -> None:
    assert cite(sentence, text).finding != "contradicts"
