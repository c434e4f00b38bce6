"""A sentence of an answer and a part of a source, prepared to be compared: words, how much each tells, facts among them."""

from __future__ import annotations

import itertools
import re
from bisect import bisect_left
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from modules.llm_platform.domain.citations.denials import denied_words, undenied_words
from modules.llm_platform.domain.citations.numbers import (
    DATE_WORDS,
    ISO_DATE,
    NUMBER_WORDS,
    Reading,
    numbers_in,
    reading_of,
)
from modules.llm_platform.domain.citations.words import UNSPACED, WORD, is_unspaced, squash
from modules.llm_platform.domain.text.tokens import fold

SHORT_WORD_LETTERS = 3
SHORT_WORD_WEIGHT = 0.6  # short words tell less than others, which weigh 1, and function words nothing
NAME_WEIGHT = 1.5  # names, numbers and identifiers carry a claim
COUNT_REACH = 5  # words behind a number word among which the counted thing is looked for
MAX_CLAIM_CHARS = 2000  # of a sentence; a longer one is judged by its beginning
MAX_WORDS = 200
WORDS_KEPT = 4096  # prepared words remembered

_PART = re.compile(rf"[^\W_{UNSPACED}]+")
_OPTION = re.compile(r"(?<![\w-])--[A-Za-z][\w-]*")
_LITERAL = re.compile(
    rf"(`+)(?!`).+?(?<!`)\1(?!`)|(?<![^\s`\"'(])/\w[\w/.-]*|{_OPTION.pattern}"
)  # code, paths, options
_STOP = re.compile(r"[.!?:;]")
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_NUMERIC = re.compile(r"[0-9]+(?:[.,:/-][0-9]+)*\Z")
IDENTIFIER = re.compile(
    r".*(?:_|\(\)|[a-z][A-Z]|[^\W\d_]\.[^\W\d_]{2}|::|[A-Z]{2}[a-z]+[A-Z])|[A-Z][A-Z0-9]*[0-9][A-Z0-9]*\Z"
)
_PLURAL = re.compile(r"[A-Z]-?[0-9]{2,}s\Z")  # `A220s`
_POSSESSIVE = re.compile(r"['’](?:s|S)?\Z")
_CLAUSE = re.compile(r"[,;:](?=\s)|[，、；：（(]|\s[–—-]\s")
_CLAUSE_WORDS_LIST = (
    "and or but which who where while because since und oder aber weil et mais qui y pero que ma и а но"
)
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
        self.facts = TextFacts(self.text, stop_words)
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
        literal = (
            [match.span() for match in _LITERAL.finditer(text)] if "`" in text or "/" in text or "--" in text else ()
        )
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
        return denied_words(self.keys, [word.is_content for word in self.words])

    @cached_property
    def undenied_words(self) -> list[str]:
        return undenied_words(self.text)

    @cached_property
    def clauses(self) -> list[range]:
        """Its clauses as ranges of places, cut at commas and conjunctions."""
        cuts = {bisect_left(self.ats, found.start()) for found in _CLAUSE.finditer(self.text)}
        cuts.update(place for place, key in enumerate(self.keys) if key in _CLAUSE_WORDS)
        starts = sorted(cuts | {0, len(self.words)})
        return [range(start, end) for start, end in itertools.pairwise(starts)]


class TextFacts:
    """Words, numbers, dates and denials of a part of a source, taken out once for every sentence that cites it.

    `folded` are its words as they are compared.
    """

    def __init__(self, text: str, stop_words: frozenset[str]) -> None:
        self.text = text
        self._stop_words = stop_words

    @cached_property
    def folded(self) -> list[str]:
        return _WORD.findall(fold(self.text).replace("’", "'"))

    @cached_property
    def words(self) -> list[str]:
        """As they are written, in the order of `folded`."""
        written = _WORD.findall(self.text)
        return written if len(written) == len(self.folded) else self.folded

    @cached_property
    def content(self) -> list[bool]:
        return [len(word) > 1 and word not in self._stop_words for word in self.folded]

    @cached_property
    def numbers(self) -> list[Reading]:
        spelled = [reading_of(NUMBER_WORDS[word]) for word in self.folded if word in NUMBER_WORDS]
        return [reading for reading, _ in numbers_in(self.text)] + spelled

    @cached_property
    def identifiers(self) -> frozenset[str]:
        """Names of programs' parts and options, folded."""
        return frozenset(fold(word).removesuffix("()") for word in identifiers_in(self.text))

    @cached_property
    def dated(self) -> list[str]:
        """Its words and the dates that it writes in figures only."""
        return self.folded + ISO_DATE.findall(self.text) if "-" in self.text else self.folded

    @cached_property
    def denied_words(self) -> list[str]:
        return denied_words(self.folded, self.content)

    @cached_property
    def undenied_words(self) -> list[str]:
        return undenied_words(self.text)

    @cached_property
    def sentence_starts(self) -> frozenset[int]:
        """The places of words that begin a sentence."""
        found = list(_WORD.finditer(self.text))
        return frozenset(
            place
            for place, word in enumerate(found)
            if not place or _STOP.search(self.text, found[place - 1].end(), word.start())
        )

    def counts(self, noun: str | None) -> bool:
        """Whether a number word stands before this noun or figure."""
        words = self.folded
        return any(noun in words[at + 1 : at + COUNT_REACH] for at, word in enumerate(words) if word in NUMBER_WORDS)


def identifiers_in(text: str) -> list[str]:
    """Names of programs' parts (`max_size`, `runAll`, `run()`) and options (`--quiet`) in a text."""
    found = [word for word in WORD.findall(text) if IDENTIFIER.match(word)]
    return found + [option.lstrip("-") for option in _OPTION.findall(text)] if "--" in text else found


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
