"""A sentence prepared to be looked for in sources: its words, how much each tells, and the facts among them."""

from __future__ import annotations

import itertools
import re
from bisect import bisect_left
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from modules.llm_platform.domain.checking.dates import DATE_WORDS
from modules.llm_platform.domain.checking.denial import (
    SOFT_NEGATORS,
    Clause,
    clauses_of,
    denied,
    may_deny,
    preferred,
    undenied_words,
)
from modules.llm_platform.domain.checking.numbers import NUMBER_WORDS, Reading, numbers_in, reading_of
from modules.llm_platform.domain.checking.words import UNSPACED, WORD, WORD_RUN, is_unspaced, squash
from modules.llm_platform.domain.text import fold

SHORT_WORD_LETTERS = 3
SHORT_WORD_WEIGHT = 0.6  # short words tell less than others, which weigh 1, and function words nothing
NAME_WEIGHT = 1.5  # names, numbers and identifiers carry a claim
MAX_CLAIM_CHARS = 2000  # of a sentence; a longer one is judged by its beginning
MAX_WORDS = 200
WORDS_KEPT = 4096  # prepared words remembered

_PART = re.compile(rf"[^\W_{UNSPACED}]+")
_LITERAL = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)|(?<![^\s`\"'(])/\w[\w/.-]*")  # code and paths
_NUMERIC = re.compile(r"[0-9]+(?:[.,:/-][0-9]+)*\Z")
IDENTIFIER = re.compile(
    r".*(?:_|\(\)|[a-z][A-Z]|[^\W\d_]\.[^\W\d_]{2}|::|[A-Z]{2}[a-z]+[A-Z])|[A-Z][A-Z0-9]*[0-9][A-Z0-9]*\Z"
)
_PLURAL = re.compile(r"[A-Z]-?[0-9]{2,}s\Z")  # `A220s`
_POSSESSIVE = re.compile(r"['’](?:s|S)?\Z")
_CLAUSE = re.compile(r"[,;:](?=\s)|[，、；：（(]|\s[–—-]\s")
_CONDITIONS_LIST = "if when unless until wenn falls sobald si quand lorsque cuando se quando если когда"
_CONDITIONS = frozenset(_CONDITIONS_LIST.split())
_CLAUSE_WORDS_LIST = "and or but which who where while because since und oder aber weil et mais qui y pero que ma и а но"
_CLAUSE_WORDS = frozenset(_CLAUSE_WORDS_LIST.split())
# They join statements or shade them; lists of function words often lack them.
_LIGHT_WORDS = """
according across actually además against ainsi allerdings already although amid among amongst anche another außerdem
beispielsweise bereits besides cependant currently daher dennoch deshalb donc déjà each embargo especially etwa even
every generally hence however inoltre insbesondere instead jedoch lediglich mainly may meist merely might must namely
notamment particularly per pro quite rather respectively shall simply sin since somit sowie still también therefore
though thus together toutefois toward towards trotzdem tuttavia typically upon usually via whereas whether yet
également именно например однако поэтому притом причём также уже
"""
LIGHT_WORDS = frozenset(_LIGHT_WORDS.split())
_HAN_FUNCTION = (
    "的是在了于和与及为以由就也都而被从到自种个这那其有对将可会能所之等则并且或但因把给让向着过来去上下中里外"
)
HAN_FUNCTION = frozenset(_HAN_FUNCTION)


@dataclass(frozen=True, slots=True)
class Word:
    """A word as it is compared, and as it was written; a joined one comes as its parts."""

    key: str
    written: str
    weight: float
    is_name: bool
    is_identifier: bool
    is_content: bool
    is_part: bool = False  # of a joined word


class Claim:
    """A sentence of the answer. Nothing in here depends on a source."""

    def __init__(self, text: str, stop_words: frozenset[str], *, capitals_name: bool) -> None:
        self.text = text[:MAX_CLAIM_CHARS]
        self.capitals_name = capitals_name
        self.words: list[Word] = []
        self.ats: list[int] = []  # where each begins in the text
        self._read_words(stop_words, capitals_name)
        if not any(word.is_content for word in self.words):  # "It is what it is.": then function words are all there is
            self.words = [replace(word, weight=1.0, is_content=True) for word in self.words]
        self.weights = [word.weight for word in self.words]
        self.total = sum(self.weights)
        self.keys = [word.key for word in self.words]

    def _read_words(self, stop_words: frozenset[str], capitals_name: bool) -> None:
        text, words, ats = self.text, self.words, self.ats
        literal = [match.span() for match in _LITERAL.finditer(text)] if "`" in text or "/" in text else ()
        for match in WORD.finditer(text):
            at = match.start()
            written = match[0]
            if literal and any(start <= at < end for start, end in literal):
                words.append(Word(fold(written).removesuffix("()"), written, NAME_WEIGHT, False, True, True))
                ats.append(at)
                continue
            named = capitals_name and bool(words) and written[0].isupper() and written != "I"
            for word, offset in _words_in(written, stop_words, named):
                words.append(word)
                ats.append(at + offset)
            if len(words) > MAX_WORDS:
                break

    @cached_property
    def squashed(self) -> str:
        """Its words only, one blank between two."""
        return squash(self.text)

    @cached_property
    def numbers(self) -> list[tuple[Reading, int, str]]:
        """Values, place and writing of each number, in figures or words."""
        spelled = [
            (reading_of(NUMBER_WORDS[key]), at, key)
            for key, at in zip(self.keys, self.ats, strict=True)
            if key in NUMBER_WORDS
        ]
        return [(reading, at, "") for reading, at in numbers_in(self.text)] + spelled

    @cached_property
    def denied_words(self) -> list[str]:
        return [self.keys[place] for place in denied(self.keys, [word.is_content for word in self.words])]

    @cached_property
    def undenied_words(self) -> list[str]:
        return undenied_words(self.text)

    @cached_property
    def clauses_said(self) -> list[Clause]:
        return clauses_of(self.text)

    @cached_property
    def preferred(self) -> tuple[str, str] | None:
        return preferred(self.keys, [word.is_content for word in self.words])

    @cached_property
    def denies(self) -> bool:
        return may_deny(WORD_RUN.findall(fold(self.text).replace("’", "'"))) and any(
            clause.denied for clause in self.clauses_said
        )

    @cached_property
    def content_keys(self) -> frozenset[str]:
        return frozenset(word.key for word in self.words if word.is_content)

    @cached_property
    def says_no(self) -> bool:
        return not SOFT_NEGATORS.isdisjoint(self.keys)

    @cached_property
    def statements(self) -> list[tuple[int, int]]:
        """For each clause, finer than in `clauses`, the words that are neither names nor figures: bits, and how many."""
        starts = {clause.start for clause in self.clauses}
        found: list[tuple[int, int]] = []
        bits = count = 0
        for place, word in enumerate(self.words):
            if (place in starts or word.key in _CONDITIONS) and count:
                found.append((bits, count))
                bits = count = 0
            if word.is_content and not word.is_name and not word.key[0].isdigit():
                bits |= 1 << place
                count += 1
        return [*found, (bits, count)] if count else found

    @cached_property
    def clauses(self) -> list[range]:
        """Its clauses as ranges of places, cut at commas and conjunctions."""
        cuts = {bisect_left(self.ats, found.start()) for found in _CLAUSE.finditer(self.text)}
        cuts.update(place for place, key in enumerate(self.keys) if key in _CLAUSE_WORDS)
        starts = sorted(cuts | {0, len(self.words)})
        return [range(start, end) for start, end in itertools.pairwise(starts)]


@lru_cache(maxsize=WORDS_KEPT)
def _words_in(written: str, stop_words: frozenset[str], named: bool) -> tuple[tuple[Word, int], ...]:
    """What one run of letters is compared as, each part with its offset: most often itself."""
    written = _POSSESSIVE.sub("", written).replace("’", "'")
    folded = fold(written)
    if not folded:
        return ()
    if is_unspaced(folded):
        return tuple((_pair(folded[i : i + 2], stop_words), i) for i in range(max(1, len(folded) - 1)))
    if _NUMERIC.match(folded):
        return ((Word(folded, written, NAME_WEIGHT, False, False, True), 0),)
    if folded in stop_words or folded in LIGHT_WORDS or len(folded) == 1:
        return ((Word(folded, written, 0.0, False, False, False), 0),)
    if _PLURAL.match(written):
        written, folded = written[:-1], folded[:-1]
    if IDENTIFIER.match(written):
        return ((Word(folded.removesuffix("()"), written, NAME_WEIGHT, False, True, True), 0),)
    if not folded.isalnum():
        parts = list(_PART.finditer(written))
        if len(parts) > 1:
            return tuple(
                (replace(word, is_part=True), part.start() + offset)
                for part in parts
                for word, offset in _words_in(part[0], stop_words, named)
            )
    carries = named or folded in NUMBER_WORDS or folded in DATE_WORDS
    weight = NAME_WEIGHT if carries else 1.0 if len(folded) > SHORT_WORD_LETTERS else SHORT_WORD_WEIGHT
    return ((Word(folded, written, weight, named, False, True), 0),)


def _pair(pair: str, stop_words: frozenset[str]) -> Word:
    """Two neighbouring characters of a script without blanks; with a function word among them they are none of content."""
    is_content = pair not in stop_words and not any(sign in HAN_FUNCTION for sign in pair)
    return Word(pair, pair, 1.0 if is_content else 0.0, False, False, is_content)
