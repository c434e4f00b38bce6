"""A quoted proposal is followed by what was decided on it."""

from __future__ import annotations

from tests.support.cases import for_each
from tests.unit.domain.extractive.test_tables import candidates_in

from modules.llm_platform.domain.extractive.decisions import add_decisions
from modules.llm_platform.domain.extractive.question import read_question

FEE = "Ann proposed to raise the fee from £38 to £45."
AGREED = "After a discussion the meeting agreed on £42."


def shown(text: str, language: str = "en") -> list[str]:
    candidates = candidates_in(text, read_question("fee", language))
    return [one.sentence.text for one in add_decisions(candidates[:1], candidates)]


@for_each(
    ("text", "language"),
    [
        (f"{FEE} {AGREED}", "en"),
        (f"{FEE} Bob was against it. {AGREED}", "en"),
        ("Der Vorstand schlug vor, die Miete zu erhöhen. Die Versammlung hat das abgelehnt.", "de"),
    ],
)
def test_the_decision_follows_its_proposal(text: str, language: str) -> None:
    assert len(shown(text, language)) == 2


@for_each(
    "text",
    [
        f"The fee is £38. {AGREED}",
        f"{FEE} Bob was against it. Carl was ill. {AGREED}",
        f"The proposal to raise the fee was rejected. {AGREED}",
        f"{FEE}\n\n## Hall\n\nThe rent was agreed.",
    ],
)
def test_nothing_is_added_without_a_proposal_or_a_decision_on_it(text: str) -> None:
    assert len(shown(text)) == 1
