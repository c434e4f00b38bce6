"""Prepare a sentence of an answer and a part of a source for comparison: words with weights, numbers, names, negations."""

import itertools
import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Final

from modules.llm_platform.domain.text.data_files import load_data, load_words
from modules.llm_platform.domain.text.memoized import Memoized
from modules.llm_platform.domain.text.negation import count_negators, denied_words
from modules.llm_platform.domain.text.numbers import (
    ISO_DATE,
    Reading,
    compound_numbers,
    date_words,
    number_words,
    numbers_in,
    reading_of,
)
from modules.llm_platform.domain.text.scripts import UNSPACED
from modules.llm_platform.domain.text.tokens import WORD_WITH_APOSTROPHE, fold, normalize

NAME_WEIGHT: Final = 1.5  # weight of names, numbers and identifiers; other content words weigh 1, function words 0
COUNT_REACH: Final = 5  # words behind a number word among which the counted thing is looked for
MAX_CLAIM_CHARS: Final = 2000  # a longer sentence is judged by its beginning
MAX_WORDS: Final = 200
MEMOIZED_RUNS: Final = 4096

_RUN = re.compile(r"\S+")
_FIGURES = r"[0-9]+(?:[.,:/-][0-9]+)+(?![^\W_])"
_SPACED = rf"[^\W_{UNSPACED}]+(?:[_.:/'’+#@-]+[^\W_{UNSPACED}]+)*[+#]*(?:\(\))?"
_DUNDER = rf"_+[^\W_{UNSPACED}]+(?:_+[^\W_{UNSPACED}]*)*"
WORD: Final = re.compile(rf"{_FIGURES}|[{UNSPACED}]+|{_SPACED}|{_DUNDER}")
_UNSPACED_START = re.compile(rf"[{UNSPACED}]")
_PART = re.compile(rf"[^\W_{UNSPACED}]+")
_OPTION = re.compile(r"(?<![\w-])--[A-Za-z][\w-]*")
_LITERAL = re.compile(
    rf"(`+)(?!`).+?(?<!`)\1(?!`)|(?<![^\s`\"'(])/\w[\w/.-]*|{_OPTION.pattern}"
)  # code, paths, options
_STOP = re.compile(r"[.!?:;]")
_NUMERIC = re.compile(r"[0-9]+(?:[.,:/-][0-9]+)*\Z")
IDENTIFIER = re.compile(
    r".*(?:_|\(\)|[a-z][A-Z]|[^\W\d_]\.[^\W\d_]{2}|::|[A-Z]{2}[a-z]+[A-Z])|[A-Z][A-Z0-9]*[0-9][A-Z0-9]*\Z"
)
_POSSESSIVE = re.compile(r"['’](?:s|S)?\Z")
_CLAUSE = re.compile(r"[,;:](?=\s)|[，、；：（(]|\s[–—-]\s")


@dataclass(frozen=True, slots=True)
class Word:
    """A word folded for comparison (`key`) and as it was written."""

    key: str
    written: str
    weight: float
    is_name: bool = False
    is_identifier: bool = False
    is_content: bool = True


class Claim:
    """A sentence of the answer, independent of any source."""

    def __init__(self, text: str, stop_words: frozenset[str], *, capitals_name: bool) -> None:
        self.text = text[:MAX_CLAIM_CHARS]
        self.capitals_name = capitals_name
        self.facts = TextFacts(self.text, stop_words)
        self.words: list[Word] = []
        self.ats: list[int] = []  # offsets of the words in the text
        self._read_words(stop_words, capitals_name)
        if not any(word.is_content for word in self.words):  # "It is what it is."
            self.words = [replace(word, weight=1.0, is_content=True) for word in self.words]
        self.weights = [word.weight for word in self.words]
        self.total = sum(self.weights)
        self.keys = [word.key for word in self.words]

    def _read_words(self, stop_words: frozenset[str], capitals_name: bool) -> None:
        text, words, ats = self.text, self.words, self.ats
        has_literals = "`" in text or "/" in text or "--" in text
        if has_literals and (literals := [match.span() for match in _LITERAL.finditer(text)]):
            for word, at in _words_of(text, stop_words, capitals_name, literals):
                words.append(word)
                ats.append(at)
            return
        first, later = _words_of_runs(stop_words, capitals_name)
        for run in _RUN.finditer(text):
            at = run.start()
            for word, offset in (later if words else first)[run[0]]:
                words.append(word)
                ats.append(at + offset)
            if len(words) > MAX_WORDS:
                break

    @cached_property
    def numbers(self) -> list[tuple[Reading, int, str]]:
        """Values, place and writing of each number, in figures or words."""
        known, compounds = number_words(), compound_numbers(self.text, self.keys)
        spelled = [(reading, start, self.text[start:end]) for reading, (start, end) in compounds]
        spelled += [
            (reading_of(known[key]), at, key)
            for key, at in zip(self.keys, self.ats, strict=True)
            if key in known and not any(start <= at < end for _, (start, end) in compounds)
        ]
        return [(reading, at, "") for reading, at in numbers_in(self.text)] + spelled

    @cached_property
    def denied_words(self) -> list[str]:
        return denied_words(self.keys, [word.is_content for word in self.words])

    @cached_property
    def content(self) -> int:
        """The places of the content words, as bits."""
        return sum([1 << position for position, word in enumerate(self.words) if word.is_content])

    @cached_property
    def clauses(self) -> list[int]:
        """The clauses, cut at commas and conjunctions: the places of their words, as bits."""
        cuts = {bisect_left(self.ats, found.start()) for found in _CLAUSE.finditer(self.text)}
        cuts.update(
            position for position, key in enumerate(self.keys) if key in load_words("connectives", "clause_openers")
        )
        starts = sorted(cuts | {0, len(self.words)})
        return [(1 << end) - (1 << start) for start, end in itertools.pairwise(starts)]


class TextFacts:
    """Words, numbers, dates and negations of a part of a source, read once for all sentences that cite it.

    `spells_numbers`: False where the text is known to have no number word.
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
        return _folded_words(self.text)

    @cached_property
    def words(self) -> list[str]:
        """The words as written, in the order of `folded`."""
        written = WORD_WITH_APOSTROPHE.findall(self.text)
        return written if len(written) == len(self.folded) else self.folded

    @cached_property
    def content(self) -> list[bool]:
        return [len(word) > 1 and word not in self._stop_words for word in self.folded]

    @cached_property
    def figures(self) -> list[tuple[Reading, int]]:
        """The numbers that are not written in words, with their offsets."""
        return numbers_in(self.text)

    @cached_property
    def numbers(self) -> list[Reading]:
        found = [reading for reading, _ in self.figures]
        if not self._spells_numbers:
            return found
        known, words, rest = number_words(), self.folded, self.text
        if compounds := compound_numbers(self.text, words):
            found += [reading for reading, _ in compounds]
            for _, (start, end) in reversed(compounds):
                rest = rest[:start] + rest[end:]
            words = _folded_words(rest)
        return found + [reading_of(known[word]) for word in words if word in known]

    @cached_property
    def values(self) -> frozenset[str]:
        """All values that the numbers can mean."""
        return frozenset().union(*self.numbers)

    @cached_property
    def identifiers(self) -> frozenset[str]:
        """The folded names of program parts and options."""
        return frozenset(fold(word).removesuffix("()") for word in identifiers_in(self.text))

    @cached_property
    def dated(self) -> list[str]:
        """The words as written and the ISO dates."""
        return self.words + ISO_DATE.findall(self.text) if "-" in self.text else self.words

    @cached_property
    def denied_words(self) -> list[str]:
        return denied_words(self.folded, self.content) if count_negators(self.folded) else []

    @cached_property
    def sentence_starts(self) -> frozenset[int]:
        """The places of the words that begin a sentence."""
        found = list(WORD_WITH_APOSTROPHE.finditer(self.text))
        return frozenset(
            position
            for position, word in enumerate(found)
            if not position or _STOP.search(self.text, found[position - 1].end(), word.start())
        )

    def counted_at(self, noun: str | None) -> int | None:
        """Return the place of the number word that stands before this noun or figure, as in `words`; None without one."""
        words, known = self.folded, number_words()
        return next((at for at, word in enumerate(words) if word in known and noun in words[at + 1 : at + COUNT_REACH]), None)


def _folded_words(text: str) -> list[str]:
    return WORD_WITH_APOSTROPHE.findall(fold(text).replace("’", "'"))


def identifiers_in(text: str) -> list[str]:
    """Names of program parts (`max_size`, `runAll`, `run()`) and options (`--quiet`) in a text."""
    found = [word for word in WORD.findall(text) if IDENTIFIER.match(word)]
    return found + [option.lstrip("-") for option in _OPTION.findall(text)] if "--" in text else found


def is_unspaced(word: str) -> bool:
    """Return whether a word is of a script without blanks between words."""
    return _UNSPACED_START.match(word) is not None


FoundWord = tuple[Word, int]  # a word and its offset
Words = Memoized[tuple[FoundWord, ...]]


@cache
def _words_of_runs(stop_words: frozenset[str], capitals_name: bool) -> tuple[Words, Words]:
    """Return the words of each run of characters between blanks: of the first run of a claim, and of later ones.

    Most runs occur again, so each is read once.
    """

    def reader(*, begins_claim: bool) -> Words:
        return Memoized(
            lambda run: tuple(_words_of(run, stop_words, capitals_name, begins_claim=begins_claim)), MEMOIZED_RUNS
        )

    return reader(begins_claim=True), reader(begins_claim=False)


def _words_of(
    text: str,
    stop_words: frozenset[str],
    capitals_name: bool,
    literals: Sequence[tuple[int, int]] = (),
    *,
    begins_claim: bool = True,
) -> list[FoundWord]:
    """The words of a text, those within `literals` (code, paths, options) whole. A capital at the beginning is no name."""
    found: list[FoundWord] = []
    for match in WORD.finditer(text):
        at, written = match.start(), match[0]
        if any(start <= at < end for start, end in literals):
            found.append((Word(fold(written).removesuffix("()"), written, NAME_WEIGHT, is_identifier=True), at))
            continue
        is_inside = bool(found) or not begins_claim
        is_name = capitals_name and is_inside and written[0].isupper() and written != "I"
        found += [(word, at + offset) for word, offset in _words_in(written, stop_words, is_name)]
        if len(found) > MAX_WORDS:
            break
    return found


def _words_in(written: str, stop_words: frozenset[str], is_name: bool) -> tuple[FoundWord, ...]:
    """Return the words to compare in one match of WORD, each with its offset: its parts where it is joined."""
    written = _POSSESSIVE.sub("", written).replace("’", "'")
    folded = fold(written)
    if not folded:
        return ()
    if is_unspaced(folded):
        pairs = range(max(1, min(len(folded) - 1, MAX_WORDS)))  # one run may be a whole page
        return tuple((_pair(folded[i : i + 2], stop_words), i) for i in pairs)
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
                for word, offset in _words_in(part[0], stop_words, is_name)
            )
    is_fact = is_name or folded in number_words() or folded in date_words()
    return ((Word(folded, written, NAME_WEIGHT if is_fact else 1.0, is_name), 0),)


def _pair(pair: str, stop_words: frozenset[str]) -> Word:
    """Two neighbouring characters of a script without blanks; no content word with a function word among them."""
    is_content = pair not in stop_words and unspaced_function_signs().isdisjoint(pair)
    return Word(pair, pair, 1.0 if is_content else 0.0, is_content=is_content)


@cache
def unspaced_function_signs() -> frozenset[str]:
    return frozenset(load_data("connectives")["unspaced_function_signs"])
