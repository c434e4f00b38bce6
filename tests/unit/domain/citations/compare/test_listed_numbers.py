"""A number that belongs to another item of a list contradicts a claim."""

from __future__ import annotations

from tests.support.cases import for_each
from tests.support.contradictions import assert_contradicted, cite

PRICES = "Adults pay £12, children £5 and pensioners £8."
DISCOUNTS = "Discounts: volunteers 20%, teachers 10% on books only."
BEDS = "Walk-ins: 39 euros in the dormitory, 72 for a single room."
EINTRITT = "Erwachsene zahlen 12 Euro, Kinder 5 Euro und Rentner 8 Euro."
STAFF = "Of the 54 employees, 31 have been offered work on other lines."


@for_each(
    ("text", "sentence", "claimed", "found", "language"),
    [
        (PRICES, "Children pay £8.", "8", "5", "en"),
        (PRICES, "Pensioners pay £5.", "5", "8", "en"),
        (PRICES, "Adults pay £5.", "5", "12", "en"),
        (PRICES, "Children pay £12.", "12", "5", "en"),
        (BEDS, "A single room costs 39 euros.", "39", "72", "en"),
        (EINTRITT, "Kinder zahlen 8 Euro.", "8", "5", "de"),
        (STAFF, "All 54 employees have been offered work on other lines.", "54", "31", "en"),
    ],
)
def test_the_number_of_another_item_is_contradicted(
    text: str, sentence: str, claimed: str, found: str, language: str
) -> None:
    assert_contradicted(sentence, text, language, claimed=claimed, found=found)


@for_each(
    ("text", "sentence", "language"),
    [
        (PRICES, "Adults pay £12.", "en"),
        (PRICES, "Children pay £5.", "en"),
        (PRICES, "The £8 that pensioners pay is more than children pay.", "en"),
        (DISCOUNTS, "Volunteers get 20%.", "en"),
        (BEDS, "A single room costs 72 euros.", "en"),
        (BEDS, "A place in the dormitory is 39 euros.", "en"),
        (EINTRITT, "Rentner zahlen 8 Euro.", "de"),
        ("A lesson costs £32 for half an hour and £60 an hour.", "A lesson costs £60 an hour.", "en"),
        ("The hall opened in 1987, the bar in 1990.", "Since 1990 the hall has a bar.", "en"),
    ],
)
def test_the_number_of_the_same_item_is_not(text: str, sentence: str, language: str) -> None:
    """Nor is a number whose item has another name in the claim."""
    assert cite(sentence, text, language).finding != "contradicts"


@for_each(
    ("text", "sentence", "finding"),
    [
        (
            "Eleven applications came in, and four candidates will be invited.",
            "Eleven candidates will be invited.",
            "contradicts",
        ),
        ("Eleven applications came in, and four candidates will be invited.", "Four candidates will be invited.", None),
        ("The repair costs £310 and the collection a further £85, £395 in all.", "The repair costs £395 in all.", None),
    ],
)
def test_a_number_counts_its_own_noun_and_a_total_has_none(text: str, sentence: str, finding: str | None) -> None:
    assert cite(sentence, text).finding == finding
