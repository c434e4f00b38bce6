"""The parts of a question that an answer says nothing about are named below it."""

from __future__ import annotations

from tests.support.cases import for_each

from modules.llm_platform.application.research.write.extractive_synthesizer import ExtractiveSynthesizer
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.extractive.question import read_question
from modules.llm_platform.domain.extractive.question_parts import list_open_parts, split_question
from modules.llm_platform.domain.ports.synthesizer import SynthesisRequest

MILL = "The mill of Hagen was built in 1803 by Josef Kern. The mill has three floors. The ticket costs 4 euros."


@for_each(
    "question, parts",
    [
        (
            "When was Lyon opened and how many staff does it have?",
            ["When was Lyon opened", "how many staff does it have"],
        ),
        ("Who built the mill, and when did it burn down?", ["Who built the mill", "when did it burn down"]),
        ("What is the price of salt and pepper?", []),
        ("My card was stolen, what must I do?", []),  # the circumstances, and one question
        ("Where and when was she born?", []),
    ],
)
def test_a_question_is_split_where_a_second_one_begins(question: str, parts: list[str]) -> None:
    assert split_question(read_question(question, "en")) == parts


async def write(question: str) -> tuple[str, bool]:
    sources = [Source(index=1, title="", url="https://a.example/", text=MILL, is_whole=True)]
    written = await ExtractiveSynthesizer().synthesize(SynthesisRequest(question, sources, "en"))
    return written.text, written.answered


async def test_an_answer_to_both_parts_names_none() -> None:
    text, is_answered = await write("When was the mill of Hagen built and how many floors does the mill have?")
    assert is_answered
    assert "three floors [1]" in text
    assert "do not answer" not in text


async def test_a_part_without_an_answer_is_named() -> None:
    text, is_answered = await write("When was the mill of Hagen built and who is the tenant today?")
    assert is_answered
    assert "1803" in text
    assert text.endswith("The sources found do not answer these questions:\n\n- who is the tenant today?")


async def test_a_question_without_any_answer_is_refused() -> None:
    text, is_answered = await write("When was the castle burnt and who is the tenant today?")
    assert not is_answered
    assert text == "The sources found do not answer this."


def test_german_nouns_are_words_that_a_part_asks_about() -> None:
    """Their capital letters do not make them names."""
    question = read_question("Wie hoch ist die Kaution und wer ist der Hausmeister?", "de")
    assert list_open_parts(question, "Die Kaution beträgt 1.200 Euro [1].") == ["wer ist der Hausmeister"]


async def test_a_part_cites_nothing() -> None:
    text, _ = await write("When was the mill of Hagen built and who is the tenant of [1]?")
    assert text.endswith("- who is the tenant of (1)?")


@for_each(
    "answer, open_parts",
    [
        ("The mill was built in 1803 [1].", ["who is the tenant"]),
        ("It dates from 1803 [1].", []),  # the answer has other words than both parts
        ("Die Mühle wurde 1803 gebaut, und sie ist die älteste in der Stadt [1].", []),
    ],
)
def test_an_answer_in_other_words_names_no_part(answer: str, open_parts: list[str]) -> None:
    assert list_open_parts(read_question("When was the mill built and who is the tenant?", "en"), answer) == open_parts
