"""A sentence that says what changed contradicts the old value and the other direction."""

from __future__ import annotations

from tests.support.cases import for_each
from tests.support.contradictions import assert_contradicted, cite

RENT = "The rent increased from £700 to £750 on 1 May."
BEITRAG = "Der Beitrag wurde von 40 auf 48 Euro erhöht."
MEMBERS = "Membership was 214, up from 198 a year earlier."


@for_each(
    ("text", "sentence", "claimed", "found", "language"),
    [
        (RENT, "The rent is £700.", "700", "750", "en"),
        (BEITRAG, "Der Beitrag beträgt 40 Euro.", "40", "48", "de"),
        ("From May the library opens at ten instead of nine.", "The library opens at nine.", "nine", "ten", "en"),
        ("Breakfast costs £9 (previously £8).", "Breakfast costs £8.", "8", "9", "en"),
        (RENT, "The rent is cheaper than before.", "cheaper", "750", "en"),
        (MEMBERS, "Membership fell.", "fell", "214", "en"),
        (BEITRAG, "Der Beitrag ist gesunken.", "gesunken", "48", "de"),
    ],
)
def test_an_old_value_or_the_other_direction_is_contradicted(
    text: str, sentence: str, claimed: str, found: str, language: str
) -> None:
    assert_contradicted(sentence, text, language, claimed=claimed, found=found)


@for_each(
    ("text", "sentence", "language"),
    [
        (RENT, "The rent is £750.", "en"),
        (RENT, "The rent was £700 before.", "en"),
        (BEITRAG, "Der Beitrag betrug vorher 40 Euro.", "de"),
        (MEMBERS, "Membership rose.", "en"),
        ("The shop is open from 9 to 17.", "The shop opens at 9.", "en"),
        ("Inflation fell from 3.1% to 2.8%, still above 2%.", "Inflation is higher than 2%.", "en"),
    ],
)
def test_the_new_value_and_the_same_direction_are_not(text: str, sentence: str, language: str) -> None:
    """Nor is an old value that the sentence calls old."""
    assert cite(sentence, text, language).finding != "contradicts"


def test_other_words_with_the_other_direction_support_in_part_at_best() -> None:
    citation = cite("The club has more than a year earlier.", "The balance was £234, down from £281 a year earlier.")
    assert citation.verdict != "supported"
