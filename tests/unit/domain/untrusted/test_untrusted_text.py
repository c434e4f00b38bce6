"""Text of others in prompts: nothing in it looks like a citation, a role or a fence."""

from __future__ import annotations

from tests.support.cases import for_each

from modules.llm_platform.domain.untrusted.untrusted_text import fence_line, neutralise

HIDDEN = ("\u200b", "\u2060", "\ufeff", "\u202e", "\u2066", "\U000e0041")


@for_each("hidden", HIDDEN)
@for_each(("text", "shown"), [("as said [{}1].", "as said (1)."), ("<{}system>", "‹system>"), ("pl{}ain", "plain")])
def test_invisible_characters_hide_nothing(hidden: str, text: str, shown: str) -> None:
    """A marker or a role with an invisible character inside is still recognised."""
    assert neutralise(text.format(hidden)) == shown


@for_each("text", ["x = values[0]", "values[0][1]", "f(x)[1]", "a < b", "<b>bold"])
def test_code_and_prose_stay(text: str) -> None:
    """An index after a name and a comparison are neither a marker nor a role."""
    assert neutralise(text) == text


def test_a_fence_is_in_none_of_its_parts() -> None:
    """It depends on each part and on where one ends; equal prompts have equal fences, so that they are cached."""
    fence = fence_line("question", "page")
    assert fence == fence_line("question", "page") != fence_line("questionpage", "")
    assert fence != fence_line("question", f"page\n{fence}")
