"""Passages and questions as sparse vectors for BM25: which words they hold, and what each weighs.

How rare a word is, is known to the store alone: it multiplies by the inverse document frequency when it is asked. The same
words get the same numbers in every store and on every machine.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final
from zlib import crc32

from modules.llm_platform.domain.text.language import detect, stop_words
from modules.llm_platform.domain.text.memoized import Memoized
from modules.llm_platform.domain.text.stemming import stem
from modules.llm_platform.domain.text.tokens import fold, word_parts, words

SATURATION: Final = 1.2  # BM25's k: how soon a further occurrence of a word tells nothing new
USUAL_WORDS: Final = 150  # of a passage; fixed, so that a passage's vector does not depend on the others
FORM: Final = 3  # of a passage's words: those of another form are not found, so a collection says which it has
MAX_QUESTION_WORDS: Final = 256  # different ones; more cost time and tell nothing new
MIN_PART_CHARS: Final = 2  # of a piece of a joined word that counts by itself
REMEMBERED_WORDS: Final = 1 << 14  # with their numbers
REMEMBERED_JOINED: Final = 1 << 12  # words with the numbers of their pieces

_JOINT = re.compile(r"[_.'’+#-]")
# From a capital inside a word to the word's end: `UpClass` of setUpClass, `Server` of HTTPServer. It begins with the capital,
# so that the search skips from one to the next: five times as fast as a pattern of the whole word.
_INNER_CAPITAL = re.compile(r"[A-Z](?:(?<=[a-z].)|(?<=[A-Z].)[a-z]{2})[A-Za-z0-9]*")
_CAMEL_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


@dataclass(frozen=True, slots=True)
class SparseVector:
    """Numbers of words, each once, and their weights."""

    indices: list[int]
    values: list[float]

    def __bool__(self) -> bool:
        return bool(self.indices)


def passage_words(text: str) -> SparseVector:
    """What the words of a passage weigh: more when they come often, less the longer it is (BM25's b is 1)."""
    counts = _counts(text)
    damping = SATURATION * sum(counts.values()) / USUAL_WORDS
    weights = {count: count * (SATURATION + 1) / (count + damping) for count in set(counts.values())}
    return SparseVector(list(counts), list(map(weights.__getitem__, counts.values())))


def question_words(text: str) -> SparseVector:
    """The words of a question that say something, each of them once; all of them where none does (`IT`, `The Who`)."""
    found = words(text)
    told = dict.fromkeys([*found, *(part for word in found if not word.isalnum() for part in _parts(word))])
    empty = stop_words(detect(text) or "en")
    telling = [word for word in told if word not in empty] or list(told)
    indices = list(dict.fromkeys(map(_NUMBERS.__getitem__, telling[:MAX_QUESTION_WORDS])))
    return SparseVector(indices, [1.0] * len(indices))


def _counts(text: str) -> Mapping[int, int]:
    """How often each word comes, by its number, in all its forms; joined ones as a whole and in pieces:
    `loop.run_in_executor` also holds `run_in_executor`, `loop`, `run`, `in` and `executor`, and `setUpClass` also `set`, `up`
    and `class`. Questions are not taken apart at capitals: whoever writes `setUpClass` means that name.
    """
    found = words(text)
    counts = Counter(map(_NUMBERS.__getitem__, found))
    for word in [word for word in found if not word.isalnum()]:
        for number in _PARTS[word]:
            counts[number] = counts.get(number, 0) + 1
    for word in _camel_case_words(text):
        for number in _CAMEL_PARTS[word]:
            counts[number] = counts.get(number, 0) + 1
    return counts


def _parts(word: str) -> tuple[str, ...]:
    if not _JOINT.search(word):
        return ()
    pieces = dict.fromkeys([*word_parts(word), *word.split(".")])  # in the same order in every process
    return tuple(piece for piece in pieces if len(piece) >= MIN_PART_CHARS and piece != word)


def _camel_case_words(text: str) -> Iterator[str]:
    for found in _INNER_CAPITAL.finditer(text):
        begin = found.start()
        while begin and text[begin - 1].isalnum():
            begin -= 1
        yield text[begin : found.end()]


def _camel_parts(word: str) -> Iterator[str]:
    return (part for part in map(fold, _CAMEL_PART.findall(word)) if len(part) >= MIN_PART_CHARS)


def _number(word: str) -> int:
    """The same everywhere; two of the words of a passage have the same one once in a million, but for those of one stem."""
    return crc32(stem(word).encode("utf-8", "replace"))


_NUMBERS: Final = Memoized(_number, REMEMBERED_WORDS)
_PARTS: Final = Memoized(lambda word: tuple(map(_number, _parts(word))), REMEMBERED_JOINED)
_CAMEL_PARTS: Final = Memoized(lambda word: tuple(map(_number, _camel_parts(word))), REMEMBERED_JOINED)
