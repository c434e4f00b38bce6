"""A short section answers a question that has the words of its heading, if it has what the question asks for."""

from __future__ import annotations

from tests.support.cases import for_each
from tests.unit.domain.extractive.test_tables import candidates_in

from modules.llm_platform.domain.extractive.headed_sections import find_headed_section
from modules.llm_platform.domain.extractive.question import read_question

MINUTES = """# Minutes of the choir committee

The choir committee met on 3 April.

## 1. Spring concert

Ann reported on the tickets. Sales are slow. Bob will print posters. They are due on Friday.

## 2. Next meeting

Tuesday 15 May, 19:00, at Ann's house.

Closed at 20:50.

## 3. Hall rent

It is paid by the town.
"""
NOTIZEN = """# Notizen aus dem Chor

Wir haben über die Reise nach Lyon gesprochen, und die meisten wollen mit der Bahn fahren.

## Nächste Probe

Dienstag, 15. Mai, 19 Uhr.
"""


def find(question: str, text: str = MINUTES, language: str = "en") -> list[str]:
    asked = read_question(question, language)
    return [one.form.shown for one in find_headed_section(asked, candidates_in(text, asked))]


@for_each(
    "question",
    [
        "When is the next meeting?",
        "When is the next committee meeting?",
        "next meeting date",
        "next meeting",
        "Where is the next meeting?",
    ],
)
def test_the_first_paragraph_of_the_section_answers_with_its_heading(question: str) -> None:
    assert find(question) == ["Next meeting: Tuesday 15 May, 19:00, at Ann's house."]


def test_a_german_section_answers() -> None:
    assert find("Wann ist die nächste Probe?", NOTIZEN, "de") == ["Nächste Probe: Dienstag, 15. Mai, 19 Uhr."]


@for_each(
    "question",
    [
        "When is the next orchestra meeting?",  # the document does not know the orchestra
        "How much is the hall rent?",  # no amount
        "When is the spring concert?",  # a longer section says more than a date
        "Is the next meeting on Tuesday?",
        "Why is there no next meeting?",
        "When is the meeting?",
        "When will Bob print the posters for the next meeting?",  # says more than the heading
    ],
)
def test_another_question_is_left_to_the_sentences(question: str) -> None:
    assert find(question) == []
