"""Split a sentence into words for comparison.

Joined words are split into their parts, and code is kept whole. Scripts without spaces are split into pairs of characters.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from modules.llm_platform.domain.text.data_files import load_data, load_words
from modules.llm_platform.domain.text.lazy_pattern import lazy_pattern
from modules.llm_platform.domain.text.memoized import Memoized
from modules.llm_platform.domain.text.numbers import load_date_words, load_number_words
from modules.llm_platform.domain.text.scripts import UNSPACED
from modules.llm_platform.domain.text.tokens import fold

NAME_WEIGHT: Final = 1.5  # weight of names, numbers and identifiers; other content words weigh 1, function words 0
MAX_WORDS: Final = 200  # later words of a claim are not compared
MEMOIZED_RUNS: Final = 4096

_FIGURES = r"[0-9]+(?:[.,:/-][0-9]+)+(?![^\W_])"
_SPACED = rf"[^\W_{UNSPACED}]+(?:[_.:/'’+#@-]+[^\W_{UNSPACED}]+)*[+#]*(?:\(\))?"
_DUNDER = rf"(?<!_)_+[^\W_{UNSPACED}]+(?:_+[^\W_{UNSPACED}]*)*"
WORD: Final = lazy_pattern(rf"{_FIGURES}|[{UNSPACED}]+|{_SPACED}|{_DUNDER}")
_UNSPACED_START = re.compile(rf"[{UNSPACED}]")
_PART = lazy_pattern(rf"[^\W_{UNSPACED}]+")
OPTION = re.compile(r"(?<![\w-])--[A-Za-z][\w-]*")
LITERAL = re.compile(
    rf"(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)|(?<![^\s`\"'(])/\w[\w/.-]*|{OPTION.pattern}"
)  # code, paths, options
_NUMERIC = re.compile(r"[0-9]+(?:[.,:/-][0-9]+)*\Z")
IDENTIFIER = re.compile(
    r".*(?:_|\(\)|[a-z][A-Z]|[^\W\d_]\.[^\W\d_]{2}|::|[A-Z]{2}[a-z]+[A-Z])|[A-Z](?=[A-Z]*[0-9])[A-Z0-9]*\Z"
)
_POSSESSIVE = re.compile(r"['’](?:s|S)?\Z")


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a claim: folded for comparison (`key`), and as it was written.

    In "Ina Berg calls `open()`", `berg` is a name and `open` is an identifier. Function words such as "the" are not content.
    """

    key: str
    written: str
    weight: float
    is_name: bool = False
    is_identifier: bool = False
    is_content: bool = True


def find_identifiers(text: str) -> list[str]:
    """Return the names of program parts (`max_size`, `runAll`, `run()`) and the options (`--quiet`) in a text."""
    found = [word for word in WORD.findall(text) if IDENTIFIER.match(word)]
    return found + [option.lstrip("-") for option in OPTION.findall(text)] if "--" in text else found


def is_unspaced(word: str) -> bool:
    """Return whether a word is of a script without spaces between words."""
    return _UNSPACED_START.match(word) is not None


FoundWord = tuple[Word, int]  # a word and its offset
Words = Memoized[tuple[FoundWord, ...]]


@cache
def make_word_caches(stop_words: frozenset[str], capitals_name: bool) -> tuple[Words, Words]:
    """Return two caches of the words in a run of characters between spaces: for the first run of a claim, and for later ones.

    Most runs occur again and again, so each is split only once.
    """

    def make_cache(*, begins_claim: bool) -> Words:
        return Memoized(
            lambda run: tuple(list_words(run, stop_words, capitals_name, begins_claim=begins_claim)), MEMOIZED_RUNS
        )

    return make_cache(begins_claim=True), make_cache(begins_claim=False)


def list_words(
    text: str,
    stop_words: frozenset[str],
    capitals_name: bool,
    literals: Sequence[tuple[int, int]] = (),
    *,
    begins_claim: bool = True,
) -> list[FoundWord]:
    """Return the words of a text with their offsets. Words within `literals` (code, paths, options) are not split.

    A capital does not make the first word a name, unless `begins_claim` is False.
    """
    found: list[FoundWord] = []
    for match in WORD.finditer(text):
        at, written = match.start(), match[0]
        if any(start <= at < end for start, end in literals):
            found.append((Word(fold(written).removesuffix("()"), written, NAME_WEIGHT, is_identifier=True), at))
            continue
        is_inside = bool(found) or not begins_claim
        is_name = capitals_name and is_inside and written[0].isupper() and written != "I"
        found += [(word, at + offset) for word, offset in _split_words(written, stop_words, is_name)]
        if len(found) > MAX_WORDS:
            break
    return found


def _split_words(written: str, stop_words: frozenset[str], is_name: bool) -> tuple[FoundWord, ...]:
    """Return the words in one match of WORD, each with its offset. A joined word gives its parts."""
    written = _POSSESSIVE.sub("", written).replace("’", "'")
    folded = fold(written)
    if not folded:
        return ()
    if is_unspaced(folded):
        pairs = range(max(1, min(len(folded) - 1, MAX_WORDS)))  # one run may be a whole page
        return tuple((_make_pair(folded[i : i + 2], stop_words), i) for i in pairs)
    if _NUMERIC.match(folded):
        return ((Word(folded, written, NAME_WEIGHT), 0),)
    if folded in stop_words or folded in load_words("connectives", "connectives") or len(folded) == 1:
        return ((Word(folded, written, 0.0, is_content=False), 0),)
    if IDENTIFIER.match(written):
        return ((Word(folded.removesuffix("()"), written, NAME_WEIGHT, is_identifier=True), 0),)
    if not folded.isalnum():
        parts = list(_PART.finditer(written))
        if len(parts) > 1:
            return tuple(
                (word, part.start() + offset)
                for part in parts
                for word, offset in _split_words(part[0], stop_words, is_name)
            )
    is_fact = is_name or folded in load_number_words() or folded in load_date_words()
    return ((Word(folded, written, NAME_WEIGHT if is_fact else 1.0, is_name), 0),)


def _make_pair(pair: str, stop_words: frozenset[str]) -> Word:
    """Return two adjacent characters as a word. It is not content if the pair or one character is a function word."""
    is_content = pair not in stop_words and list_unspaced_function_signs().isdisjoint(pair)
    return Word(pair, pair, 1.0 if is_content else 0.0, is_content=is_content)


@cache
def list_unspaced_function_signs() -> frozenset[str]:
    return frozenset(load_data("connectives")["unspaced_function_signs"])
