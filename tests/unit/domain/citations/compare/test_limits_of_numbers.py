"""A limit beside a number is compared, also if it is written with a "not": "no more than eight"."""

from __future__ import annotations

from tests.support.cases import for_each
from tests.support.contradictions import cite


@for_each(
    ("text", "sentence", "language"),
    [
        ("A class has no more than eight guests.", "A class has at least eight guests.", "en"),
        ("A class has more than eight guests.", "A class has fewer than eight guests.", "en"),
        ("A class has no fewer than eight guests.", "A class has at most eight guests.", "en"),
        ("Der Kurs hat nicht mehr als acht Gäste.", "Der Kurs hat mindestens acht Gäste.", "de"),
        ("Le cours ne compte pas plus de huit personnes.", "Le cours compte au moins huit personnes.", "fr"),
    ],
)
def test_the_opposite_limit_contradicts(text: str, sentence: str, language: str) -> None:
    assert cite(sentence, text, language).finding == "contradicts"


@for_each(
    ("text", "sentence"),
    [
        ("A class has no more than eight guests.", "A class has at most eight guests."),
        ("A class has at most eight guests.", "A class has no more than eight guests."),
        ("A class has at least eight guests.", "A class has no fewer than eight guests."),
    ],
)
def test_the_same_limit_in_other_words_supports(text: str, sentence: str) -> None:
    assert cite(sentence, text).verdict == "supported"


def test_a_comparison_without_a_number_is_still_denied() -> None:
    assert cite("The hall is older than the church.", "The hall is not older than the church.").finding == "contradicts"
