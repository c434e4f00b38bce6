"""What a source denies beside what it affirms, or allows only under a condition, contradicts the claim."""

from __future__ import annotations

from tests.support.cases import for_each
from tests.support.contradictions import cite

FILTERS = "Filters are cleaned every 100 hours, not every month as the old sheet says."
CHILDREN = "Children under twelve may attend in the evening only if an adult is with them."


def test_a_denied_alternative_contradicts() -> None:
    assert cite("The filters are cleaned every month.", FILTERS).finding == "contradicts"


@for_each(
    ("text", "sentence"),
    [
        (FILTERS, "The filters are cleaned every 100 hours."),
        ("The club, not the council, pays for the roof.", "The club pays for the roof."),
        (CHILDREN, "Children under twelve may attend in the evening if an adult is with them."),
    ],
)
def test_what_holds_is_not_contradicted(text: str, sentence: str) -> None:
    assert cite(sentence, text).finding != "contradicts"


@for_each(
    ("text", "sentence"),
    [
        ("The club, not the council, pays for the roof.", "The council pays for the roof."),
        (CHILDREN, "Children under twelve never attend in the evening."),
    ],
)
def test_an_insertion_and_an_exception_contradict(text: str, sentence: str) -> None:
    assert cite(sentence, text).finding == "contradicts"


@for_each(
    ("text", "sentence", "is_denied"),
    [
        ("Ben has cleaned the kitchen for two months and is not willing to go on.", "Ben cleaned the kitchen.", False),
        ("Ben has cleaned the kitchen and is not willing to go on.", "Ben is willing to go on.", True),
        ("Dogs and cats are not allowed.", "Dogs and cats are allowed.", True),
    ],
)
def test_a_negator_after_and_denies_its_own_clause(text: str, sentence: str, is_denied: bool) -> None:
    assert (cite(sentence, text).finding == "contradicts") is is_denied
