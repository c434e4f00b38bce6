"""Passages and questions as sparse vectors for BM25: which words they hold, and what each weighs.

How rare a word is, is known to the store alone: it multiplies by the inverse document frequency when it is asked. The same
words get the same numbers in every store and on every machine.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from zlib import crc32

from modules.llm_platform.domain.language import detect, stop_words
from modules.llm_platform.domain.text import word_parts, words

SATURATION: Final = 1.2  # BM25's k: how soon a further occurrence of a word tells nothing new
LENGTH_SHARE: Final = 0.75  # BM25's b: how much a long passage is held against it
USUAL_WORDS: Final = 150  # of a passage; fixed, so that a passage's vector does not depend on the others
MAX_QUESTION_WORDS: Final = 256  # different ones; more cost time and tell nothing new
MIN_PART_CHARS: Final = 2  # of a piece of a joined word that counts by itself
REMEMBERED_WORDS: Final = 1 << 14  # with their numbers: most of what is written is a few thousand words

_JOINT = re.compile(r"[_.'’+#-]")


@dataclass(frozen=True, slots=True)
class SparseVector:
    """Numbers of words, each once, and their weights."""

    indices: list[int]
    values: list[float]

    def __bool__(self) -> bool:
        return bool(self.indices)


def passage_words(text: str) -> SparseVector:
    """What the words of a passage weigh: more when they come often, less the longer it is."""
    counts = _counts(text)
    damping = SATURATION * (1 - LENGTH_SHARE + LENGTH_SHARE * sum(counts.values()) / USUAL_WORDS)
    weights = {count: count * (SATURATION + 1) / (count + damping) for count in set(counts.values())}
    return _vector(dict(zip(map(_number, counts), map(weights.__getitem__, counts.values()), strict=True)))


def question_words(text: str) -> SparseVector:
    """The words of a question that say something, each of them once; all of them where none does (`IT`, `The Who`)."""
    counts = _counts(text)
    empty = stop_words(detect(text) or "en")
    telling = [word for word in counts if word not in empty] or list(counts)
    return _vector(dict.fromkeys(map(_number, telling[:MAX_QUESTION_WORDS]), 1.0))


def _counts(text: str) -> Mapping[str, int]:
    """How often each word comes, joined ones as a whole and in pieces: `loop.run_in_executor` also holds `run_in_executor`,
    `loop`, `run`, `in` and `executor`.
    """
    counts = Counter(words(text))
    for word in [word for word in counts if not word.isalnum() and _JOINT.search(word)]:
        for part in _parts(word):
            counts[part] += counts[word]
    return counts


def _parts(word: str) -> Iterable[str]:
    pieces = {*word_parts(word), *word.split(".")}
    return [piece for piece in pieces if len(piece) >= MIN_PART_CHARS and piece != word]


def _vector(weights: Mapping[int, float]) -> SparseVector:
    return SparseVector(list(weights), list(weights.values()))


@lru_cache(maxsize=REMEMBERED_WORDS)
def _number(word: str) -> int:
    """The same everywhere; two of the words of a passage have the same one once in a million."""
    return crc32(word.encode("utf-8", "replace"))
