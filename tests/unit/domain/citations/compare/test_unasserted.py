"""A source does not assert what it only supposes, proposes or reports as false."""

from __future__ import annotations

from tests.support.cases import for_each
from tests.support.contradictions import cite

RISE = "The committee proposed to raise the rent to £40."


@for_each(
    ("text", "sentence", "language"),
    [
        ("It is not true that the bridge is closed.", "The bridge is closed.", "en"),
        ("The council denied that the bridge is closed.", "The bridge is closed.", "en"),
        ("Es ist falsch, dass die Brücke gesperrt ist.", "Die Brücke ist gesperrt.", "de"),
        ("Il est faux que le pont est fermé.", "Le pont est fermé.", "fr"),
    ],
)
def test_a_report_that_is_denied_contradicts(text: str, sentence: str, language: str) -> None:
    citation = cite(sentence, text, language)
    assert (citation.verdict, citation.finding) == ("unsupported", "contradicts")


@for_each(
    ("text", "sentence", "language"),
    [
        ("If the bridge is closed, use the ferry.", "The bridge is closed.", "en"),
        ("Ask the office whether the bridge is closed.", "The bridge is closed.", "en"),
        ("It is unlikely that the bridge is closed.", "The bridge is closed.", "en"),
        ("Falls die Brücke gesperrt ist, nehmen Sie die Fähre.", "Die Brücke ist gesperrt.", "de"),
        (RISE, "The rent rises to £40.", "en"),
        (
            "Dieter proposed buying a gas kiln. The proposal was rejected. It was agreed to meet in May.",
            "Yes, we are buying a gas kiln.",
            "en",
        ),
        ("Priya had intended to move the bins to the yard.", "The bins are moved to the yard.", "en"),
        (
            "Die Stadt hatte einen Zuschuss von 500 Euro in Aussicht gestellt.",
            "Die Stadt gibt einen Zuschuss von 500 Euro.",
            "de",
        ),
        (f"{RISE} No decision was made.", "The rent rises to £40.", "en"),
        (f"{RISE} The proposal was rejected, and it was agreed to wait.", "The rent rises to £40.", "en"),
    ],
)
def test_a_condition_or_proposal_neither_supports_nor_contradicts(text: str, sentence: str, language: str) -> None:
    citation = cite(sentence, text, language)
    assert citation.verdict in ("partial", "unsupported")
    assert citation.finding != "contradicts"


@for_each(
    ("text", "sentence"),
    [
        ("It is true that the bridge is closed.", "The bridge is closed."),
        ("If the bridge is closed, use the ferry.", "If the bridge is closed, use the ferry."),
        ("If the bridge is closed, the ferry is free.", "The ferry is free if the bridge is closed."),
        ("Use the ferry if the bridge is closed. The bridge is closed.", "The bridge is closed."),
        (RISE, "The committee proposed to raise the rent to £40."),
        (f"{RISE} All members agreed.", "The rent rises to £40."),
    ],
)
def test_what_a_source_says_elsewhere_or_accepts_is_supported(text: str, sentence: str) -> None:
    assert cite(sentence, text).verdict == "supported"
