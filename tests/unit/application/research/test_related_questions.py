"""The questions that an answer suggests to ask next."""

from __future__ import annotations

import pytest
from tests.support.cases import for_each

from modules.llm_platform.application.research.response import MAX_RELATED, MAX_RELATED_CHARS, select_related_questions

ASKED = "What is an owl?"


def test_each_once_in_their_order_and_none_that_was_asked() -> None:
    """A question with the same words finds the same: it is left out, however it is written."""
    suggested = ["owl", "Owl calls at night", "what is an OWL", "night  owl\ncalls", "barn owl", "Barn owl?"]
    assert select_related_questions(suggested, "en", (ASKED,)) == ("Owl calls at night", "barn owl")


def test_there_are_few_and_none_is_long() -> None:
    suggested = ["x" * (MAX_RELATED_CHARS + 1), *(f"owl number {n}" for n in range(30))]
    assert select_related_questions(suggested, "en", (ASKED,)) == tuple(f"owl number {n}" for n in range(MAX_RELATED))


@for_each(
    "hostile",
    [
        "See https://evil.example/x",
        "go to evil.example/x now",
        "<b>owls</b>",
        "owls [1]",
        "mail me@evil.example",
        "bell \x07",
        "nul \x00",
        "lone \ud800",
        "\x1b[31mred",
        "javascript:alert(1)",
        "  ",
        "?",
        "ab",
    ],
)
def test_what_a_click_must_not_ask_is_left_out(hostile: str) -> None:
    """Addresses, markup, markers, control characters, and texts that are no query."""
    assert select_related_questions([hostile, "barn owl"], "en", (ASKED,)) == ("barn owl",)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("b\u202earn\u200b owl", "barn owl"),
        ("owls\n\n and   mice", "owls and mice"),
        ("C++ & a < b", "C++ & a < b"),
        ("می\u200cخواهم بدانم", "می\u200cخواهم بدانم"),
    ],
)
def test_a_question_is_one_line_of_what_is_seen(text: str, shown: str) -> None:
    """Characters that hide or turn text are gone; joiners that scripts need stay."""
    assert select_related_questions([text], "en", (ASKED,)) == (shown,)
