"""A sentence prepared to be looked for in sources: its words, how much each tells, and the facts among them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache

from modules.llm_platform.domain.facts import DATE_WORDS, NUMBER_WORDS, SOFT_NEGATORS, Reading, denied, numbers_in, undenied_words
from modules.llm_platform.domain.text import fold

SHORT_WORD_LETTERS = 3
SHORT_WORD_WEIGHT = 0.6  # short words tell less than others, which weigh 1, and function words nothing
NAME_WEIGHT = 1.5  # names, numbers and identifiers carry a claim
MAX_CLAIM_CHARS = 2000  # of a sentence; a longer one is judged by its beginning
MAX_WORDS = 200
WORDS_KEPT = 4096  # prepared words remembered

_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af"
_WORD = re.compile(
    rf"[0-9]+(?:[.,:/-][0-9]+)+(?![^\W_])|[{_UNSPACED}]+|[^\W_{_UNSPACED}]+(?:[_.:/'’+#@-]+[^\W_{_UNSPACED}]+)*[+#]*(?:\(\))?|_+[^\W_{_UNSPACED}]+(?:_+[^\W_{_UNSPACED}]*)*"
)
_PART = re.compile(rf"[^\W_{_UNSPACED}]+")
_IS_UNSPACED = re.compile(rf"[{_UNSPACED}]")
_NO_WORD = re.compile(r"[\W_]+")
_CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)")
_NUMERIC = re.compile(r"[0-9]+(?:[.,:/-][0-9]+)*\Z")
_IDENTIFIER = re.compile(r".*(?:_|\(\)|[a-z][A-Z]|[^\W\d_]\.[^\W\d_]{2}|::|[A-Z]{2}[a-z]+[A-Z])|[A-Z][A-Z0-9]*[0-9][A-Z0-9]*\Z")
_POSSESSIVE = re.compile(r"['’](?:s|S)?\Z")
_CLAUSE = re.compile(
    r"[,;:–—(]|\b(?:and|or|but|which|who|where|while|because|since|und|oder|aber|weil|et|mais|qui|y|pero|que|ma|и|а|но)\b",
    re.IGNORECASE,
)
LIGHT_WORDS = frozenset(  # they join statements or shade them; lists of function words often lack them
    "still though although however even already yet thus therefore hence instead together respectively according namely rather quite"
    " usually generally typically particularly especially actually simply merely mainly currently since whereas whether besides"
    " jedoch allerdings dennoch trotzdem bereits daher deshalb somit außerdem sowie etwa beispielsweise insbesondere lediglich meist"
    " cependant toutefois ainsi donc déjà également notamment sin embargo además también tuttavia inoltre anche"
    " однако также уже поэтому например именно причём притом".split()
)
HAN_FUNCTION = frozenset("的是在了于和与及为以由就也都而被从到自种个这那其有对将可会能所之等则并且或但因把给让向着过来去上下中里外")


@dataclass(frozen=True, slots=True)
class Word:
    """A word as it is compared, and as it was written; joined words come as their parts."""

    key: str
    written: str
    weight: float
    is_name: bool
    is_identifier: bool
    is_content: bool


class Claim:
    """A sentence of the answer. Nothing in here depends on a source."""

    def __init__(self, text: str, stop_words: frozenset[str], *, capitals_name: bool) -> None:
        self.text = text[:MAX_CLAIM_CHARS]
        self.words: list[Word] = []
        self.ats: list[int] = []  # where each begins in the text
        self._read_words(stop_words, capitals_name)
        self.weights = [word.weight if word.is_content else 0.0 for word in self.words]
        self.total = sum(self.weights)
        self.keys = [word.key for word in self.words]

    def _read_words(self, stop_words: frozenset[str], capitals_name: bool) -> None:
        text, words, ats = self.text, self.words, self.ats
        code = [match.span() for match in _CODE.finditer(text)] if "`" in text else []
        for match in _WORD.finditer(text):
            at = match.start()
            written = match[0]
            if _is_path(text, at) or any(start <= at < end for start, end in code):
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
            (frozenset({NUMBER_WORDS[key]}), at, key)
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
    def says_no(self) -> bool:
        return not SOFT_NEGATORS.isdisjoint(self.keys)

    def clause_end(self, at: int) -> int:
        """Where the clause ends that holds the character."""
        found = _CLAUSE.search(self.text, at)
        return found.start() if found else len(self.text)

    def begins_clause(self, place: int) -> bool:
        """Whether a comma or a conjunction stands between the word and the content word before it."""
        for before in range(place - 1, -1, -1):
            if self.words[before].is_content:
                start = self.ats[before] + len(self.words[before].written)
                return _CLAUSE.search(self.text, start, self.ats[place]) is not None
        return False


def squash(text: str) -> str:
    """The words of a text only, one blank around each: the same for any punctuation and markup."""
    return f" {_NO_WORD.sub(' ', fold(text)).strip()} "


def _is_path(text: str, at: int) -> bool:
    return text[at - 1 : at] == "/" and (at == 1 or text[at - 2] in " `\"'(")


@lru_cache(maxsize=WORDS_KEPT)
def _words_in(written: str, stop_words: frozenset[str], named: bool) -> tuple[tuple[Word, int], ...]:
    """What one run of letters is compared as, each part with its offset: most often itself."""
    written = _POSSESSIVE.sub("", written).replace("’", "'")
    folded = fold(written)
    if not folded:
        return ()
    if _IS_UNSPACED.match(folded):
        return tuple((_pair(folded[i : i + 2], stop_words), i) for i in range(max(1, len(folded) - 1)))
    if _NUMERIC.match(folded):
        return ((Word(folded, written, NAME_WEIGHT, False, False, True), 0),)
    if folded in stop_words or folded in LIGHT_WORDS or len(folded) == 1:
        return ((Word(folded, written, 0.0, False, False, False), 0),)
    if _IDENTIFIER.match(written):
        return ((Word(folded.removesuffix("()"), written, NAME_WEIGHT, False, True, True), 0),)
    if not folded.isalnum():
        parts = list(_PART.finditer(written))
        if len(parts) > 1:
            return tuple(
                (word, part.start() + offset) for part in parts for word, offset in _words_in(part[0], stop_words, named)
            )
    carries = named or folded in NUMBER_WORDS or folded in DATE_WORDS
    weight = NAME_WEIGHT if carries else 1.0 if len(folded) > SHORT_WORD_LETTERS else SHORT_WORD_WEIGHT
    return ((Word(folded, written, weight, named, False, True), 0),)


def _pair(pair: str, stop_words: frozenset[str]) -> Word:
    """Two neighbouring characters of a script without blanks; with a function word among them they are none of content."""
    is_content = pair not in stop_words and not any(sign in HAN_FUNCTION for sign in pair)
    return Word(pair, pair, 1.0 if is_content else 0.0, False, False, is_content)
