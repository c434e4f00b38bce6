"""A yes or a no that answers the question before it."""

from __future__ import annotations

from tests.support.cases import for_each

from modules.llm_platform.domain.text.replies import is_bare_reply, is_reply, strip_question_label


@for_each(
    "sentence",
    [
        "No.",
        "Yes",
        "**\nNo.",
        "Yes, 40 spaces behind the hall.",
        "Nein – erst ab Mai.",
        "Non !",
        "Sí, los lunes.",
        "不可以。",
        "可以，每周一。",
    ],
)
def test_a_reply_begins_with_a_yes_or_a_no(sentence: str) -> None:
    assert is_reply(sentence)


@for_each(
    "sentence",
    [
        "No dogs are allowed.",
        "Yesterday, it rained.",
        "Non-members pay.",
        "不允许带狗。",
        "Noon.",
        "",
        "The answer is no.",
    ],
)
def test_other_sentences_are_no_replies(sentence: str) -> None:
    assert not is_reply(sentence)


def test_a_bare_reply_says_nothing_else() -> None:
    assert [is_bare_reply(sentence) for sentence in ("No.", "**\nYes!", "No, but the garage is free.", "No dogs.")] == [
        True, True, False, False,
    ]  # fmt: skip


@for_each(
    ("question", "bare"),
    [("Q: Are dogs allowed?", "Are dogs allowed?"), ("Frage: Und?", "Und?"), ("Quiet: when?", "Quiet: when?")],
)
def test_the_label_of_a_question_says_nothing(question: str, bare: str) -> None:
    assert strip_question_label(question) == bare
