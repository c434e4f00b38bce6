"""What a question asks for: its terms, its parts, and what kind of answer it expects."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from modules.llm_platform.domain.text.language import stop_words
from modules.llm_platform.domain.text.tokens import fold, word_parts, words

MAX_PARTS = 3
MAX_TERMS = 40
NAME_WEIGHT = 1.6  # names, identifiers and numbers decide what a question is about
EXACT_WEIGHT = 2.0  # options, signs and identifiers: an answer that lacks one is about something else
WEAK_WEIGHT = 0.35  # words that say how to answer rather than about what
INFLECTED = 0.85  # how far another form of a word counts as the word
MIN_STEM = 4  # letters that two forms of a word share at least
MAX_ENDING = 4  # letters more in the longer form
WHOLE_STEM = 6  # letters of a word that may stand whole at the beginning of a longer one: install, installation
MAX_SUFFIX = 5
LONG_STEM = 8

_WEAK_WORDS = (
    "best better good way ways main example examples difference differences different compare comparison mean means "
    "meaning"
    " use uses used using command commands program work works working"
    " need needs want get gets make makes made know overview list kind kinds "
    "type types"
    " instead thing things happen happens important much many long often possible reason reasons question answer"
    " macht befehl programm"
    " unterschied unterschiede beispiel beispiele funktioniert funktionieren bedeutet bedeutung verwenden verwendet "
    "benutzt nutzt"
    " fait commande programme différence exemple exemples fonctionne signifie utiliser utilise utilisé faire"
    " hace comando programa diferencia ejemplo ejemplos funciona significa usar usa utiliza hacer sirve"
    " differenza esempio significa usare usa serve diferença exemplo"
    " делает помощью команда команды программа"
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
_NOT_LATIN = re.compile(r"[\u0370-\u03ff\u0400-\u1fff\u2e80-\ud7af]")
_LATIN = re.compile(r"[A-Za-z][\w.+#-]+")  # in a question of another script: a name
_SYMBOL = re.compile(
    r"(?<![\w-])--?[A-Za-z][\w-]*|\$\{[^}\s]{1,40}\}|\$[*@#?!$]|(?<![^\s`'\"“‘])[!&|<>*]{1,3}(?=[`'\"”’]?\s+\w)"
)  # options and signs, which are no words and are asked for all the same
_IDENTIFIER = re.compile(r"\b(?:[A-Za-z]+_\w+|[A-Z]{6,})\b")
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
    ("how", r"\b(?:how (?:do|can|to|should|could|would|is|are)|wie|comment|c[oó]mo|come (?:si|posso|faccio)|как|як|jak|hoe)\b"
            r"|怎么|如何|怎样|どうやって|どのように|方法|어떻게"),
)  # fmt: skip
_KIND_PATTERNS = tuple((kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in _KINDS)


@dataclass(frozen=True, slots=True)
class Term:
    """A word of the question that an answer should hold, folded, and how much it counts before rarity."""

    word: str
    weight: float


@dataclass(frozen=True, slots=True)
class Question:
    """`parts` lists, for each thing asked, the numbers of its terms, `kinds` what kind of answer each expects.

    A kind is when, count, why, what, how or other; `kind` is that of the whole question.
    """

    text: str
    language: str
    terms: tuple[Term, ...]
    parts: tuple[frozenset[int], ...]
    kinds: tuple[str, ...]
    kind: str


@dataclass(frozen=True, slots=True)
class _Part:
    terms: frozenset[int]
    kind: str


def read_question(text: str, language: str) -> Question:
    """The question's terms in order, function words left out, and which of them belong to which part of it."""
    called = [_NAME, _LATIN] if _NOT_LATIN.search(text) else [_NAME]
    found = (name.group() for pattern in called for name in pattern.finditer(" " + text))
    names = {word for name in found for word in _term_words(name, frozenset())}
    exact = set(map(fold, _IDENTIFIER.findall(text)))
    stop = stop_words(language) | stop_words("en")  # a German question quotes English words, and code is English
    terms: dict[str, Term] = {}
    parts: list[_Part] = []
    order: dict[str, int] = {}
    for piece in _pieces(text, language):
        own = set()
        for word in _term_words(piece, stop):
            if word not in terms and len(terms) < MAX_TERMS:
                order[word] = len(terms)
                terms[word] = Term(word, EXACT_WEIGHT if word in exact else _weight(word, names))
            if word in order:
                own.add(order[word])
        parts.append(_Part(frozenset(own), _kind(piece)))
    parts = _with_symbols(text, terms, parts)
    kept, whole = tuple(terms.values()), _kind(text)
    joined = _joined(parts, kept)
    kinds = tuple(part.kind for part in joined) if len(joined) > 1 else (whole,)
    return Question(text, language, kept, tuple(part.terms for part in joined), kinds, whole)


def symbols(text: str) -> list[str]:
    """Options and signs of a text, as they stand there: `-m`, `$*`, `!`."""
    return _SYMBOL.findall(text)


def _with_symbols(text: str, terms: dict[str, Term], parts: Sequence[_Part]) -> list[_Part]:
    found = dict.fromkeys(each for each in symbols(text) if each not in terms)
    numbers = frozenset(range(len(terms), len(terms) + len(found)))
    terms.update({each: Term(each, EXACT_WEIGHT) for each in found})
    return [_Part(part.terms | numbers, part.kind) for part in parts]


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


def _joined(parts: Sequence[_Part], terms: Sequence[Term]) -> list[_Part]:
    """Parts that ask for something of their own; one of weak words or of words said before belongs to its neighbour.

    `How do I install this, and that?`: a part that does not say what kind of answer it expects expects that of the one before.
    """
    kept: list[_Part] = []
    seen: frozenset[int] = frozenset()
    loose = _Part(frozenset(), "other")
    for part in parts:
        if any(terms[number].weight > WEAK_WEIGHT for number in part.terms - seen):
            before = kept[-1].kind if kept else loose.kind
            kept.append(_Part(part.terms | loose.terms, before if part.kind == "other" else part.kind))
            loose = _Part(frozenset(), "other")
        elif kept:
            kept[-1] = _Part(kept[-1].terms | part.terms, kept[-1].kind)
        else:
            loose = _Part(loose.terms | part.terms, part.kind)
        seen |= part.terms
    if len(kept) > MAX_PARTS:
        rest = frozenset().union(*(part.terms for part in kept[MAX_PARTS - 1 :]))
        kept = [*kept[: MAX_PARTS - 1], _Part(rest, kept[MAX_PARTS - 1].kind)]
    return kept or [loose]


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
    if len(longer) - len(shorter) > MAX_ENDING:
        whole = len(shorter) >= WHOLE_STEM and longer.startswith(shorter)
        return whole and len(longer) - len(shorter) <= MAX_SUFFIX
    shared = next((at for at, (a, b) in enumerate(zip(shorter, longer, strict=False)) if a != b), len(shorter))
    if len(shorter) < MIN_STEM:
        return shared == len(shorter) and longer[shared:] in {"s", "es", "ed", "ing", longer[shared - 1] + "ing"}
    ending = 2 if len(shorter) >= LONG_STEM and not shorter.isascii() else 1  # Slavic endings are longer
    return shared >= max(MIN_STEM, len(shorter) - ending)
