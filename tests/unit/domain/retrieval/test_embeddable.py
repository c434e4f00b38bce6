"""What of a text an embedder is given."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each

from modules.llm_platform.domain.retrieval.embeddable import cut_to_window
from modules.llm_platform.domain.text.tokens import count_tokens, cut_to_tokens


@for_each("text", ["", " \n\t\u00a0", "\u200b\ufeff", "\0\x1b", "\u00ad\u202e"])
def test_nothing_to_see(text: str) -> None:
    """Blank and invisible texts are empty."""
    assert cut_to_window([text], 10) == [""]


def test_cut_to_the_window() -> None:
    """The text is cut at the end of a token. A shorter text is unchanged."""
    assert cut_to_window(["one two three", " a  b "], 2) == ["one two", " a  b "]


@given(st.text(), st.integers(1, 20))
def test_first_tokens(text: str, limit: int) -> None:
    """A beginning of the text that counts as many tokens as are allowed, or all of it."""
    cut = cut_to_tokens(text, limit)
    assert text.startswith(cut)
    assert count_tokens(cut) == min(limit, count_tokens(text))
