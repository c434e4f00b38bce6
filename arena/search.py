"""A small search engine over the frozen web: BM25 over words, the same order in every run."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from arena.web import FrozenPage

K1: Final = 1.2
B: Final = 0.75
TITLE_WEIGHT: Final = 3  # a word of the title counts as so many of the text
MAX_INDEXED_CHARS: Final = 200_000
SNIPPET_WORDS: Final = 45  # as long as the excerpts of public engines
_WORD = re.compile(r"\w+")
_STOP_WORDS: Final = """
a an and are as at be by can did do does for from has have how i if in is it its me my of on or so that the their there this to
was were what when where which who will with you your
"""
_STOP = frozenset(_STOP_WORDS.split())


def words_of(text: str) -> list[str]:
    """Return the words without stop words, with the English plural taken off."""
    return [_stem(word) for word in _WORD.findall(text.lower()) if word not in _STOP]


def _stem(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


@dataclass(frozen=True, slots=True)
class Hit:
    page: FrozenPage
    snippet: str
    score: float


class SearchEngine:
    """Pages by BM25. Equal scores come in the order of the addresses."""

    def __init__(self, pages: Iterable[FrozenPage]) -> None:
        self._pages = sorted(pages, key=lambda page: page.place)
        self._lengths: list[int] = []
        self._postings: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for number, page in enumerate(self._pages):
            counts = Counter(words_of(page.text[:MAX_INDEXED_CHARS]))
            for word in words_of(f"{page.title} {page.place}"):
                counts[word] += TITLE_WEIGHT
            self._lengths.append(sum(counts.values()))
            for word, count in counts.items():
                self._postings[word].append((number, count))
        self._mean = sum(self._lengths) / max(1, len(self._lengths))

    def search(self, query: str, count: int) -> list[Hit]:
        """Return at most `count` pages that have a word of the query, best first."""
        words = sorted(set(words_of(query)))
        scores: dict[int, float] = defaultdict(float)
        for word in words:
            postings = self._postings.get(word, ())
            rarity = math.log(1 + (len(self._pages) - len(postings) + 0.5) / (len(postings) + 0.5))
            for number, frequency in postings:
                norm = K1 * (1 - B + B * self._lengths[number] / self._mean)
                scores[number] += rarity * frequency * (K1 + 1) / (frequency + norm)
        best = sorted(scores, key=lambda number: (-round(scores[number], 9), number))[:count]
        return [Hit(self._pages[n], make_snippet(self._pages[n].running_text, words), scores[n]) for n in best]


def make_snippet(text: str, words: Sequence[str]) -> str:
    """Return the window of the text that has most of the words, and the earliest of those."""
    tokens = text[:MAX_INDEXED_CHARS].split()
    wanted = set(words)
    found = [(place, stem) for place, token in enumerate(tokens) for stem in words_of(token) if stem in wanted]
    best, start, low = 0, 0, 0
    inside: Counter[str] = Counter()
    for place, stem in found:
        inside[stem] += 1
        while found[low][0] <= place - SNIPPET_WORDS:
            inside[found[low][1]] -= 1
            low += 1
        distinct = sum(1 for amount in inside.values() if amount > 0)
        if distinct > best:
            best, start = distinct, found[low][0]
    start = max(0, start - 5)
    window = tokens[start : start + SNIPPET_WORDS]
    return " ".join(window) + (" …" if start + SNIPPET_WORDS < len(tokens) else "")
