"""Split a question that asks several things, to name the parts that an answer leaves out."""

from typing import Final

from modules.llm_platform.domain.extractive.question import (
    MAX_PARTS,
    NAME_WEIGHT,
    PART_END,
    WEAK_WEIGHT,
    Question,
    read_question,
)
from modules.llm_platform.domain.text.data_files import load_words
from modules.llm_platform.domain.text.language import detect_language
from modules.llm_platform.domain.text.stemming import is_same_word
from modules.llm_platform.domain.text.tokens import split_words

SPLIT_LANGUAGES: Final = ("en", "de")


def split_question(question: Question) -> list[str]:
    """Return the parts of a question as written; none if it asks one thing.

    Each part must begin with a question word or a verb and must have an important word, and more than a comma must separate
    two parts. In `My card was stolen, what must I do?`, the text before the comma only describes the circumstances.
    """
    language = question.language
    parts = [part.strip() for part in PART_END.split(question.text) if part.strip()]
    if language not in SPLIT_LANGUAGES or not 1 < len(parts) <= MAX_PARTS:
        return []
    is_joined = all(found[0].strip(", ") for found in PART_END.finditer(question.text))
    is_question = all(_begins_question(part, language) and _asks_for_something(part, language) for part in parts)
    return parts if is_joined and is_question else []


def asks_several_things(question: Question) -> bool:
    """Return whether a question has several parts that ask. In languages other than SPLIT_LANGUAGES, all parts seem to ask."""
    if len(question.parts) < 2 or question.language not in SPLIT_LANGUAGES:
        return len(question.parts) > 1
    parts = filter(str.strip, PART_END.split(question.text))
    return sum(_begins_question(part, question.language) for part in parts) > 1


def list_open_parts(question: Question, answer: str) -> list[str]:
    """Return the parts of a question that an answer leaves out: the answer has no word that the part asks about.

    The list is empty if the answer is in another language, or has no word of any part and so answers in other words.
    """
    if not (parts := split_question(question)) or detect_language(answer) not in (None, question.language):
        return []
    known = set(split_words(answer))
    open_parts = [part for part in parts if _lacks_all(part, known, question.language)]
    return open_parts if len(open_parts) < len(parts) else []


def _begins_question(part: str, language: str) -> bool:
    """Return whether a question word or a verb is one of the first two words: `by how much` begins with a preposition."""
    openings = load_words("question_openings", language)
    return any(word in openings for word in split_words(part)[:2])


def _asks_for_something(part: str, language: str) -> bool:
    return any(term.weight > WEAK_WEIGHT for term in read_question(part, language).terms)


def _lacks_all(part: str, known: set[str], language: str) -> bool:
    """Return whether the answer has none of the words that the part asks about.

    Names do not count, because parts share them. In German they count, because all nouns look like names.
    """
    terms = [term for term in read_question(part, language).terms if term.weight > WEAK_WEIGHT]
    asked = [term.word for term in terms if language == "de" or term.weight < NAME_WEIGHT]
    return bool(asked) and not any(is_same_word(word, other) for word in asked for other in known)
