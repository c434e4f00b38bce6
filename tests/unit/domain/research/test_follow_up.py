"""A follow-up gets the topic of its thread, not only the words of the question before it."""

from __future__ import annotations

from tests.support.cases import for_each

from modules.llm_platform.domain.dtos.request_dtos import Turn
from modules.llm_platform.domain.research.follow_up import standalone_by_rules

BULBS = Turn(question="How are tulip bulbs stored?", answer="Tulip bulbs are kept dry and cool.")
THREAD = [
    BULBS,
    Turn(question="How deep are they planted?", answer=""),
    Turn(question="When do they need water?", answer=""),
]


def understood(question: str, *turns: Turn) -> str:
    return standalone_by_rules(question, turns or THREAD, "en")


def test_topic_is_that_of_the_thread() -> None:
    """The first question introduces the topic, later turns have less weight, and words of the question are not
    repeated.
    """
    topic = understood("Do they spread?").split(":")[0]
    assert topic.startswith("tulip bulbs")
    assert "planted" not in topic
    assert understood("How long do the bulbs live?").startswith("tulip")


def test_name_of_the_last_question_is_kept() -> None:
    """The next pronoun refers to a new name, even if the thread repeats its topic more often."""
    found = understood("What is it famous for?", *THREAD, Turn(question="Where is Keukenhof?", answer="")).split(":")[0]
    assert "Keukenhof" in found


def test_answer_names_the_topic() -> None:
    """A term that the last answer repeats becomes a topic although no question has it; one that it says once does not."""
    answer = "Botrytis spreads in wet soil. Botrytis spots leaves. Botrytis survives on debris. Fungicide helps."
    found = understood("How do I prevent it?", BULBS, Turn(question="Which disease is frequent?", answer=answer)).split(
        ":"
    )[0]
    assert "Botrytis" in found
    assert "Fungicide" not in found


@for_each("question", ["What are the disadvantages?", "How was the harvest?", "What was its response to rivals?"])
def test_question_without_a_thing_of_its_own_gets_the_topic(question: str) -> None:
    """A side of something, a definite thing that nothing names, and a pronoun belong to the thread."""
    assert understood(question, BULBS) == f"tulip bulbs stored: {question}"


@for_each(
    "question",
    [
        "What is photosynthesis?",
        "What is the capital of Peru?",
        "How is the harvest of olives done?",
        "Who won Wimbledon?",
    ],
)
def test_question_that_names_its_thing_is_left_alone(question: str) -> None:
    """Also within a thread of some turns."""
    assert understood(question) == question


ROW = """Highest “Minutes” of 5 rows:

| No. | Piece | Minutes |
| --- | --- | --- |
| 3 | Five Mystical Songs | 20 [1] |
"""


@for_each(
    ("question", "answer", "expected"),
    [
        ("Who composed it?", ROW, "Who composed Five Mystical Songs?"),
        ("Who composed it?", f"{ROW}| 4 | Sleep | 20 [1] |", "piece longest: Who composed it?"),
        ("And the shortest?", ROW, "piece longest: And the shortest?"),
        ("Is there a break after it?", ROW, "Is there a break after Five Mystical Songs?"),
        ("Who composed its text?", ROW, "piece longest: Who composed its text?"),
    ],
)
def test_a_pronoun_after_one_row_is_the_name_of_the_row(question: str, answer: str, expected: str) -> None:
    """Several rows, a possessive pronoun and another kind of follow-up get the topic instead."""
    turn = Turn(question="Which piece is the longest?", answer=answer)
    assert standalone_by_rules(question, [turn], "en") == expected
