"""What was made of a word is kept, within bounds."""

from __future__ import annotations

from modules.llm_platform.domain.text.memoized import MOST_CHARS, Memoized


def test_a_word_is_looked_at_once() -> None:
    """The second time it is found."""
    made: list[str] = []

    def length(word: str) -> int:
        made.append(word)
        return len(word)

    lengths = Memoized(length, most=2)
    assert [lengths[word] for word in ("a", "bc", "a", "bc")] == [1, 2, 1, 2]
    assert made == ["a", "bc"]


def test_it_never_holds_more_than_so_many_words_of_so_many_letters() -> None:
    """A text of ever new words, or one word of a megabyte, does not fill the memory."""
    lengths = Memoized(len, most=10)
    assert [lengths[str(number)] for number in range(1000)] == [len(str(number)) for number in range(1000)]
    assert 0 < len(lengths) <= 10
    assert lengths["x" * (MOST_CHARS + 1)] == MOST_CHARS + 1
    assert "x" * (MOST_CHARS + 1) not in lengths
