"""Read a sentence of an answer and a part of a source for comparison: words with weights, numbers, names, negations.

`Claim` is a sentence of the answer, and `TextFacts` is a sentence or passage of a source. A claim also has `facts`, so that
both sides can be compared word by word. Sets of words or sentences are bitmasks.
"""

import itertools
import re
from bisect import bisect_left, bisect_right
from dataclasses import replace
from functools import cached_property
from typing import Final, NamedTuple

from modules.llm_platform.domain.citations.read.words import LITERAL, MAX_WORDS, Word, list_words, make_word_caches
from modules.llm_platform.domain.text.data_files import load_words
from modules.llm_platform.domain.text.language import capitalises_nouns, load_stop_words
from modules.llm_platform.domain.text.negation import count_negators, list_denied_words
from modules.llm_platform.domain.text.numbers import (
    ISO_DATE,
    NumberValues,
    find_compound_numbers,
    find_number_words,
    list_numbers,
    load_number_words,
    read_value,
)
from modules.llm_platform.domain.text.positions import ClaimWordNumber, Offset, WordNumber
from modules.llm_platform.domain.text.tokens import WORD_WITH_APOSTROPHE, fold, normalize

COUNT_REACH: Final = 5  # the noun that a number word counts is less than this many words after it
MAX_CLAIM_CHARS: Final = 2000  # a longer sentence is judged by its beginning

_RUN = re.compile(r"\S+")
_STOP = re.compile(r"[.!?:;]")
_CLAUSE = re.compile(r"[,;:](?=\s)|[，、；：（(]|\s[–—-]\s")


class ClaimNumber(NamedTuple):
    """A number of a claim: its possible values, its offset, and its words (empty for a number in figures).

    The values of "1,234" are `{"1234", "1.234"}`, because a comma may separate thousands or decimals.
    """

    values: NumberValues
    offset: Offset
    spelled: str


class Claim:
    """A sentence of the answer, independent of any source.

    - `words` have weights, `keys` are their folded forms, and `offsets` are where they begin in the text. A position is an
      index in these lists.
    - `facts` has the claim read in the same way as a source, to align it with a sentence of the source.
    - `capitals_name` is True if a capital makes a word a name. It does not in languages that capitalise all nouns, like German.
    """

    def __init__(self, text: str, stop_words: frozenset[str], *, capitals_name: bool) -> None:
        self.text = text[:MAX_CLAIM_CHARS]
        self.capitals_name = capitals_name
        self.facts = TextFacts(self.text, stop_words)
        self.words: list[Word] = []
        self.offsets: list[Offset] = []
        self._read_words(stop_words, capitals_name)
        if not any(word.is_content for word in self.words):  # such as "It is what it is."
            self.words = [replace(word, weight=1.0, is_content=True) for word in self.words]
        self.weights = [word.weight for word in self.words]
        self.total = sum(self.weights)
        self.keys = [word.key for word in self.words]

    def _read_words(self, stop_words: frozenset[str], capitals_name: bool) -> None:
        text, words, offsets = self.text, self.words, self.offsets
        may_have_literals = "`" in text or "/" in text or "--" in text
        if may_have_literals and (literals := [match.span() for match in LITERAL.finditer(text)]):
            for word, offset in list_words(text, stop_words, capitals_name, literals):
                words.append(word)
                offsets.append(Offset(offset))
            return
        first, later = make_word_caches(stop_words, capitals_name)
        for run in _RUN.finditer(text):
            for word, offset in (later if words else first)[run[0]]:
                words.append(word)
                offsets.append(Offset(run.start() + offset))
            if len(words) > MAX_WORDS:
                break

    def find_position(self, offset: Offset) -> ClaimWordNumber:
        """Return the position of the word at this offset of the text."""
        return ClaimWordNumber(max(0, bisect_right(self.offsets, offset) - 1))

    @cached_property
    def numbers(self) -> list[ClaimNumber]:
        """The numbers in figures, then the numbers in words."""
        known, compounds = load_number_words(), find_compound_numbers(self.text, self.keys)
        spelled = [ClaimNumber(values, Offset(start), self.text[start:end]) for values, (start, end) in compounds]
        spelled += [
            ClaimNumber(read_value(known[self.keys[at]]), self.offsets[at], self.keys[at])
            for at in find_number_words(self.keys)
            if not any(start <= self.offsets[at] < end for _, (start, end) in compounds)
        ]
        return [ClaimNumber(values, offset, "") for values, offset in list_numbers(self.text)] + spelled

    @cached_property
    def denied_words(self) -> list[str]:
        """The content words that a negation denies."""
        return list_denied_words(self.keys, [word.is_content for word in self.words])

    @cached_property
    def content(self) -> int:
        """The positions of the content words, as bits."""
        return sum([1 << position for position, word in enumerate(self.words) if word.is_content])

    @cached_property
    def clauses(self) -> list[int]:
        """The clauses, cut at commas and conjunctions: the positions of their words, as bits.

        "It opened in 1890, and trains cross it" is `[0b1111, 0b11110000]`.
        """
        cuts = {bisect_left(self.offsets, found.start()) for found in _CLAUSE.finditer(self.text)}
        cuts.update(
            position for position, key in enumerate(self.keys) if key in load_words("connectives", "clause_openers")
        )
        starts = sorted(cuts | {0, len(self.words)})
        return [(1 << end) - (1 << start) for start, end in itertools.pairwise(starts)]


def read_claim(text: str, language: str) -> Claim:
    """Return a sentence in this language as a claim."""
    capitals_name = not capitalises_nouns(language)
    return Claim(text, load_stop_words(language), capitals_name=capitals_name)


class TextFacts:
    """Words, numbers, dates and negations of a sentence or passage, read once for all claims.

    `spells_numbers` is False if the text is known to have no number word.
    """

    def __init__(self, text: str, stop_words: frozenset[str], *, spells_numbers: bool = True) -> None:
        self.text = text
        self._stop_words = stop_words
        self._spells_numbers = spells_numbers

    @cached_property
    def normalized(self) -> str:
        return normalize(self.text)

    @cached_property
    def folded(self) -> list[str]:
        """The words, folded for comparison."""
        return _fold_words(self.text)

    def find_position(self, offset: Offset) -> WordNumber:
        """Return the index in `folded` of the word at this offset of the text."""
        return WordNumber(len(_fold_words(self.text[:offset])))

    def list_content(self, first: int, end: int) -> list[str]:
        """Return the content words of `folded` from one index up to another."""
        return [self.folded[at] for at in range(first, end) if self.content[at]]

    @cached_property
    def words(self) -> list[str]:
        """The words as written, in the order of `folded`."""
        written = WORD_WITH_APOSTROPHE.findall(self.text)
        return written if len(written) == len(self.folded) else self.folded

    @cached_property
    def content(self) -> list[bool]:
        """For each word of `folded`, True if it is a content word."""
        return [len(word) > 1 and word not in self._stop_words for word in self.folded]

    @cached_property
    def figures(self) -> list[tuple[NumberValues, Offset]]:
        """The numbers that are not written in words, with their offsets."""
        return list_numbers(self.text)

    @cached_property
    def numbers(self) -> list[NumberValues]:
        """The possible values of each number, whether it is written in figures or in words."""
        found = [values for values, _ in self.figures]
        if not self._spells_numbers:
            return found
        known, words, rest = load_number_words(), self.folded, self.text
        if compounds := find_compound_numbers(self.text, words):
            found += [values for values, _ in compounds]
            for _, (start, end) in reversed(compounds):
                rest = rest[:start] + rest[end:]
            words = _fold_words(rest)
        return found + [read_value(known[words[at]]) for at in find_number_words(words)]

    @cached_property
    def values(self) -> frozenset[str]:
        """The possible values of all numbers together."""
        return frozenset().union(*self.numbers)

    @cached_property
    def dated(self) -> list[str]:
        """The words as written and the ISO dates."""
        return self.words + ISO_DATE.findall(self.text) if "-" in self.text else self.words

    @cached_property
    def denied_words(self) -> list[str]:
        return list_denied_words(self.folded, self.content) if count_negators(self.folded) else []

    @cached_property
    def sentence_starts(self) -> frozenset[WordNumber]:
        """The places of the words that begin a sentence."""
        found = list(WORD_WITH_APOSTROPHE.finditer(self.text))
        return frozenset(
            WordNumber(position)
            for position, word in enumerate(found)
            if not position or _STOP.search(self.text, found[position - 1].end(), word.start())
        )

    def find_counted(self, noun: str | None) -> WordNumber | None:
        """Return the index in `words` of a number word that counts this noun; None if there is none."""
        words, known = self.folded, load_number_words()
        return next(
            (
                WordNumber(at)
                for at, word in enumerate(words)
                if word in known and noun in words[at + 1 : at + COUNT_REACH]
            ),
            None,
        )


def _fold_words(text: str) -> list[str]:
    return WORD_WITH_APOSTROPHE.findall(fold(text).replace("’", "'"))
