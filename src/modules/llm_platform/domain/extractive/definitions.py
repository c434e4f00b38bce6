"""Recognise sentences that define what a question asks about: `kerf: the width of a cut`, `A kerf is the width of a cut`."""

import re
from collections.abc import Collection

from modules.llm_platform.domain.extractive.question import NAME_WEIGHT, Question, list_symbols
from modules.llm_platform.domain.extractive.sentences import Sentence
from modules.llm_platform.domain.text.tokens import split_words

MAX_CHARS_BEFORE_VERB = 80
SUBJECT_WORDS = 5  # the subject of a definition is looked for in this many words at the beginning
MIN_WORDS_AFTER_SUBJECT = 3

_IS_A = re.compile(
    r"\b(?:(?:is|are|was|were) (?:an?|the|one|any|some)|means|refers to|stands for|(?:ist|sind|war|waren) (?:eine?"
    r"|der|die|das)|bezeichnet|bedeutet"
    r"|(?:est|sont) (?:une?|le|la|les|des)|désigne|(?:es|son) (?:una?|el|la|los|las)|significa|(?:é|são) (?:uma?|o|a"
    r"|os|as)|(?:è|sono) (?:una?|uno|il|lo|la|i|gli|le)"
    r"|это|является|означает|це|jest|is een)\b|\s[—–]\s|是|とは|は|이란|란",
    re.IGNORECASE,
)


def defines_asked_term(sentence: Sentence, question: Question) -> bool:
    """Return whether a definition list uses the sentence to define what the question names.

    The defined term must be a name of the question, or consist only of words of the question.
    """
    if not sentence.term:
        return False
    defined = {*split_words(sentence.term), *list_symbols(sentence.term)}
    if any(term.weight >= NAME_WEIGHT and term.word in defined for term in question.terms):
        return True
    return bool(defined) and defined <= {term.word for term in question.terms}


def is_definition(shown: str, words: Collection[str], terms: Collection[str]) -> bool:
    """Return whether a sentence says what its subject is, and one of the `terms` is in the subject.

    `words` are all words of the sentence, which is quoted as `shown`.
    """
    verb = _IS_A.search(shown)
    if not verb or verb.start() > MAX_CHARS_BEFORE_VERB:
        return False
    subject = split_words(shown[: verb.start()])
    is_about_term = any(word in terms for word in subject[:SUBJECT_WORDS])
    return is_about_term and len(words) >= len(subject) + MIN_WORDS_AFTER_SUBJECT
