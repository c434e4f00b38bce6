"""Reject quotes that lack the kind of thing that a question asks for: a number, a time or a reason.

`How much do the oysters cost?` is not answered by "An oyster seller comes on Thursday evenings", although this sentence has most
words of the question. Questions in English, German, French and Spanish are known; others are never rejected.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Final

from modules.llm_platform.domain.extractive.candidates import Candidate
from modules.llm_platform.domain.extractive.question import Question
from modules.llm_platform.domain.text.data_files import load_words
from modules.llm_platform.domain.text.numbers import list_spelling_words, load_date_words
from modules.llm_platform.domain.text.tokens import split_words

# Questions that a number answers, and those that a number or a time answers: `How long may I stay?` "Until Friday."
_ASKS_AMOUNT: Final = re.compile(
    r"\bhow (?:many|much|tall|high|deep|heavy|wide|warm)\b|\bwie ?viele?n?\b|\bwas kosten?t?\b"
    r"|\bwie (?:hoch|tief|schwer|breit|warm|teuer)\b|\bcombien\b(?! de temps)|\bcu[aá]nt[oa]s?\b(?! tiempo)",
    re.IGNORECASE,
)
_ASKS_MEASURE: Final = re.compile(
    r"\bhow (?:long|old|far|fast|often|soon)\b|\bwie (?:lange?|alt|weit|schnell|oft)\b"
    r"|\bcombien de temps\b|\bcu[aá]nto tiempo\b",
    re.IGNORECASE,
)
_ASKS_TIME: Final = re.compile(
    r"^\W*(?:when|wann|quand|cu[aá]ndo)\b|\b(?:what|which) (?:time|date|day|month|year)\b|\bum wie ?viel uhr\b"
    r"|\b(?:an )?welche[mnrs]? (?:tag|datum|monat|jahr)\b|\bquelle (?:date|heure)\b|\bquel (?:jour|mois)\b"
    r"|\bqué (?:día|hora|fecha|mes|año)\b",
    re.IGNORECASE,
)
_ASKS_REASON: Final = re.compile(r"^\W*(?:why|warum|weshalb|wieso|pourquoi|por qué)\b", re.IGNORECASE)


_MAY: Final = re.compile(r"\bMay\b")  # the month, and not the verb
KNOWN_LANGUAGES: Final = frozenset({"en", "de", "fr", "es"})  # their words for numbers and times are known


def lacks_asked_kind(question: Question, chosen: Sequence[Candidate]) -> bool:
    """Return whether none of the chosen sentences and table rows has the kind of thing that the question asks for."""
    kinds = [has_kind for asks, has_kind in _KINDS.items() if asks.search(question.text)]
    if not kinds or any(one.found_in.language not in KNOWN_LANGUAGES for one in chosen):
        return False
    return bool(chosen) and not any(has_kind(one) for one in chosen for has_kind in kinds)


def _has_amount(candidate: Candidate) -> bool:
    return _has_figure_or_word(candidate, _list_amount_words())


def _has_amount_or_time(candidate: Candidate) -> bool:
    return _has_amount(candidate) or _has_time(candidate)


def _has_time(candidate: Candidate) -> bool:
    return _has_figure_or_word(candidate, _list_time_words()) or _MAY.search(candidate.form.shown) is not None


def _has_reason(candidate: Candidate) -> bool:
    """Return whether there is a sentence. A table row gives no reason."""
    return not candidate.sentence.row


def _has_figure_or_word(candidate: Candidate, words: frozenset[str]) -> bool:
    """Return whether a sentence, or what is shown below it, has a digit or one of these words."""
    shown = "\n".join((candidate.form.shown, *(block.text for block in candidate.attachments)))
    return any(character.isdigit() for character in shown) or not words.isdisjoint(split_words(shown))


@cache
def _list_amount_words() -> frozenset[str]:
    return load_words("asked_kinds", "amount") | list_spelling_words()


@cache
def _list_time_words() -> frozenset[str]:
    return (load_words("asked_kinds", "time") | load_date_words().keys() | list_spelling_words()) - {"may"}


_KINDS: Final[Mapping[re.Pattern[str], Callable[[Candidate], bool]]] = {
    _ASKS_AMOUNT: _has_amount,
    _ASKS_MEASURE: _has_amount_or_time,
    _ASKS_TIME: _has_time,
    _ASKS_REASON: _has_reason,
}
