"""Find claims whose words the source has without asserting them: it makes them a condition, proposes them, or denies them.

"If the bridge is closed, use the ferry" does not say that the bridge is closed, and "It is not true that the bridge is closed"
says that it is open.
"""

import re
from functools import cache
from typing import Final, Literal

from modules.llm_platform.domain.citations.compare.comparison import Comparison
from modules.llm_platform.domain.citations.compare.mismatches import Mismatch
from modules.llm_platform.domain.citations.read.claims import Claim, TextFacts
from modules.llm_platform.domain.text.data_files import load_data
from modules.llm_platform.domain.text.positions import Offset, SentenceNumber
from modules.llm_platform.domain.text.sentences import Span
from modules.llm_platform.domain.text.stemming import is_form_of_any

Phrases = Literal["conditions", "denials", "proposals", "acceptances"]
MIN_SHARED_WORDS: Final = 2  # content words of the claim in the clause
SENTENCES_AFTER: Final = 2  # a proposal may be accepted so many sentences later
DEFAULT_LANGUAGE: Final = "en"  # of a source whose language is uncertain
_CLAUSE_END: Final = re.compile(r"[,;:.!?()–—]\s|\s[(–—]|\bthen\b")


def is_asserted(compared: Comparison) -> bool:
    """Return whether a sentence that is like the claim neither denies it as a whole nor only supposes or proposes it."""
    return not is_unasserted(compared) and find_denied_report(compared) is None


def is_unasserted(compared: Comparison) -> bool:
    """Return whether each sentence that is like the claim only makes it a condition or a proposal."""
    return all(
        _find_phrase_before(compared, sentence, "conditions") is not None or _is_proposed(compared, sentence)
        for sentence in compared.list_sentences_like_best()
    )


def find_denied_report(compared: Comparison) -> Mismatch | None:
    """Return where the source denies the whole claim: "it is not true that the bridge is closed"."""
    spans = [
        (sentence, _find_phrase_before(compared, sentence, "denials"))
        for sentence in compared.list_sentences_like_best()
    ]
    sentence, denial = spans[0]
    if denial is None or any(span is None for _, span in spans):
        return None
    return Mismatch("negation", (0, len(compared.claim.text)), compared.locate(sentence, denial))


def _find_phrase_before(compared: Comparison, sentence: SentenceNumber, kind: Phrases) -> Span | None:
    """Return a phrase of this kind that the claim lacks, and whose clause has all words that claim and sentence share."""
    phrases = _load_phrases(compared.source.language, kind)
    facts = compared.read_facts(sentence)
    text = facts.text.casefold()
    for found in phrases.finditer(text):
        if found[0] in compared.claim.text.casefold():
            return None
        end = _CLAUSE_END.search(text, found.end())
        words = facts.find_position(Offset(found.end())), facts.find_position(Offset(end.start() if end else len(text)))
        if _has_all_shared_words(compared.claim, facts, *words):
            return found.span()
    return None


def _has_all_shared_words(claim: Claim, facts: TextFacts, first: int, end: int) -> bool:
    """Return whether a part of a sentence has all content words of the claim that the sentence has."""
    content = [word.key for word in claim.words if word.is_content]
    shared = [key for key in content if is_form_of_any(key, facts.folded)]
    return len(shared) >= MIN_SHARED_WORDS and all(is_form_of_any(key, facts.folded[first:end]) for key in shared)


def _is_proposed(compared: Comparison, sentence: SentenceNumber) -> bool:
    """Return whether a sentence proposes something, and neither it nor one of the next ones says that it was accepted."""
    source, spans = compared.source, compared.source.spans
    proposals = _load_phrases(source.language, "proposals")
    start, end = spans[sentence][0], spans[min(sentence + SENTENCES_AFTER, len(spans) - 1)][1]
    if proposals.search(compared.read_facts(sentence).text.casefold()) is None:
        return False
    is_said = proposals.search(compared.claim.text.casefold()) is not None
    return not is_said and not _load_phrases(source.language, "acceptances").search(source.text[start:end].casefold())


@cache
def _load_phrases(language: str | None, kind: Phrases) -> re.Pattern[str]:
    phrases = load_data("unasserted")[kind]
    return re.compile(rf"\b(?:{phrases.get(language or DEFAULT_LANGUAGE, phrases[DEFAULT_LANGUAGE])})\b")
