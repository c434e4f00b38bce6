"""infrastructure/documents/terms.py"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modules.llm_platform.infrastructure.documents.index import PassageIndex
from modules.llm_platform.infrastructure.documents.terms import MAX_TERMS, query_terms, spelled_out


@pytest.mark.parametrize(
    ("query", "language", "terms"),
    [
        ("What is Python asyncio?", "en", ['"python"', '"asyncio"']),
        ("Wie funktioniert asyncio?", "de", ['"funktioniert"', '"asyncio"']),
        ("asyncio.run_in_executor", "en", ['"asyncio.run_in_executor"', '"asyncio"', '"run"', '"executor"']),
        ("什么是编程", "zh", ['"是编"', '"编程"']),
        ("猫", "zh", ['"猫"*']),
        ("IT", "en", ['"it"']),
        ("what is it about?", "en", []),
        ("C++ or C#?", "en", ['"cplusplus"', '"csharp"']),
        ("🙂 ?!", "en", []),
        ("python PYTHON Python", "en", ['"python"']),
    ],
)
def test_a_query_is_its_content_words(query: str, language: str, terms: list[str]) -> None:
    """Function words are left out unless there is nothing else; joined words count as a phrase and by their pieces."""
    assert query_terms(query, language) == terms


def test_a_long_query_has_a_bounded_number_of_terms() -> None:
    """A page of text as a query costs no more than a paragraph."""
    assert len(query_terms(" ".join(f"word{i}" for i in range(500)), "en")) == MAX_TERMS


def test_scripts_without_blanks_are_spelled_as_bigrams() -> None:
    """The index sees the pairs of letters that a query is made of."""
    assert spelled_out("用Python编程").split() == ["用", "python", "编程"]
    assert spelled_out("异步编程").split() == ["异步", "步编", "编程"]
    assert spelled_out("plain # text") == "plain # text"


@given(st.text(max_size=80), st.text(max_size=80))
def test_any_query_is_valid_for_the_index(query: str, text: str) -> None:
    """Quotes, operators and odd letters of a question are words to the index, never its syntax."""
    index = PassageIndex()
    for attempt in (query, text, f'{query}" OR NEAR({text}) AND * ^ : title:x'):
        assert index.search(attempt, "en", 5) == []
    index.close()
