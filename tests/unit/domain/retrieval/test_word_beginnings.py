"""A passage whose words are not looked at shares none with the question."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modules.llm_platform.domain.retrieval.bm25 import passage_words, question_words, word_beginnings
from modules.llm_platform.domain.text.tokens import fold

VOCABULARY = """countries country Caching cache caches passed pass runs run_in_executor setUpClass c++ v2.1 the Öl 東京都
stopping stop easily easy HTTPServer it's e a7 buses bus analysis"""
WORDS = st.sampled_from(VOCABULARY.split())
TEXTS = st.one_of(st.lists(WORDS, max_size=12).map(" ".join), st.text(max_size=60))


@given(TEXTS, TEXTS)
def test_shared_words_begin_as_those_of_the_question(question: str, passage: str) -> None:
    """Whatever the inflection, the joined word or the script."""
    shared = set(question_words(question).indices) & set(passage_words(passage).indices)
    if shared:
        assert any(beginning in fold(passage) for beginning in word_beginnings(question))


@pytest.mark.parametrize("passage", ["Ships sail at noon.", ""])
def test_most_passages_are_left_out(passage: str) -> None:
    assert not any(beginning in fold(passage) for beginning in word_beginnings("How is coffee grown?"))
