"""Parse a question: its terms, its parts, and whether it asks how to do something or what something is.

"How do I clean the saw, and when does the motor stop?" has two parts, with the terms `clean` and `saw`, and `motor` and `stop`.
`TermMatcher` then finds the terms among the words of a source, also in another form (`cleaned`). The module `candidates` uses it
for each sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from modules.llm_platform.domain.text.data_files import load_words
from modules.llm_platform.domain.text.language import detect_language, load_stop_words
from modules.llm_platform.domain.text.lazy_pattern import lazy_pattern
from modules.llm_platform.domain.text.tokens import fold, split_word_parts, split_words, strip_accents

MAX_PARTS = 3
MAX_TERMS = 40
NAME_WEIGHT = 1.6  # names, identifiers and numbers
EXACT_WEIGHT = 2.0  # options, symbols and identifiers, which an answer must have
WEAK_WEIGHT = 0.35  # words about the form of the answer
INFLECTED_CREDIT = 0.85  # credit for another form of a word
MIN_STEM = 4  # two forms of a word share at least this many letters
MAX_ENDING = 4  # one form has at most this many letters more than the other
PREFIX_STEM = 6  # a word with this many letters may be a prefix of a longer form: install, installation
MAX_SUFFIX = 5  # letters that such a longer form adds
LONG_STEM = 8  # from this length on, words beyond ASCII may differ in their last two letters
MINUS_SIGN = "\u2212"

# A connector separates two questions only if a question word follows. `A list and a tuple` is one part.
PART_END = re.compile(
    r"[?？؟;；]+|(?:,|\b(?:and|as well as|und|sowie|et|y|e|ed|en|i|oraz|и|а также|і|та|й)\b|以及|并且|，|和|、|および|그리고)"
    r"(?:\s*(?:and|und|et|y|e|en|i|и|і))?"
    r"(?=\s*(?:what|how|why|when|where|who|which|is|are|can|does|do|was|wie|warum|wann|wo|wer|welche\w*|kann|ist|hoe|waarom"
    r"|comment|pourquoi|quand|où|qui|quel\w*|cómo|qué|cuándo|dónde|come|perché|quando|como|jak|dlaczego|kiedy"
    r"|что|как|почему|зачем|когда|где|кто|який|як|чому|коли|де|什么|怎么|如何|怎样|为什么|何|どう|なぜ|いつ|어떻게|왜|언제)\b)",
    re.IGNORECASE,
)
# Matches the request before an indirect question: `Find out when the port opened.` Its words are not terms of the question.
_REQUEST = re.compile(
    r"\s*(?:please |bitte |(?:can|could|would) you (?:please )?)?"
    r"(?:(?:find out|tell me|tell us|explain(?: to me)?|let me know|i(?: would|['’]d) like to know|i want to know) "
    r"(?:(?:whether|if) |(?=(?:what|how|why|when|where|whom?|whose|which)\b))"
    r"|(?:sag(?:e|en sie)? mir|erklär(?:e|en sie)?(?: mir)?|finde heraus|ich (?:möchte|will) wissen),? "
    r"(?:ob |(?=(?:was|wie|warum|wann|wo|wer|wem|wen|welche\w*)\b)))",
    re.IGNORECASE,
)
_NAME = re.compile(r"(?<=\s)[\"“'(]?[^\W\d_a-z]*[A-ZА-ЯЁÀ-Þ][\w.+#-]*|(?<!\w)(?:\w*\d\w*|\w+[._]\w+)|`[^`]+`")
_UNSPACED_STOP = re.compile(
    "什么|怎么|如何|怎样|为什么|哪些|哪个|哪里|多少|是否|可以|[的是了吗呢在有]|とは|ですか|ますか|[はがをにのとで]"
)
_NOT_LATIN = lazy_pattern(r"[\u0370-\u03ff\u0400-\u1fff\u2e80-\ud7af]")
_LATIN = re.compile(r"[A-Za-z][\w.+#-]+")  # a name, in a question of another script
_SYMBOL = re.compile(
    r"(?<![\w-])--?[A-Za-z][\w-]*|\$\{[^}\s]{1,40}\}|\$[*@#?!$]|(?<![^\s`'\"“‘])[!&|<>*]{1,3}(?=[`'\"”’]{0,2}\s+\w)"
)  # options and characters
_NAME_AMPERSAND = re.compile(r"(?<=\w )&(?= +[A-ZÀ-Þ0-9])")
_NAME_BEFORE = re.compile(r"(?<!\S)[A-ZÀ-Þ0-9]\S* +$")
_IDENTIFIER = re.compile(r"\b(?:[A-Za-z]+_\w+|[A-Z]{6,}|[A-Za-z]{1,3}\d{2,})\b")  # the last ones are codes such as E125
_QUOTES = re.compile(r"[\"“”„«»『』「」`]")

_ASKS_WHAT = re.compile(
    r"\b(?:what(?:'s| is| are| does)|who (?:is|was)|was (?:ist|sind)|wer (?:ist|war)|qu['’]est-ce|que (?:es|son)"
    r"|qu[eé] (?:es|son)|что такое|кто так(?:ой|ая)|що таке|co to|cos['’]è|che cos|o que (?:é|são)|wat is)\b"
    r"|是什么|什么是|とは|뭐|무엇",
    re.IGNORECASE,
)
_ASKS_HOW = re.compile(
    r"\b(?:how (?:do|can|to|should|could|would|is|are)|wie|comment|c[oó]mo|come (?:si|posso|faccio)|как|як|jak|hoe)\b"
    r"|怎么|如何|怎样|どうやって|どのように|方法|어떻게",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Term:
    """A folded word of the question that an answer should have, and its weight, which does not consider how rare it is."""

    word: str
    weight: float


@dataclass(frozen=True)
class Question:
    """A question and its terms.

    - `parts` has a set for each part of the question: the indices of the terms of the part.
    - `asks_how` is True if it asks how to do something.
    - `asks_what` is True if it asks for a definition or an explanation.
    """

    text: str
    language: str
    terms: tuple[Term, ...]
    parts: tuple[frozenset[int], ...]
    asks_how: bool
    asks_what: bool

    @cached_property
    def matcher(self) -> TermMatcher:
        """Finds the terms among words, and caches its results."""
        return TermMatcher(self.terms)


def read_question(text: str, language: str) -> Question:
    """Return the question's terms in order, without function words, and the parts that they belong to."""
    request = _REQUEST.match(text)
    asked = text[request.end() :] if request else text
    names, exact = _list_names(asked), frozenset(map(fold, _IDENTIFIER.findall(text)))
    stop_words = load_stop_words(language) | load_stop_words("en")  # a German question quotes English words
    weights: dict[str, float] = {}  # by word; the order of the words numbers the terms
    words_of_parts: list[set[str]] = []
    for part in filter(str.strip, PART_END.split(asked)):
        found = list(_list_term_words(part, stop_words))
        for word in found:
            if word not in weights and len(weights) < MAX_TERMS:
                weights[word] = EXACT_WEIGHT if word in exact else _choose_weight(word, names)
        words_of_parts.append(weights.keys() & found)
    found = list_symbols(remove_name_ampersands(text))
    symbols = [symbol for symbol in dict.fromkeys(found) if symbol not in weights]
    weights.update(dict.fromkeys(symbols, EXACT_WEIGHT))
    terms = tuple(Term(word, weight) for word, weight in weights.items())
    numbers = {word: number for number, word in enumerate(weights)}
    parts = [frozenset(numbers[word] for word in (*part, *symbols)) for part in words_of_parts]
    return Question(
        text,
        language,
        terms,
        tuple(_merge_parts(parts, terms)),
        asks_how=bool(_ASKS_HOW.search(text)),
        asks_what=bool(_ASKS_WHAT.search(text)),
    )


def read_question_as_written(text: str, default_language: str) -> Question:
    """Return a question, read in the language that it is written in, or in `default_language` if that is uncertain."""
    return read_question(text, detect_language(text) or default_language)


def _list_names(asked: str) -> frozenset[str]:
    """Return the words of the names, identifiers and numbers of a question."""
    patterns = [_NAME, _LATIN] if _NOT_LATIN.search(asked) else [_NAME]
    found = (name.group() for pattern in patterns for name in pattern.finditer(" " + asked))
    return frozenset(word for name in found for word in _list_term_words(name, frozenset()))


def list_symbols(text: str) -> list[str]:
    """Return the options and characters of a text: `-m`, `$*`, `!`. A PDF often has a minus sign instead of a hyphen."""
    return _SYMBOL.findall(text.replace(MINUS_SIGN, "-"))


def remove_name_ampersands(question: str) -> str:
    """Return a question without the ampersands of names (`Marlow & Finch`), because an answer need not have them."""
    return _NAME_AMPERSAND.sub(lambda found: "" if _NAME_BEFORE.search(question, 0, found.start()) else "&", question)


def list_exact_terms(text: str) -> frozenset[str]:
    """Return the options, symbols and identifiers of a question. An answer must have them exactly as they are written."""
    return frozenset((*list_symbols(text), *_IDENTIFIER.findall(text)))


def _list_term_words(piece: str, stop: frozenset[str]) -> Iterable[str]:
    for word in split_words(_UNSPACED_STOP.sub(" ", _QUOTES.sub(" ", piece)) if not piece.isascii() else piece):
        if word in stop:
            continue
        joined = "." in word or "_" in word or "+" in word or "#" in word
        for part in [word] if joined else split_word_parts(word):
            if part not in stop and (len(part) > 1 or part.isdigit() or ord(part) > 0x2E80):
                yield part


def _choose_weight(word: str, names: frozenset[str]) -> float:
    if word in load_words("quoting", "weak_question_words"):
        return WEAK_WEIGHT
    return NAME_WEIGHT if word in names else 1.0


def _merge_parts(parts: Sequence[frozenset[int]], terms: Sequence[Term]) -> list[frozenset[int]]:
    """Merge parts without an important new term into their neighbours, and all parts from MAX_PARTS on into one."""
    merged: list[frozenset[int]] = []
    seen: frozenset[int] = frozenset()
    pending: frozenset[int] = frozenset()
    for part in parts:
        if any(terms[number].weight > WEAK_WEIGHT for number in part - seen):
            merged.append(part | pending)
            pending = frozenset()
        elif merged:
            merged[-1] |= part
        else:
            pending |= part
        seen |= part
    if len(merged) > MAX_PARTS:
        merged[MAX_PARTS - 1 :] = [frozenset().union(*merged[MAX_PARTS - 1 :])]
    return merged or [pending]


Matches = tuple[tuple[int, float], ...]  # the index of a term, and its credit, 0 to 1


class TermMatcher(dict[str, Matches]):
    """Maps a word of a source to the terms of a question that it matches. A word is matched when it is first looked up.

    Accents do not count, because many people do not type them.
    """

    def __init__(self, terms: Sequence[Term]) -> None:
        super().__init__()
        words = [strip_accents(term.word) for term in terms]
        self._exact = {word: number for number, word in enumerate(words)}
        self._by_prefix: dict[str, list[tuple[str, int]]] = {}
        for number, word in enumerate(words):
            if word.isalpha() and len(word) >= 3:
                self._by_prefix.setdefault(word[:3], []).append((word, number))

    def __missing__(self, word: str) -> Matches:
        term_credits: dict[int, float] = {}
        bare = strip_accents(word)
        for form in (bare,) if bare.isalnum() else {bare, *split_word_parts(bare)}:
            if form in self._exact:
                term_credits[self._exact[form]] = 1.0
                continue
            for term, number in self._by_prefix.get(form[:3], ()):
                if form.isalpha() and has_same_stem(form, term):
                    term_credits[number] = max(term_credits.get(number, 0.0), INFLECTED_CREDIT)
        found = self[word] = tuple(term_credits.items())
        return found

    def find_matches(self, words: Iterable[str]) -> Iterable[Matches]:
        """Return the matches of the words that have any."""
        return filter(None, map(self.__getitem__, words))


def has_same_stem(one: str, other: str) -> bool:
    """Return whether two words look like forms of one word, such as cancel and cancelled, but not Stadt and Städte."""
    if ord(one[0]) > 0x2E80:
        return False
    shorter, longer = sorted((one, other), key=len)
    if len(longer) - len(shorter) > MAX_ENDING:
        whole = len(shorter) >= PREFIX_STEM and longer.startswith(shorter)
        return whole and len(longer) - len(shorter) <= MAX_SUFFIX
    shared = next((at for at, (a, b) in enumerate(zip(shorter, longer, strict=False)) if a != b), len(shorter))
    if len(shorter) < MIN_STEM:
        return shared == len(shorter) and longer[shared:] in {"s", "es", "ed", "ing", longer[shared - 1] + "ing"}
    ending = 2 if len(shorter) >= LONG_STEM and not shorter.isascii() else 1  # Slavic endings are longer
    return shared >= max(MIN_STEM, len(shorter) - ending)
