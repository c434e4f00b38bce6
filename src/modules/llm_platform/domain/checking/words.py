"""Words as they are compared: cut out of any script, and recognised in another form."""

from __future__ import annotations

import re
from collections.abc import Sequence

from modules.llm_platform.domain.text import fold

STEM_LETTERS = 3  # that two forms of a word share at least
MIN_STEM = 4  # letters from which on the share below is enough
STEM_SHARE = 0.55  # of the longer one
SHORT_STEM_SHARE = 0.6  # of words that share three letters only
MIN_COMPOUND_PART = 5  # letters

UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af"
_FIGURES = r"[0-9]+(?:[.,:/-][0-9]+)+(?![^\W_])"
_SPACED = rf"[^\W_{UNSPACED}]+(?:[_.:/'’+#@-]+[^\W_{UNSPACED}]+)*[+#]*(?:\(\))?"
_DUNDER = rf"_+[^\W_{UNSPACED}]+(?:_+[^\W_{UNSPACED}]*)*"
WORD = re.compile(rf"{_FIGURES}|[{UNSPACED}]+|{_SPACED}|{_DUNDER}")
WORD_RUN = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")  # plain words, of identifiers the parts
_UNSPACED_START = re.compile(rf"[{UNSPACED}]")
_NO_WORD = re.compile(r"[\W_]+")
_NO_ASCII_WORD = {code: " " for code in range(128) if not chr(code).isalnum()}
_BAR = "\0"
_NO_ASCII_WORD_NOR_BAR = {code: " " for code in _NO_ASCII_WORD if code != ord(_BAR)}


def is_unspaced(word: str) -> bool:
    """Whether it is of a script that writes no blanks between words."""
    return _UNSPACED_START.match(word) is not None


def squash(text: str) -> str:
    """The words of a text only, one blank around each: the same for any punctuation and markup."""
    if text.isascii():  # most of most texts, and three times as fast
        return f" {' '.join(text.lower().translate(_NO_ASCII_WORD).split())} "
    return f" {_NO_WORD.sub(' ', fold(text)).strip()} "


def squash_each(texts: Sequence[str]) -> str:
    """Each as `squash` gives it, a bar between two; in one go where all are plain."""
    joined = f" {_BAR} ".join(texts)
    if not joined.isascii() or joined.count(_BAR) >= len(texts):
        return "|".join(map(squash, texts))
    words = " ".join(joined.lower().translate(_NO_ASCII_WORD_NOR_BAR).split())
    return f" {words} ".replace(_BAR, "|")


def is_form(one: str, other: str) -> bool:
    """Whether two words share so much of their beginning that one is likely a form of the other; figures never are."""
    shorter = min(len(one), len(other))
    if shorter < STEM_LETTERS or one[:STEM_LETTERS] != other[:STEM_LETTERS] or not (one.isalpha() and other.isalpha()):
        return False
    longer = max(len(one), len(other))
    if shorter < STEM_SHARE * longer:
        return False
    if shorter == STEM_LETTERS:  # `runs`, but not `theft` for `the` or `user` for `use`
        return one == f"{other}s" or other == f"{one}s"
    shared = STEM_LETTERS
    while shared < shorter and one[shared] == other[shared]:
        shared += 1
    return shared >= (STEM_SHARE if shared >= MIN_STEM else SHORT_STEM_SHARE) * longer


def is_part(word: str, other: str) -> bool:
    """Whether one word is the end of the other, a compound, or both are forms of one with a German `ge-`."""
    if word.endswith(other) or other.endswith(word):
        return min(len(word), len(other)) >= MIN_COMPOUND_PART
    return (other.startswith("ge") and is_form(word, other[2:])) or (word.startswith("ge") and is_form(word[2:], other))


def is_same_word(one: str, other: str) -> bool:
    return one == other or is_form(one, other)


def is_form_of_any(word: str, others: Sequence[str]) -> bool:
    if word in others:
        return True
    start = word[:STEM_LETTERS]
    return any(other.startswith(start) and is_form(word, other) for other in others)
