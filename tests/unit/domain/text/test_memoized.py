"""What was made of a word is kept, within bounds."""

from __future__ import annotations

from modules.llm_platform.domain.text.memoized import MAX_KEY_CHARS, Memoized


def test_a_word_is_computed_once() -> None:
    """The second time it is found."""
    made: list[str] = []

    def length(word: str) -> int:
        made.append(word)
        return len(word)

    lengths = Memoized(length, max_entries=2)
    assert [lengths[word] for word in ("a", "bc", "a", "bc")] == [1, 2, 1, 2]
    assert made == ["a", "bc"]


def test_the_cache_is_bounded() -> None:
    """A text of ever new words, or one word of a megabyte, does not fill the memory."""
    lengths = Memoized(len, max_entries=10)
    assert [lengths[str(number)] for number in range(1000)] == [len(str(number)) for number in range(1000)]
    assert 0 < len(lengths) <= 10
    assert lengths["x" * (MAX_KEY_CHARS + 1)] == MAX_KEY_CHARS + 1
    assert "x" * (MAX_KEY_CHARS + 1) not in lengths
