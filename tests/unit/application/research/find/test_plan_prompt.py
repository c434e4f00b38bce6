"""The prompts of the plan and the parser of their answers agree, and the parser reads whatever a model writes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each

from modules.llm_platform.application.research.find.plan_prompt import PROMPT, REPORT_PROMPT, parse_questions

QUESTION = "How does asyncio schedule tasks and what are the limits of threads?"


@for_each(
    ("answer", "expected"),
    [
        (
            "Question: asyncio event loop\nQuestion: python threads limits",
            ["asyncio event loop", "python threads limits"],
        ),
        ("Sure! Here they are:\n\nQuestion: a loop\nquestion 2: b loop", ["a loop", "b loop"]),
        ("ПОДЗАПРОС: Как летит парус?\n\nПодзапрос: Кто делает?", ["Как летит парус?", "Кто делает?"]),
        (
            "1. asyncio basics\n2) asyncio tasks\n(3) asyncio limits",
            ["asyncio basics", "asyncio tasks", "asyncio limits"],
        ),
        ("- solar sail basics\n* solar sail history", ["solar sail basics", "solar sail history"]),
        ('```json\n["first search", "second search"]\n```', ["first search", "second search"]),
        (
            "Sure, here you are:\nasyncio on one line\nthreads on another",
            ["asyncio on one line", "threads on another"],
        ),
        ("None", []),
        ("I am sorry, but I cannot help with that.", []),
        ("", []),
    ],
)
def test_a_plan_is_read_in_whatever_form_it_comes(answer: str, expected: list[str]) -> None:
    """Prefixed lines win over a JSON list, that over bullets, those over plain lines."""
    assert parse_questions(answer, QUESTION, "en") == expected


@given(st.text(max_size=2000))
def test_no_answer_breaks_the_parser(answer: str) -> None:
    """Whatever the model says, the parser returns strings."""
    assert all(isinstance(item, str) for item in parse_questions(answer, QUESTION, "en"))


def test_the_prompt_names_the_form_that_the_parser_reads() -> None:
    """The prompt describes the format that the parser reads."""
    assert '"Question:"' in PROMPT
    assert parse_questions("Question: as the prompt asks", QUESTION, "en") == ["as the prompt asks"]


def test_the_prompt_is_short_and_bears_the_mark() -> None:
    """Tokens cost: the plan's prompt stays under 700 characters without the question."""
    assert "{mark}:" in REPORT_PROMPT
    assert len(REPORT_PROMPT) < 700
