"""Find the content words of a question: all words except the stop words of its language."""

from modules.llm_platform.domain.text.language import load_stop_words
from modules.llm_platform.domain.text.tokens import split_words

WORD_STEM_CHARS = 4  # words with the same first letters count as forms of one word
_QUOTES = "\"'“”„«»()¿¡"
_ENDS = "?？.!,;:。！，；："  # only removed from the end of a word: .NET is a name


def content_words(text: str, language: str) -> list[str]:
    """Return the content words in order, as written, without quotation marks and punctuation at their ends."""
    stops = load_stop_words(language)
    return [
        word.strip(_QUOTES).rstrip(_ENDS)
        for word in text.split()
        if (folded := split_words(word)) and not all(w in stops for w in folded)
    ]


def content_key(question: str, language: str) -> frozenset[str]:
    """Return the folded content words; all words if each is a stop word. Questions with equal keys find the same sources."""
    found = frozenset(split_words(question)) or frozenset(question.split())  # emoji alone are a query too
    return found - load_stop_words(language) or found


def shares_content_word(text: str, question: str, language: str) -> bool:
    """Return whether the two texts share a content word.

    Only the first WORD_STEM_CHARS characters of a word are compared, so that other inflections match.
    """
    return not _stems(text, language).isdisjoint(_stems(question, language))


def _stems(text: str, language: str) -> set[str]:
    return {word[:WORD_STEM_CHARS] for word in content_key(text, language)}
