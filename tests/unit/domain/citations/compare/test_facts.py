"""Each rule of the comparison of facts, alone."""

from collections.abc import Callable, Mapping
from typing import Final

from tests.support.cases import for_each

from modules.llm_platform.domain.citations.compare.alignment import prepare_source
from modules.llm_platform.domain.citations.compare.changed_names import find_changed_name
from modules.llm_platform.domain.citations.compare.changed_numbers import (
    find_changed_date,
    find_changed_number,
    find_replaced_date,
)
from modules.llm_platform.domain.citations.compare.changes import Change
from modules.llm_platform.domain.citations.compare.comparison import Comparison
from modules.llm_platform.domain.citations.compare.contrasts import find_contrast
from modules.llm_platform.domain.citations.compare.denials import find_denial
from modules.llm_platform.domain.citations.compare.facts import find_change
from modules.llm_platform.domain.citations.read.claims import read_claim

RULES: Final[Mapping[str, Callable[[Comparison], Change | None]]] = {
    rule.__name__: rule
    for rule in (
        find_changed_number,
        find_changed_date,
        find_changed_name,
        find_denial,
        find_contrast,
        find_replaced_date,
    )
}


def compare(claim: str, text: str) -> Comparison:
    source, read = prepare_source(text, "", "en"), read_claim(claim, "en")
    passage = source.find_best_passage(read)
    assert passage is not None
    return Comparison(read, source, passage)


@for_each(
    ("rule", "claim", "text", "claimed", "found"),
    [
        ("find_changed_number", "The fort has 12 gates.", "A wall is near. The fort has 14 gates.", "12", "14"),
        ("find_changed_number", "The wall is 12 feet high.", "The wall is 12 metres high.", "12 feet", "12 metres"),
        ("find_changed_date", "The fort opened in May.", "The fort opened in June.", "May", "June"),
        ("find_changed_name", "The fort of Keller was sold.", "The fort of Strabag was sold.", "Keller", "Strabag"),
        ("find_denial", "The gate is open.", "A wall is near. The gate is closed.", "open", "closed"),
        ("find_contrast", "The rule holds until 30 June.", "The rule holds after 30 June.", "until", "after"),
        (
            "find_replaced_date",
            "The fort opens on 14 May.",
            "The opening of the fort was planned for 14 May. It has been moved to 2 September.",
            "May",
            "September",
        ),
    ],
)
def test_each_rule_finds_its_own_change_and_no_other_rule_does(
    rule: str, claim: str, text: str, claimed: str, found: str
) -> None:
    """Exactly one rule finds the change, in both texts. `find_change` returns its finding."""
    compared = compare(claim, text)
    changes = {name: change for name, find in RULES.items() if (change := find(compared)) is not None}
    assert changes.keys() == {rule}
    change = changes[rule]
    assert (claim[slice(*change.claimed)], text[slice(*change.found)]) == (claimed, found)
    assert find_change(compared) == change


def test_the_same_month_in_another_language_is_no_other_name() -> None:
    compared = compare("The fort closed in March 1923.", "Das Fort wurde geschlossen, closed in März 1923.")
    assert find_changed_name(compared) is None
    other = compare("The fort closed in March 1923.", "Das Fort wurde geschlossen, closed in Linz 1923.")
    assert find_changed_name(other) is not None
