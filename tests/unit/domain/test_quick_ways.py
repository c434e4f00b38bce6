"""What is asked first to save time changes nothing of what is found."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from modules.llm_platform.domain import language, text

MIXED = st.one_of(st.text(alphabet="abZ09 _.'’+#-“\n"), st.text(alphabet="ab9é ß-’_ſİªКя“"), st.text())


@given(MIXED)
def test_words_are_the_same_by_each_way(given_text: str) -> None:
    """ASCII letters, letters of any spaced script, and everything else go through three patterns that agree."""
    assert text.words(given_text) == list(text._words(text.fold(given_text)))


@given(MIXED)
def test_letters_are_counted_as_if_all_were_looked_at(given_text: str) -> None:
    """ASCII letters are counted without the pattern of all scripts."""
    counted: Counter[str] = Counter()
    for run in language._RUNS.finditer(given_text):
        script = run.lastgroup or ""
        counted[script] += (run.end() - run.start()) * (language.DENSE_LETTER if script in language._DENSE else 1)
    assert language._letters_by_script(given_text) == counted
