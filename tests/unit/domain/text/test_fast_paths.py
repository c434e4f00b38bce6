"""Fast paths do not change the results."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modules.llm_platform.domain.text import language, sentences, tokens

MIXED = st.one_of(st.text(alphabet="abZ09 _.'’+#-“\n"), st.text(alphabet="ab9é ß-’_ſİªКя“"), st.text())


@given(MIXED)
def test_the_fast_path_finds_the_same_words(given_text: str) -> None:
    """Words of spaced scripts are found between blanks, and kept; the pattern of all scripts agrees."""
    assert tokens.split_words(given_text) == list(tokens._find_words(tokens.fold(given_text)))


@given(MIXED)
def test_the_fast_path_counts_the_same_letters(given_text: str) -> None:
    """ASCII letters are counted without the pattern of all scripts."""
    counted: Counter[str] = Counter()
    for run in language._RUNS.finditer(given_text):
        script = run.lastgroup or ""
        counted[script] += (run.end() - run.start()) * (
            language.DENSE_LETTER_WEIGHT if script in language._DENSE else 1
        )
    assert language._count_letters_by_script(given_text) == counted


@given(MIXED)
def test_the_fast_path_counts_the_same_function_words(given_text: str) -> None:
    """They are looked for between blanks."""
    lowered = given_text.lower()
    assert list(language._count_words(lowered).items()) == list(Counter(language._WORD.findall(lowered)).items())


@given(
    st.one_of(
        MIXED, st.text(alphabet="aB12 _\t\n\x1c\x7f.,-", max_size=60), st.text(alphabet="abcdefg1234_", max_size=60)
    )
)
def test_the_fast_path_counts_the_same_tokens(given_text: str) -> None:
    """Those of plain text are counted without it."""
    assert tokens.count_tokens(given_text) == len(tokens._TOKEN.findall(given_text))


@given(st.text(alphabet="ab .!?\n。", max_size=60), st.integers(1, 30), st.integers(1, 30))
def test_a_window_ends_with_its_last_stop(given_text: str, window_chars: int, last_chars: int) -> None:
    """Which is looked for at its end first; nothing but blanks lies between that and where all stops are looked at."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sentences, "WINDOW_CHARS", window_chars)
        patch.setattr(sentences, "LAST_STOP_CHARS", last_chars)
        quick = sentences._cut_window(given_text, 0)
        patch.setattr(sentences, "LAST_STOP_CHARS", window_chars)
        assert quick.rstrip() == sentences._cut_window(given_text, 0).rstrip()
