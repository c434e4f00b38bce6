"""Correct a question by the words of the sources: "How long is the waranty?" asks about the "warranty" of a manual.

A word is misspelled if the vocabulary of a model lacks it, no source has it in any form, and the sources have a single word that
differs from it in one letter.
"""

import itertools
from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple

from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.extractive.question import Question
from modules.llm_platform.domain.text.numbers import load_date_words
from modules.llm_platform.domain.text.stemming import stem
from modules.llm_platform.domain.text.tokens import WORD_WITH_APOSTROPHE, fold

MAX_WORDS: Final = 100_000  # of the sources; later ones are no corrections
MIN_LETTERS: Final = 5  # shorter words have too many neighbours: "rent" and "tent"


class Correction(NamedTuple):
    """A question in the spelling of the sources.

    `is_certain` is True if each misspelled word lacks a letter or exchanges two, and none may be a name. Other corrections may
    give another word: `lesson` for "lessor".
    """

    text: str
    is_certain: bool


def list_correctable_words(question: Question) -> list[str]:
    """Return the terms of a question that may be misspelled words."""
    return [term.word for term in question.terms if len(term.word) >= MIN_LETTERS and term.word.isalpha()]


def correct_spelling(question: Question, unknown: Collection[str], sources: Sequence[Source]) -> Correction | None:
    """Return the question with words of the sources in place of `unknown` terms; None if the sources have no such words."""
    if not unknown:
        return None
    known, text, is_certain = _SourceWords(sources), question.text, True
    for found in reversed(list(WORD_WITH_APOSTROPHE.finditer(text))):
        if fold(found[0]) in unknown and (word := known.find_correction(fold(found[0]))) is not None:
            text = text[: found.start()] + word + text[found.end() :]
            may_be_name = word[0].isupper() and fold(word) not in load_date_words()
            is_certain = is_certain and not may_be_name and _lacks_or_exchanges_letter(fold(found[0]), fold(word))
    return Correction(text, is_certain) if text != question.text else None


class _SourceWords:
    """The words of the sources by their first letter."""

    def __init__(self, sources: Sequence[Source]) -> None:
        found = (one[0] for source in sources for one in WORD_WITH_APOSTROPHE.finditer(f"{source.title} {source.text}"))
        written = set(itertools.islice(found, MAX_WORDS))
        self._written = {fold(word): word for word in sorted(written)}  # in small letters, if it is ever written so
        self._by_start: dict[str, list[str]] = {}
        for word in self._written:
            self._by_start.setdefault(word[0], []).append(word)

    def find_correction(self, typed: str) -> str | None:
        """Return the word that differs from a misspelled word in a letter after the first, as the sources write it.

        None if there are several such words, or if a source has a form of the typed word.
        """
        similar = self._by_start.get(typed[0], [])
        if any(stem(word) == stem(typed) for word in similar):
            return None
        found = sorted((word for word in similar if is_one_edit_apart(typed, word)), key=len)
        return self._written[found[0]] if found and len({stem(word) for word in found}) == 1 else None


def _lacks_or_exchanges_letter(typed: str, word: str) -> bool:
    return len(typed) < len(word) or sorted(typed) == sorted(word)


def is_one_edit_apart(first: str, second: str) -> bool:
    """Return whether one letter is added, missing or replaced, or two neighbours are exchanged."""
    shorter, longer = sorted((first, second), key=len)
    if len(longer) - len(shorter) > 1 or first == second:
        return False
    same = _count_common(shorter, longer)
    ending = _count_common(reversed(shorter[same:]), reversed(longer[same:]))
    left, other = len(shorter) - same - ending, len(longer) - same - ending
    exchanged = left == other == 2 and shorter[same : same + 2] == longer[same : same + 2][::-1]
    return max(left, other) <= 1 or exchanged


def _count_common(first: Iterable[str], second: Iterable[str]) -> int:
    """Return how many letters at the beginning are the same."""
    count = 0
    for mine, theirs in zip(first, second, strict=False):
        if mine != theirs:
            break
        count += 1
    return count
