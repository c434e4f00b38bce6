"""How much the shape of a sentence speaks for it: whole, of a usual length, of the kind that is asked for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from modules.llm_platform.domain.quoting.question import NAME_WEIGHT, Question, symbols
from modules.llm_platform.domain.quoting.rules import is_version_note
from modules.llm_platform.domain.quoting.sentences import Sentence
from modules.llm_platform.domain.text import words

LONG_WORDS = 55
CUT_QUALITY = 0.6  # factors on the score
ITEM_QUALITY = 0.92  # a list item or the row of a table is seldom a sentence
TABLE_QUALITY = 1.2  # a whole table, where not one thing was asked for
CODE_QUALITY = 1.15  # where a way to do something was asked for
HEADED_CODE_EXPLAINS = 0.6  # code under a heading, where not a way to do something was asked for
LONG_QUALITY = 0.8
VERSION_NOTE_QUALITY = 0.5
NUMBER_QUALITY = 1.2
REASON_QUALITY = 1.1
DEFINITION_QUALITY = 1.4
EXPLANATION_QUALITY = 1.8  # in a definition list, of a name that was asked for
OPENING_QUALITY = 1.05
OPENING_SENTENCES = 3
DEFINES_WITHIN_CHARS = 80
DEFINES_WITHIN_WORDS = 5

_NUMBER = re.compile(r"\d")
_REASON = re.compile(
    r"\b(?:because|since|due to|so that|reason|therefore|in order to|weil|da|denn|wegen|damit|parce que|car|en "
    r"raison|porque|ya que"
    r"|debido|потому|так как|поскольку|из-за|чтобы|perché|poiché|pois|devido)\b|因为|由于|以便|ため|ので|から|때문",
    re.IGNORECASE,
)
_IS_A = re.compile(
    r"\b(?:(?:is|are|was|were) (?:an?|the|one|any|some)|means|refers to|stands for|(?:ist|sind|war|waren) (?:eine?"
    r"|der|die|das)|bezeichnet|bedeutet"
    r"|(?:est|sont) (?:une?|le|la|les|des)|désigne|(?:es|son) (?:una?|el|la|los|las)|significa|(?:é|são) (?:uma?|o|a"
    r"|os|as)|(?:è|sono) (?:una?|uno|il|lo|la|i|gli|le)"
    r"|это|является|означает|це|jest|is een)\b|\s[—–]\s|是|とは|は|이란|란",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Shape:
    """A sentence as it would be shown, its words, and the terms that it meets."""

    text: str
    words: Sequence[str]
    met: Mapping[int, float]


def qualities(sentence: Sentence, shape: Shape, question: Question) -> tuple[float, ...]:
    """How much the shape of a sentence speaks for it: whole, of a usual length, of the kind that each part asks for."""
    quality = CUT_QUALITY if not sentence.whole else ITEM_QUALITY if sentence.item else 1.0
    if is_version_note(shape.text, question.text):
        quality *= VERSION_NOTE_QUALITY
    if len(shape.words) > LONG_WORDS:
        quality *= LONG_QUALITY
    return tuple(quality * _quality(kind, sentence, shape, question) for kind in question.kinds)


def _quality(kind: str, sentence: Sentence, shape: Shape, question: Question) -> float:
    shows_code = bool(sentence.after) and sentence.after[0].kind == "code"
    if sentence.announces and shows_code and kind != "how":
        return HEADED_CODE_EXPLAINS
    if sentence.announces and kind == "other":
        return TABLE_QUALITY
    if kind == "how":
        return CODE_QUALITY if shows_code else 1.0
    if kind in ("when", "count"):
        return NUMBER_QUALITY if _NUMBER.search(shape.text) else 1.0
    if kind == "why":
        return REASON_QUALITY if _REASON.search(shape.text) else 1.0
    if kind == "what":
        opening = OPENING_QUALITY if sentence.position <= OPENING_SENTENCES else 1.0
        if _explains(sentence, question):
            return opening * EXPLANATION_QUALITY
        return opening * (DEFINITION_QUALITY if shape.met and _defines(shape, question) else 1.0)
    return 1.0


def _explains(sentence: Sentence, question: Question) -> bool:
    """Whether a definition list gives the sentence for a name that was asked for."""
    if not sentence.term:
        return False
    named = {*words(sentence.term), *symbols(sentence.term)}
    return any(term.weight >= NAME_WEIGHT and term.word in named for term in question.terms)


def _defines(shape: Shape, question: Question) -> bool:
    """Whether the sentence says what its subject is, and the subject is what was asked for."""
    copula = _IS_A.search(shape.text)
    if not copula or copula.start() > DEFINES_WITHIN_CHARS:
        return False
    subject = words(shape.text[: copula.start()])
    asked = {question.terms[number].word for number in shape.met}
    return any(word in asked for word in subject[:DEFINES_WITHIN_WORDS]) and len(shape.words) > len(subject) + 2
