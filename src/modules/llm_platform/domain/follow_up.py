"""Understand a follow-up question by rules: an elliptic question gets the topic of the question before it.

A question is elliptic if it continues the conversation (`And in Norway?`), refers to something that it does not name
(`How loud are they?`), or asks only for things that the earlier answer mentions (`What does the installation cost?`). Every
other question stands by itself: a wrong topic does more harm than a missing one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from modules.llm_platform.domain.dtos.research_dtos import Turn
from modules.llm_platform.domain.dtos.web_search_dtos import MAX_QUERY_CHARS
from modules.llm_platform.domain.extractive.question import NAME_WEIGHT, WEAK_WEIGHT, Term, TermMatcher, read_question
from modules.llm_platform.domain.text.data_files import load_data, load_words
from modules.llm_platform.domain.text.language import stop_words
from modules.llm_platform.domain.text.scripts import UNSPACED
from modules.llm_platform.domain.text.tokens import fold, words

MAX_TOPIC_WORDS: Final = 6
MAX_TOPIC_CHARS: Final = 120
MAX_SHORT_TERMS: Final = 3  # a question of more terms names what it is about
MAX_REFERRING_TERMS: Final = 3  # a question of more terms than these has what its pronoun refers to
MAX_HISTORY_CHARS: Final = 20_000  # in which the terms of a short question are looked up

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_CHUNK = re.compile(rf"[{UNSPACED}]+|[^\W_]\S*")
_PUNCTUATION = "\"'“”„«»()¿¡?？.!,;:。！，；："
_CAPITALIZES_NOUNS: Final = frozenset({"de"})
_AND: Final = frozenset(["and", "und", "et", "y", "e", "ed", "en", "i", "и", "й", "та", "і"])


def standalone_by_rules(question: str, turns: Sequence[Turn], language: str) -> str:
    """The question, with the topic of the last turn's question in front of it if it is elliptic."""
    if not turns or not is_elliptic(question, turns, language):
        return question
    topic = topic_words(turns[-1].question, language, without=question)
    if not topic:
        return question
    return f"{topic}: {question}"[:MAX_QUERY_CHARS]


def is_elliptic(question: str, turns: Sequence[Turn], language: str) -> bool:
    """Whether the question is understood only after the turns."""
    primary = language.partition("-")[0].lower()
    own = _terms(question, language)
    if not own:
        return True
    text = _without(_rules(primary).opening, question)
    if text != question or _rules(primary).is_closing(question):
        return not _is_new_clause(text, own, turns, primary)
    if _refers_back(question, primary):
        return True
    topic = _known(own, turns[-1].question)
    return not topic and len(own) <= MAX_SHORT_TERMS and _known(own, _text_of(turns)) == {term.word for term in own}


def names_something(question: str, language: str) -> bool:
    """Whether the question has a content word of its own."""
    return bool(_terms(question, language))


def topic_words(question: str, language: str, *, without: str = "") -> str:
    """The content words of the question as written, at most MAX_TOPIC_WORDS, except those in `without`."""
    taken = TermMatcher(_terms(without, language)) if without else None
    found: dict[str, str] = {}
    for chunk in _CHUNK.findall(_apart(question, language)):
        word = chunk.strip(_PUNCTUATION)
        terms = _terms(word, language)
        if terms and not (taken and any(taken.matches(term.word) for term in terms)):
            found.setdefault(fold(word), word)
    topic = " ".join(list(found.values())[:MAX_TOPIC_WORDS])
    return topic if len(topic) <= MAX_TOPIC_CHARS else topic[:MAX_TOPIC_CHARS].rpartition(" ")[0]


def _apart(question: str, language: str) -> str:
    """The question with blanks instead of the function words of a script without blanks."""
    rules = _rules(language.partition("-")[0].lower())
    return rules.function_words.sub(" ", question) if rules.function_words else question


def _terms(text: str, language: str) -> list[Term]:
    """The terms that name something; pieces of a script without blanks are those between its function words."""
    terms = read_question(_apart(text, language), language).terms
    return [term for term in terms if term.weight > WEAK_WEIGHT and term.word not in load_words("follow_up", "measures")]


def _known(terms: Sequence[Term], text: str) -> set[str]:
    """The terms that occur in the text, in any inflection."""
    matcher = TermMatcher(terms)
    return {terms[number].word for word in words(text) for number, _ in matcher.matches(word)}


def _text_of(turns: Sequence[Turn]) -> str:
    return " ".join(f"{turn.question} {turn.answer}" for turn in turns)[-MAX_HISTORY_CHARS:]


def _is_new_clause(text: str, own: Sequence[Term], turns: Sequence[Turn], primary: str) -> bool:
    """Whether the text behind `And` is a whole question about something that the turns do not mention."""
    first = next(iter(words(text)), "")
    is_clause = first in stop_words(primary) and len(own) > 1 and not _refers_back(text, primary)
    return is_clause and len(own) >= MAX_SHORT_TERMS and not _known(own, _text_of(turns))


def _refers_back(question: str, primary: str) -> bool:
    """Whether a pronoun refers to something that the question itself does not name before it."""
    rules = _rules(primary)
    if rules.unspaced_pronouns.search(question):
        return True
    if rules.expletives.search(question):
        return False
    before, found = 0, 0
    names = {term.word for term in read_question(question, primary).terms if term.weight >= NAME_WEIGHT}
    has_pronoun = False
    for place, match in enumerate(_WORD.finditer(question)):
        word = fold(match.group())
        is_polite = primary in _CAPITALIZES_NOUNS and place and match.group()[0].isupper()
        if word in rules.pronouns and not is_polite:
            has_pronoun = has_pronoun or before <= 1
        elif word in _AND and found:
            return has_pronoun  # what follows may refer to what was named
        elif _terms(match.group(), primary):
            found += 1
            is_name = place and word in names and primary not in _CAPITALIZES_NOUNS
            before += 2 if is_name else 1
    return has_pronoun and found <= MAX_REFERRING_TERMS


@dataclass(frozen=True, slots=True)
class _Rules:
    opening: re.Pattern[str]
    closing: re.Pattern[str] | None
    pronouns: Collection[str]
    unspaced_pronouns: re.Pattern[str]
    expletives: re.Pattern[str]
    function_words: re.Pattern[str] | None

    def is_closing(self, question: str) -> bool:
        return self.closing is not None and bool(self.closing.search(question))


@cache
def _rules(primary: str) -> _Rules:
    data = load_data("follow_up")
    opening, closing = data["openings"].get(primary, ""), data["closings"].get(primary)
    is_unspaced = primary in {"zh", "ja"}
    end = "" if is_unspaced else r"\b"
    functions = sorted(stop_words(primary), key=len, reverse=True) if is_unspaced else []
    return _Rules(
        opening=re.compile(rf"\s*(?:{opening}){end}[\s,，、]*" if opening else r"(?!)", re.IGNORECASE),
        closing=re.compile(rf"(?:{closing})\s*[?？]?\s*$") if closing else None,
        pronouns=frozenset(data["pronouns"].get(primary, "").split()),
        unspaced_pronouns=re.compile(data["pronouns_unspaced"] if is_unspaced else r"(?!)"),
        expletives=re.compile(data["expletives"], re.IGNORECASE),
        function_words=re.compile("|".join(map(re.escape, functions))) if functions else None,
    )


def _without(opening: re.Pattern[str], question: str) -> str:
    found = opening.match(question)
    return question[found.end() :] if found else question
