"""Split a question into its parts and into aspects of its topic by rules, for research that no model plans."""

import re

from modules.llm_platform.domain.research.content_words import content_words, shares_content_word
from modules.llm_platform.domain.text.data_files import load_data
from modules.llm_platform.domain.text.language import get_primary_subtag, load_stop_words
from modules.llm_platform.domain.text.tokens import split_words

MAX_TOPIC_WORDS = 12  # a longer query finds nothing
MAX_TOPIC_CHARS = 200

_AND = re.compile(
    r"[;?？；。,]\s+|(?<!\s)\s+(?:and|or|versus|vs\.?|und|oder|et|ou|y|e|o|i|и|или|та)\s+|(?:以及|还有|和|与|、|と)",
    re.I,
)
_CLAUSE = re.compile(
    r"[;?？；。]\s+|[,，]\s*(?:(?:and|or|und|oder|et|ou|y|e|o|i|и|или|та)\s+)?|(?<!\s)\s+(?:and|und|et|y|e|i|и|та)\s+",
    re.I,
)


def decompose_question(question: str, language: str) -> list[str]:
    """Return searches for a question: the question itself, its parts, then aspects of its topic."""
    topic = content_words(question, language)
    parts: list[str] = []
    for part in (piece.strip(" ?？.!") for piece in _AND.split(question)):
        own = content_words(part, language)
        if len(own) == 1:  # too little to search for without words of the topic
            parts.append(" ".join([part, *[word for word in topic if word not in part][:3]]))
        elif own:
            parts.append(part)
    subject = (" ".join(topic[:MAX_TOPIC_WORDS]) or question)[:MAX_TOPIC_CHARS].rstrip()
    aspects = [f"{subject} {aspect}" for aspect in _aspects(language)]
    return [question, *(parts if len(parts) > 1 else []), *aspects]


def aspect_questions(question: str, language: str) -> list[str]:
    """Return sub-questions that can be headings.

    These are the parts of the question if each part is a question itself. Otherwise they are the question, and the
    question followed by each aspect of its topic (`question: aspect`) that shares no content word with it.
    """
    parts = [part.strip(" ?？.!") for part in _CLAUSE.split(question)]
    if len(parts) > 1 and all(_is_question(part, language) for part in parts):
        mark = question[-1] if question.endswith(("?", "？")) else ""
        return [f"{part[0].upper()}{part[1:]}{mark}" for part in parts]
    bare = question.rstrip(" ?？.!。")[:MAX_TOPIC_CHARS]
    aspects = _aspects(language)
    return [
        question,
        *(f"{bare}: {aspect}" for aspect in aspects if not shares_content_word(aspect, question, language)),
    ]


def covers_every_part(sub_question: str, question: str, language: str) -> bool:
    """Return whether the sub-question shares a content word with each part of the question, in any inflection."""
    parts = [part for part in _CLAUSE.split(question) if content_words(part, language)]
    return all(shares_content_word(sub_question, part, language) for part in parts)


def _aspects(language: str) -> list[str]:
    """Return aspects that a search for the bare topic misses, in the language or in English."""
    by_language: dict[str, list[str]] = load_data("aspects")
    return by_language.get(get_primary_subtag(language), by_language["en"])


def _openings(language: str) -> frozenset[str]:
    """Return the folded words that questions begin with; empty for a language without a list."""
    return frozenset(split_words(load_data("question_openings").get(get_primary_subtag(language), "")))


def _is_question(part: str, language: str) -> bool:
    """Return whether a part has content words and begins like a question: with `how`, or with a function word and `how`.

    A function word alone does not suffice: `the X2 compressor` and `in Norway` ask nothing. It does in a language whose question
    words are not listed.
    """
    first, *rest = split_words(part) or [""]
    if not rest or first not in _openings(language) | load_stop_words(language) or not content_words(part, language):
        return False
    openings = _openings(language)
    return not openings or first in openings or rest[0] in openings
