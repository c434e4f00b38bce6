"""Find a claim that affirms the alternative that its source rules out: "every 100 hours, not every month".

`denials` and `contrasts` call the comparisons.
"""

import re
from typing import Final

from modules.llm_platform.domain.citations.compare.mismatches import SpanPair, find_word
from modules.llm_platform.domain.citations.read.claims import Claim, TextFacts
from modules.llm_platform.domain.text.data_files import load_words
from modules.llm_platform.domain.text.negation import count_negators, has_opposite, is_negator_at
from modules.llm_platform.domain.text.positions import Offset, WordNumber
from modules.llm_platform.domain.text.stemming import has_form_of_any, is_form_of_any

MAX_ALTERNATIVE_WORDS: Final = 6
MIN_SHARED: Final = 0.75  # share of the claim's content words that the sentence has

_ALTERNATIVE: Final = re.compile(r"[,;(–—]\s?(?:and |und |et |y )?(?=(?:not|nicht|non|pas|no)\s)", re.IGNORECASE)
_CLAUSE_END: Final = re.compile(r"[,;:.!?()–—](?:\s|$)|\s(?:as|wie|comme|como)\s", re.IGNORECASE)
_EXCEPTION: Final = re.compile(
    r"\b(?:only (?:if|when|with)|unless|except|nur (?:wenn|mit)|außer|es sei denn|seulement (?:si|avec)|sauf|à moins|sólo si"
    r"|solo si|salvo|excepto)\b",
    re.IGNORECASE,
)


def compare_alternatives(claim: Claim, sentence: TextFacts) -> SpanPair | None:
    """Compare "every month" with "every 100 hours, not every month".

    The claim has all that is denied, nothing of what holds instead, and another word of the sentence.
    """
    said = claim.facts.folded
    if count_negators(said) or has_opposite(said, sentence.folded):
        return None
    for found in _ALTERNATIVE.finditer(sentence.text):
        end = _find_end(sentence, found.end())
        comma, first = (sentence.find_position(Offset(at)) for at in found.span())
        stop = sentence.find_position(Offset(end))
        if not is_negator_at(sentence.folded, first) or stop - first > MAX_ALTERNATIVE_WORDS:
            continue
        denied = sentence.list_content(first + 1, stop)
        before = [word for word in sentence.list_content(0, comma) if word not in denied]
        is_about = has_form_of_any(before[: -len(denied)], said) or has_form_of_any(
            sentence.list_content(stop, len(sentence.folded)), said
        )
        is_said = denied and all(is_form_of_any(word, said) for word in denied)
        if is_said and is_about and not has_form_of_any(before[-len(denied) :], said):
            return (0, len(claim.text)), (found.end(), end)
    return None


def _find_end(sentence: TextFacts, start: int) -> int:
    """Return where the clause ends that begins at this offset."""
    end = _CLAUSE_END.search(sentence.text, start)
    return end.start() if end else len(sentence.text)


def compare_exceptions(claim: Claim, sentence: TextFacts) -> SpanPair | None:
    """Compare "never admitted in the evening" with "may attend in the evening only if accompanied by an adult"."""
    never = load_words("contrasts", "never")
    at = next((at for at, word in enumerate(claim.facts.folded) if word in never), None)
    exception = _EXCEPTION.search(sentence.text)
    if at is None or exception is None or _EXCEPTION.search(claim.text) or count_negators(sentence.folded):
        return None
    content = [word.key for word in claim.words if word.is_content and word.key not in never]
    shared = [word for word in content if is_form_of_any(word, sentence.folded)]
    if not shared or len(shared) < MIN_SHARED * len(content) or is_about_exception(claim, sentence):
        return None
    return find_word(claim.text, WordNumber(at)), exception.span()


def is_about_exception(claim: Claim, sentence: TextFacts) -> bool:
    """Return whether a claim has a word of an exception: "never allowed in the kitchen" beside "except in the kitchen"."""
    exception = _EXCEPTION.search(sentence.text)
    if exception is None:
        return False
    excepted = sentence.folded[sentence.find_position(Offset(exception.end())) :]
    return any(is_form_of_any(word.key, excepted) for word in claim.words if word.is_content)
