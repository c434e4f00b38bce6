"""What a question asks for: its terms, its parts, and what kind of answer it expects."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from modules.llm_platform.domain.language import stop_words
from modules.llm_platform.domain.text import fold, word_parts, words

MAX_PARTS = 3
MAX_TERMS = 40
NAME_WEIGHT = 1.6  # names, identifiers and numbers decide what a question is about
WEAK_WEIGHT = 0.35  # words that say how to answer rather than about what
INFLECTED = 0.85  # how far another form of a word counts as the word
MIN_STEM = 4  # letters that two forms of a word share at least
LONG_STEM = 8

_WEAK_WORDS = (
    "best better good way ways main example examples difference differences different compare comparison mean means "
    "meaning"
    " use uses used using work works working need needs want get gets make makes made know overview list kind kinds "
    "type types"
    " thing things happen happens important much many long often possible reason reasons question answer"
    " unterschied unterschiede beispiel beispiele funktioniert funktionieren bedeutet bedeutung verwenden verwendet "
    "benutzt nutzt"
    " différence exemple exemples fonctionne signifie utiliser utilise utilisé faire"
    " diferencia ejemplo ejemplos funciona significa usar usa utiliza hacer sirve"
    " differenza esempio significa usare usa serve diferença exemplo"
    " разница различие пример примеры работает работают значит означает использовать используется такое нужно"
    " 什么 怎么 如何 怎样 区别 介绍"
)
_WEAK = frozenset(_WEAK_WORDS.split())
_SPLIT = {
    "en": r"\band\b|\bas well as\b", "de": r"\bund\b|\bsowie\b", "fr": r"\bet\b", "es": r"\b[ye]\b", "it": r"\bed?\b",
    "pt": r"\be\b", "nl": r"\ben\b", "pl": r"\b(?:i|oraz)\b", "ru": r"\b(?:и|а также)\b", "uk": r"\b(?:і|та|й)\b",
    "zh": "以及|并且|，|和", "ja": "、|および", "ko": r"\b그리고\b",
}  # fmt: skip
_ENDS_PART = r"[?？؟;；]+|,(?=\s)"
_NAME = re.compile(r"(?<=\s)[\"“'(]?[^\W\d_a-z]*[A-ZА-ЯЁÀ-Þ][\w.+#-]*|\w*\d\w*|\w+[._]\w+|`[^`]+`")
_UNSPACED_STOP = re.compile(
    "什么|怎么|如何|怎样|为什么|哪些|哪个|哪里|多少|是否|可以|[的是了吗呢在有]|とは|ですか|ますか|[はがをにのとで]"
)
_QUOTES = re.compile(r"[\"“”„«»『』「」`]")

_KINDS = (
    ("when", r"\b(?:when|what (?:year|date|day)|wann|quand|cu[aá]ndo|когда|коли|kiedy|quando|wanneer)\b"
             r"|什么时候|何时|いつ|언제"),
    ("count", r"\bhow (?:many|much|long|old|often|far|big|large|fast|high|tall|deep|heavy)\b|\bwie ?(?:viele?|lange"
    r"|oft|hoch|groß|alt|weit)\b"
              r"|\b(?:combien|cu[aá]nt[oa]s?|сколько|скільки|ile|quant[oiae]s?|hoeveel)\b|多少|几个|多久|多大|いくつ|얼마|몇"),
    ("why", r"\b(?:why|warum|wieso|weshalb|pourquoi|por ?qu[eé]|почему|зачем|чому|dlaczego|perch[eé]|waarom)\b|为什么"
    r"|なぜ|왜"),
    ("what", r"\b(?:what(?:'s| is| are| does)|who (?:is|was)|was (?:ist|sind)|wer (?:ist|war)|qu['’]est-ce|que (?:es"
    r"|son)|qu[eé] (?:es|son)|что такое"
             r"|кто так(?:ой|ая)|що таке|co to|cos['’]è|che cos|o que (?:é|são)|wat is)\b|是什么|什么是|とは|뭐|무엇"),
)  # fmt: skip
_KIND_PATTERNS = tuple((kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in _KINDS)


@dataclass(frozen=True, slots=True)
class Term:
    """A word of the question that an answer should hold, folded, and how much it counts before rarity."""

    word: str
    weight: float


@dataclass(frozen=True, slots=True)
class Question:
    """`parts` lists, for each thing asked, the numbers of its terms; `kind` is when, count, why, what or other."""

    text: str
    language: str
    terms: tuple[Term, ...]
    parts: tuple[frozenset[int], ...]
    kind: str


def read_question(text: str, language: str) -> Question:
    """The question's terms in order, function words left out, and which of them belong to which part of it."""
    names = {word for found in _NAME.finditer(" " + text) for word in _term_words(found.group(), frozenset())}
    stop = stop_words(language) | stop_words("en")  # a German question quotes English words, and code is English
    terms: dict[str, Term] = {}
    parts: list[frozenset[int]] = []
    order: dict[str, int] = {}
    for piece in _pieces(text, language):
        own = set()
        for word in _term_words(piece, stop):
            if word not in terms and len(terms) < MAX_TERMS:
                order[word] = len(terms)
                terms[word] = Term(word, _weight(word, names))
            if word in order:
                own.add(order[word])
        parts.append(frozenset(own))
    kept = tuple(terms.values())
    return Question(text, language, kept, _joined(parts, kept), _kind(text))


def _pieces(text: str, language: str) -> list[str]:
    connector = _SPLIT.get(language.partition("-")[0], _SPLIT["en"])
    return [
        piece for piece in re.split(f"{_ENDS_PART}|{connector}", text, flags=re.IGNORECASE) if piece and piece.strip()
    ]


def _term_words(piece: str, stop: frozenset[str]) -> Iterable[str]:
    for word in words(_UNSPACED_STOP.sub(" ", _QUOTES.sub(" ", piece)) if not piece.isascii() else piece):
        if word in stop:
            continue
        joined = "." in word or "_" in word or "+" in word or "#" in word
        for part in [word] if joined else word_parts(word):
            if part not in stop and (len(part) > 1 or part.isdigit() or ord(part) > 0x2E80):
                yield part


def _weight(word: str, names: set[str]) -> float:
    if word in _WEAK:
        return WEAK_WEIGHT
    return NAME_WEIGHT if word in names else 1.0


def _joined(parts: Sequence[frozenset[int]], terms: Sequence[Term]) -> tuple[frozenset[int], ...]:
    """Parts that ask for something of their own; one of weak words or of words said before belongs to its neighbour."""
    kept: list[frozenset[int]] = []
    seen: frozenset[int] = frozenset()
    loose: frozenset[int] = frozenset()
    for part in parts:
        if any(terms[number].weight > WEAK_WEIGHT for number in part - seen):
            kept.append(part | loose)
            loose = frozenset()
        elif kept:
            kept[-1] |= part
        else:
            loose |= part
        seen |= part
    if len(kept) > MAX_PARTS:
        kept = [*kept[: MAX_PARTS - 1], frozenset().union(*kept[MAX_PARTS - 1 :])]
    return tuple(kept) or (loose,)


def _kind(text: str) -> str:
    folded = fold(text)
    return next((kind for kind, pattern in _KIND_PATTERNS if pattern.search(folded)), "other")


class TermMatcher:
    """Which terms of a question a word of a source stands for; remembers every word that it has seen."""

    def __init__(self, terms: Sequence[Term]) -> None:
        self._exact = {term.word: number for number, term in enumerate(terms)}
        self._by_prefix: dict[str, list[tuple[str, int]]] = {}
        for number, term in enumerate(terms):
            if term.word.isalpha() and len(term.word) >= 3:
                self._by_prefix.setdefault(term.word[:3], []).append((term.word, number))
        self._seen: dict[str, tuple[tuple[int, float], ...]] = {}

    def matches(self, word: str) -> tuple[tuple[int, float], ...]:
        """(number of the term, how well it is met) for each term that the word stands for."""
        found = self._seen.get(word)
        if found is None:
            found = self._seen[word] = self._find(word)
        return found

    def _find(self, word: str) -> tuple[tuple[int, float], ...]:
        met: dict[int, float] = {}
        for form in {word, *word_parts(word)}:
            if form in self._exact:
                met[self._exact[form]] = 1.0
                continue
            for term, number in self._by_prefix.get(form[:3], ()):
                if form.isalpha() and same_stem(form, term):
                    met[number] = max(met.get(number, 0.0), INFLECTED)
        return tuple(met.items())


def same_stem(one: str, other: str) -> bool:
    """Whether two words look like forms of one word: cancel, cancelled; Stadt, Städte is beyond it."""
    if ord(one[0]) > 0x2E80:
        return False
    shorter, longer = sorted((one, other), key=len)
    if len(longer) - len(shorter) > 4:
        return False
    shared = next((at for at, (a, b) in enumerate(zip(shorter, longer, strict=False)) if a != b), len(shorter))
    if len(shorter) < MIN_STEM:
        return shared == len(shorter) and longer[shared:] in {"s", "es", "ed", "ing", longer[shared - 1] + "ing"}
    ending = 2 if len(shorter) >= LONG_STEM and not shorter.isascii() else 1  # Slavic endings are longer
    return shared >= max(MIN_STEM, len(shorter) - ending)
