"""Reduce words to stems for an index, and recognise two forms of one word.

`stem` is made for English and applied to every word of ASCII letters, so that no language has to be detected from a
question of three words. It is rougher than Snowball's stemmer, but did as well on six sets of questions about technical
documentation. `is_form` compares two words of any alphabet by the beginning that they share.
"""

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Final

from modules.llm_platform.domain.text.data_files import load_data

MIN_PLURAL: Final = 4  # letters: `apps`, but not `dns`
MIN_INFLECTED: Final = 6  # `joined`, but not `bring` or `speed`
MIN_LEFT: Final = 3
MIN_WITH_E: Final = 5  # `cache` becomes `cach` as `caching` does
ENDINGS: Final = ("ing", "ed", "ly")
NO_PLURAL: Final = ("ss", "us", "is")
DOUBLED_IN_STEM: Final = "ls"  # `install`, `pass`: doubled without the ending too

MIN_SHARED: Final = 3  # letters at the beginning that two forms of a word share
SHARED_SHARE: Final = 0.55  # share of the longer form


def stem(word: str) -> str:
    """Return a lower-case word without its ending; unchanged if it is short or has anything but ASCII letters."""
    if len(word) < MIN_PLURAL or not (word.isascii() and word.isalpha()):
        return word
    if word.endswith("ies") and len(word) > MIN_PLURAL:
        word = word[:-3] + "y"
    elif word.endswith("s") and not word.endswith(NO_PLURAL):
        word = word[:-1]
    bare = word
    for ending in ENDINGS if len(word) >= MIN_INFLECTED else ():
        if word.endswith(ending) and len(word) - len(ending) >= MIN_LEFT:
            bare = word[: -len(ending)]
            if bare[-1] == bare[-2] and bare[-1] not in DOUBLED_IN_STEM:
                bare = bare[:-1]
            break
    return bare[:-1] if bare.endswith("e") and len(word) >= MIN_WITH_E else bare


def is_form(one: str, other: str) -> bool:
    """Return whether two folded words share enough of their beginning to be forms of one word. Figures are never forms."""
    shorter = min(len(one), len(other))
    if shorter < MIN_SHARED or one[:MIN_SHARED] != other[:MIN_SHARED] or not (one.isalpha() and other.isalpha()):
        return False
    longer = max(len(one), len(other))
    if shorter < SHARED_SHARE * longer:
        return False
    if shorter == MIN_SHARED:  # `runs`, but not `theft` for `the` or `user` for `use`
        return one == f"{other}s" or other == f"{one}s"
    shared = MIN_SHARED
    while shared < shorter and one[shared] == other[shared]:
        shared += 1
    return shared >= SHARED_SHARE * longer


def is_same_word(one: str, other: str) -> bool:
    """Return whether two folded words are one, forms of one, or writings of one unit."""
    return (
        one == other
        or is_form(one, other)
        or (normalize_unit(one) != "" and normalize_unit(one) == normalize_unit(other))
    )


def is_form_of_any(word: str, others: Sequence[str]) -> bool:
    if word in others:
        return True
    start = word[:MIN_SHARED]
    return any(other.startswith(start) and is_form(word, other) for other in others)


def has_form_of_any(words: Iterable[str], others: Sequence[str]) -> bool:
    """Return whether one of these words has a form among the others."""
    return any(is_form_of_any(word, others) for word in words)


@cache
def _load_units() -> dict[str, str]:
    return {unit: family.split()[0] for family in load_data("units") for unit in family.split()}


def normalize_unit(word: str) -> str:
    """Return one name for all writings of a unit, such as `km` for `kilometres`; empty if the word is not a unit."""
    return _load_units().get(word, "")


@cache
def load_related_words() -> dict[str, tuple[str, ...]]:
    """Return words with the meaning of a folded word that `is_form` does not find: irregular forms, countries, units."""
    table: dict[str, tuple[str, ...]] = {}
    for family in (*load_data("word_families"), *load_data("units")):
        members = family.split()
        for word in members:
            table[word] = (*table.get(word, ()), *(other for other in members if other != word))
    return table


def is_related(word: str, others: Sequence[str]) -> bool:
    """Return whether `load_related_words` lists one of the others for this word."""
    return not set(load_related_words().get(word, ())).isdisjoint(others)
