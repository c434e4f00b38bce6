"""Which of the proposed questions are searched for."""

from __future__ import annotations

from modules.llm_platform.domain.dtos.web_search_dtos import MAX_QUERY_CHARS
from modules.llm_platform.domain.research.question_selector import select_questions


def test_questions_with_equal_words_are_one() -> None:
    """Order, case, punctuation and stop words make no new question."""
    asked = ["What is asyncio?", "asyncio", "ASYNCIO is what", "asyncio threads"]
    assert select_questions(asked, "en", written=()) == ("What is asyncio?", "asyncio threads")


def test_taken_question_is_not_selected_again() -> None:
    """`taken` questions stay out."""
    assert select_questions(["fusion energy", "tokamak"], "en", taken=["Fusion energy?"], written=()) == ("tokamak",)


def test_questions_too_long_or_too_short_are_left_out() -> None:
    """What no provider would take is no question."""
    unseen = "\u200b\u200b\u2060"
    candidates = ["ab", "x" * (MAX_QUERY_CHARS + 1), unseen, "", "a\x00b c", "half \ud83d one", "good one"]
    assert select_questions(candidates, "en", written=()) == ("good one",)
