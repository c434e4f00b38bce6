"""The plan of a deep research: three different questions, whatever the model says."""

from __future__ import annotations

from tests.support.cases import for_each

from modules.llm_platform.application.research.find.plan import plan
from modules.llm_platform.domain.dtos.web_search_dtos import MAX_QUERY_CHARS
from modules.llm_platform.domain.exceptions import LLMBlockedError
from modules.llm_platform.domain.text.tokens import split_words
from modules.llm_platform.testing import FakeLLM

QUESTION = "How does asyncio schedule tasks and what are the limits of threads?"


async def test_the_models_questions_are_taken() -> None:
    """Three valid lines become the plan in their order, and their cost is reported."""
    llm = FakeLLM(["Question: one thing\nQuestion: other thing\nQuestion: third matter\nQuestion: fourth matter"])
    made = await plan(QUESTION, "en", llm)
    assert made.questions == ("one thing", "other thing", "third matter")
    assert made.spent.calls == 1
    assert QUESTION in llm.requests[0].messages[-1].content


async def test_a_short_plan_is_filled() -> None:
    """One line from the model: the question itself and its parts fill the rest, none of them twice."""
    made = await plan(QUESTION, "en", FakeLLM([f"Question: {QUESTION}"]))
    assert len(made.questions) == 3
    assert len({frozenset(split_words(question)) for question in made.questions}) == 3


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


@for_each(
    "question",
    [
        "🦀🦀🦀",
        "😀 😀 😀",
        "???",
        "x" * MAX_QUERY_CHARS,
        "word " * 99 + "end",
        "the the the",
        "日本語",
        "1+1",
        "a, b and c",
        "이벤트 루프",
    ],
)
async def test_decomposition_gives_three_searches_and_the_question_first(question: str) -> None:
    """This includes questions without words and questions of the maximal length."""
    made = await plan(question, "en", None)
    assert made.questions[0] == question
    assert len(set(made.questions)) == 3
    assert all(len(question) <= MAX_QUERY_CHARS for question in made.questions)
