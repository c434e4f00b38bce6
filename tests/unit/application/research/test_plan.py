"""The plan of a deep research: three different questions, whatever the model says."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each

from modules.llm_platform.application.research.plan import (
    PROMPT,
    decompose_question,
    distinct_questions,
    parse_questions,
    plan,
)
from modules.llm_platform.domain.exceptions import LLMBlockedError
from modules.llm_platform.domain.text.tokens import words
from modules.llm_platform.testing import FakeLLM

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


async def test_the_models_questions_are_taken() -> None:
    """Three good lines are the plan, in their order, and their cost is told."""
    llm = FakeLLM(["Question: one thing\nQuestion: other thing\nQuestion: third matter\nQuestion: fourth matter"])
    made = await plan(QUESTION, "en", llm)
    assert made.questions == ("one thing", "other thing", "third matter")
    assert made.spent.calls == 1
    assert QUESTION in llm.requests[0].messages[-1].content


async def test_a_short_plan_is_filled() -> None:
    """One line from the model: the question itself and its parts fill the rest, none of them twice."""
    made = await plan(QUESTION, "en", FakeLLM([f"Question: {QUESTION}"]))
    assert len(made.questions) == 3
    assert len({frozenset(words(question)) for question in made.questions}) == 3


async def test_failing_model_is_reported_and_replaced() -> None:
    """Without the model the decomposition serves, and `degraded` says why."""
    made = await plan(QUESTION, "en", FakeLLM([LLMBlockedError("quota used up", retry_after_s=60)]))
    assert made.questions[0] == QUESTION
    assert len(made.questions) == 3
    assert made.degraded[0].component == "plan/fake"
    assert made.degraded[0].until is not None


async def test_no_model_no_call() -> None:
    """A plain decomposition costs nothing."""
    made = await plan("fusion energy", "en", None)
    assert made.questions[0] == "fusion energy"
    assert len(made.questions) == 3
    assert made.spent.calls == 0


@for_each("language", ["en", "de", "ru", "zh", "ja", "xx"])
@for_each(
    "question", ["fusion energy", "量子纠错 进展", "Как работает asyncio и потоки?", "a vs b", "???abc"]
)
def test_every_question_gives_three_searches(question: str, language: str) -> None:
    """Any language, any script, with or without parts: three different questions."""
    assert len(distinct_questions(decompose_question(question, language), language, written=(question,))) == 3


def test_questions_with_equal_words_are_one() -> None:
    """Order, case, punctuation and stop words make no new question."""
    asked = ["What is asyncio?", "asyncio", "ASYNCIO is what", "asyncio threads"]
    assert distinct_questions(asked, "en", written=()) == ("What is asyncio?", "asyncio threads")


def test_taken_question_is_not_selected_again() -> None:
    """`taken` questions stay out."""
    assert distinct_questions(["fusion energy", "tokamak"], "en", taken=["Fusion energy?"], written=()) == ("tokamak",)


def test_questions_too_long_or_too_short_are_left_out() -> None:
    """What no provider would take is no question."""
    unseen = "\u200b\u200b\u2060"
    candidates = ["ab", "x" * 501, unseen, "", "a\x00b c", "half \ud83d one", "good one"]
    assert distinct_questions(candidates, "en", written=()) == ("good one",)


def test_the_prompt_names_the_form_that_the_parser_reads() -> None:
    """Prompt and parser stand beside each other and must agree."""
    assert '"Question:"' in PROMPT
    assert parse_questions("Question: as the prompt asks", QUESTION, "en") == ["as the prompt asks"]


@for_each(
    ("question", "words_of_topic"),
    [
        ("What does the event loop run?", "event loop run"),
        ("How do .NET, C# and node.js (v20) compare?", ".NET C# node.js v20 compare"),
        ("«Wozu» dient eine Ereignisschleife?!", "Wozu dient Ereignisschleife"),
    ],
)
def test_the_sides_of_a_topic_bear_no_marks_of_the_sentence(question: str, words_of_topic: str) -> None:
    """What ends a question or a quotation is no part of a word; what belongs to a name is."""
    language = "de" if "eine" in question else "en"
    assert decompose_question(question, language)[-1].startswith(f"{words_of_topic} ")


@for_each(
    "question",
    [
        "🦀🦀🦀",
        "😀 😀 😀",
        "???",
        "x" * 500,
        "word " * 99 + "end",
        "the the the",
        "日本語",
        "1+1",
        "a, b and c",
        "이벤트 루프",
    ],
)
async def test_decomposition_gives_three_searches_and_the_question_first(question: str) -> None:
    """Signs without words and the longest question that is allowed, too."""
    made = await plan(question, "en", None)
    assert made.questions[0] == question
    assert len(set(made.questions)) == 3
    assert all(len(question) <= 500 for question in made.questions)
