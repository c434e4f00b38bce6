"""What was made of a word once is not made again: most of what is written is a few thousand words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

MOST_CHARS: Final = 40  # of a word that is kept
Value = TypeVar("Value")


class Memoized(dict[str, Value]):
    """`found[word]` is `make(word)`, kept for up to `most` words; then it begins anew.

    A dictionary, since `map(found.__getitem__, words)` takes a third of the time of calls of a cached function.
    """

    def __init__(self, make: Callable[[str], Value], most: int) -> None:
        super().__init__()
        self._make = make
        self._most = most

    def __missing__(self, word: str) -> Value:
        value = self._make(word)
        if len(word) <= MOST_CHARS:
            if len(self) >= self._most:
                self.clear()
            self[word] = value
        return value
