"""Each rule of the comparison of facts, alone."""

from collections.abc import Callable, Mapping
from typing import Final

from tests.support.cases import for_each

from modules.llm_platform.domain.citations.compare.alignment import prepare_source
from modules.llm_platform.domain.citations.compare.comparison import Comparison
from modules.llm_platform.domain.citations.compare.contrasts import find_contrast
from modules.llm_platform.domain.citations.compare.denials import find_denial
from modules.llm_platform.domain.citations.compare.facts import find_mismatch, is_partial_at_best
from modules.llm_platform.domain.citations.compare.mismatches import Mismatch
from modules.llm_platform.domain.citations.compare.name_mismatches import find_name_mismatch
from modules.llm_platform.domain.citations.compare.number_mismatches import (
    find_date_mismatch,
    find_number_mismatch,
    find_replaced_date,
)
from modules.llm_platform.domain.citations.read.claims import read_claim

RULES: Final[Mapping[str, Callable[[Comparison], Mismatch | None]]] = {
    rule.__name__: rule
    for rule in (
        find_number_mismatch,
        find_date_mismatch,
        find_name_mismatch,
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
        ("find_number_mismatch", "The fort has 12 gates.", "A wall is near. The fort has 14 gates.", "12", "14"),
        ("find_number_mismatch", "The wall is 12 feet high.", "The wall is 12 metres high.", "12 feet", "12 metres"),
        ("find_date_mismatch", "The fort opened in May.", "The fort opened in June.", "May", "June"),
        ("find_name_mismatch", "The fort of Keller was sold.", "The fort of Strabag was sold.", "Keller", "Strabag"),
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
    """Exactly one rule finds the change, in both texts. `find_mismatch` returns its finding."""
    compared = compare(claim, text)
    changes = {name: change for name, find in RULES.items() if (change := find(compared)) is not None}
    assert changes.keys() == {rule}
    change = changes[rule]
    assert (claim[slice(*change.claimed)], text[slice(*change.found)]) == (claimed, found)
    assert find_mismatch(compared) == change


def test_the_same_month_in_another_language_is_no_other_name() -> None:
    compared = compare("The fort closed in March 1923.", "Das Fort wurde geschlossen, closed in März 1923.")
    assert find_name_mismatch(compared) is None
    other = compare("The fort closed in March 1923.", "Das Fort wurde geschlossen, closed in Linz 1923.")
    assert find_name_mismatch(other) is not None


PRICES = "Adults pay £12, children £5 and pensioners £8."


@for_each(
    ("claim", "text"),
    [
        ("Seniors pay £8.", PRICES),
        ("Seniors pay £8.", f"## Prices for Adults and Pensioners\n\n{PRICES}"),
        ("Seniors pay £8.", f"{PRICES} Tickets are at the door (Adults have the left one)."),
        ("Guests keep their shoes on.", "Visitors keep their shoes on."),
        ("Pupils stay with Mrs Tanaka.", "Children stay with Mrs Tanaka."),
    ],
)
def test_a_capital_at_the_beginning_of_a_sentence_makes_no_name(claim: str, text: str) -> None:
    """The words may mean the same or not, so the claim is partial at best."""
    compared = compare(claim, text)
    assert find_name_mismatch(compared) is None
    assert is_partial_at_best(compared)


@for_each(
    ("claim", "text", "found"),
    [
        ("Fatima rings the bank before lunch.", "Chiara rings the bank. Ask Chiara about it.", "Chiara"),
        ("Leon Strauss was the chief engineer.", "Joseph Strauss was the chief engineer.", "Joseph"),
    ],
)
def test_a_name_at_the_beginning_of_a_sentence_is_compared(claim: str, text: str, found: str) -> None:
    """The source has it with a capital elsewhere, or a name follows."""
    mismatch = find_name_mismatch(compare(claim, text))
    assert mismatch is not None
    assert text[slice(*mismatch.found)] == found


def test_a_short_name_of_a_month_is_no_other_name() -> None:
    assert find_name_mismatch(compare("The motor broke on 9 August.", "9 Aug: motor broke.")) is None
