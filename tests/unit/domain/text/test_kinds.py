"""Words of one kind exclude each other: what is gold is not silver."""

from __future__ import annotations

from tests.support.cases import for_each
from tests.support.contradictions import cite

from modules.llm_platform.domain.text.data_files import load_data
from modules.llm_platform.domain.text.kinds import find_other_of_kind


@for_each(
    ("word", "words", "other"),
    [
        ("gold", ["the", "silver", "medal"], "silver"),
        ("weiss", ["die", "wand", "ist", "schwarz"], "schwarz"),
        ("gold", ["gold", "and", "silver"], None),
        ("gold", ["silver", "and", "bronze"], None),
        ("medal", ["the", "silver", "medal"], None),
    ],
)
def test_another_word_of_the_kind_is_found(word: str, words: list[str], other: str | None) -> None:
    """None is found if the text has the word itself, or if it has two others."""
    assert find_other_of_kind(word, words) == other


def test_each_word_is_of_one_kind() -> None:
    words = [word for kind in load_data("kinds")["kinds"] for forms in kind for word in forms.split()]
    assert len(words) == len(set(words))


@for_each(
    ("source", "claim", "is_contradicted"),
    [
        ("Her coxswain, William Dace, received the silver medal.", "William Dace received the gold medal.", True),
        ("The office is on the second floor of the house.", "The office is on the third floor of the house.", True),
        ("The jury awarded gold to Ana, silver to Ben and bronze to Cy.", "The jury awarded silver to Ben.", False),
        ("The soup is served with white bread and red wine.", "Red wine is served.", False),
        ("She won the first of her two titles in the second half of 1999.", "She won her first title in 1999.", False),
        (
            "Das Museum zeigt im Sommer Malerei und im Winter Skulpturen.",
            "Das Museum zeigt im Winter Skulpturen.",
            False,
        ),
        ("The tenant must give two months of notice.", "The landlord must be given two months of notice.", False),
    ],
)
def test_a_claim_with_another_word_of_the_kind_is_contradicted(source: str, claim: str, is_contradicted: bool) -> None:
    """Only if its source has all its other words, and not the claim's own."""
    assert (cite(claim, source).finding == "contradicts") is is_contradicted
