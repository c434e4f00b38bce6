"""The windows of a source that a support model reads where no word of the claim shows a passage."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from modules.llm_platform.domain.citations.compare.alignment import prepare_source

LIMIT = 350
SENTENCES = st.lists(st.integers(1, 90).map(lambda words: "word " * (words - 1) + "end."), max_size=30)


@given(SENTENCES)
def test_windows_cover_a_text_with_whole_sentences(sentences: list[str]) -> None:
    source = prepare_source(" ".join(sentences), "", "en")
    windows = source.cut_windows(LIMIT)
    assert all(end - start <= LIMIT for start, end in windows)
    for start, end in source.spans:
        assert any(first <= start and min(end, start + LIMIT) <= last for first, last in windows)
    assert len(set(windows)) == len(windows)


def test_neighbours_share_about_half_of_their_sentences() -> None:
    source = prepare_source("A sentence of thirty letters. " * 40, "", "en")
    windows = source.cut_windows(LIMIT)
    assert len(windows) > 2
    for (_, end), (following, _) in pairwise(windows[:-1]):
        assert LIMIT / 3 < end - following < LIMIT * 2 / 3


def test_an_empty_text_has_no_window() -> None:
    assert prepare_source("", "", "en").cut_windows(LIMIT) == []
