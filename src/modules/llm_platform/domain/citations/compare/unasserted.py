"""Find claims whose words the source has without asserting them: it supposes them, proposes them, or denies them.

"If the bridge is closed, use the ferry" does not say that the bridge is closed, and "It is not true that the bridge is closed"
says that it is open.
"""

import re
from typing import Final

from modules.llm_platform.domain.citations.compare.comparison import Comparison
from modules.llm_platform.domain.citations.compare.mismatches import Mismatch
from modules.llm_platform.domain.citations.read.claims import Claim, TextFacts
from modules.llm_platform.domain.text.data_files import load_words
from modules.llm_platform.domain.text.negation import count_negators
from modules.llm_platform.domain.text.positions import Offset, SentenceNumber
from modules.llm_platform.domain.text.sentences import Span
from modules.llm_platform.domain.text.statements import PhraseKind, compile_phrases
from modules.llm_platform.domain.text.stemming import is_form_of_any

MIN_SHARED_WORDS: Final = 2  # content words of the claim in the clause
SENTENCES_AFTER: Final = 2  # a proposal may be accepted up to this many sentences later
NEGATOR_REACH: Final = 4  # "nobody denies that"
_SENTENCE_END: Final = re.compile(r"[;:.!?](?:\s|$)")
_RULE_START: Final = re.compile(r"\b(?:who|anyone|those|wer|die|qui|quien)\s$")
_CLAUSE_END: Final = re.compile(r"[,;:.!?()–—]\s|\s[(–—]|\bthen\b")


def is_asserted(compared: Comparison) -> bool:
    """Return whether a sentence that is like the claim neither denies it as a whole nor only supposes or proposes it."""
    return not is_unasserted(compared) and find_denied_report(compared) is None


def is_unasserted(compared: Comparison) -> bool:
    """Return whether each sentence that is like the claim only supposes or proposes it."""
    return all(
        _find_phrase_before(compared, sentence, "suppositions") is not None or _is_proposed(compared, sentence)
        for sentence in compared.list_sentences_like_best()
    )


def find_denied_report(compared: Comparison) -> Mismatch | None:
    """Return where the source denies the whole claim: "it is not true that the bridge is closed".

    None if the claim or the denial is denied itself: "It is a mistake that", "Nobody denies that".
    """
    said = compared.claim.facts.folded
    if count_negators(said) or not load_words("contrasts", "errors").isdisjoint(said):
        return None
    spans = [
        (sentence, _find_phrase_before(compared, sentence, "denials"))
        for sentence in compared.list_sentences_like_best()
    ]
    sentence, denial = spans[0]
    if denial is None or any(span is None for _, span in spans):
        return None
    facts = compared.read_facts(sentence)
    at = facts.find_position(Offset(denial[0]))
    if count_negators(facts.folded[max(0, at - NEGATOR_REACH) : at]):
        return None
    return Mismatch("negation", (0, len(compared.claim.text)), compared.locate(sentence, denial))


def reports_denial(compared: Comparison, sentence: SentenceNumber) -> bool:
    """Return whether a sentence says that something is denied or not true, which is no "not" that can be counted."""
    denials = compile_phrases(compared.source.language, "denials")
    return denials.search(compared.read_facts(sentence).text.lower()) is not None


def _find_phrase_before(compared: Comparison, sentence: SentenceNumber, kind: PhraseKind) -> Span | None:
    """Return a phrase of this kind that the claim lacks, and that is about all words that claim and sentence share."""
    phrases = compile_phrases(compared.source.language, kind)
    facts = compared.read_facts(sentence)
    text = facts.text.lower()  # `casefold` would move the offsets after an ß
    for found in phrases.finditer(text):
        if found[0] in compared.claim.text.lower():
            return None
        if _RULE_START.search(text, 0, found.start()):
            continue  # "Anyone who wants to vote must register"
        is_late = kind == "proposals" and compared.source.language == "de"  # "beantragt, die Miete zu erhöhen"
        end = (_SENTENCE_END if is_late else _CLAUSE_END).search(text, found.end())
        start = _find_start(compared, text, found.span()) if kind == "proposals" else found.end()
        words = facts.find_position(Offset(start)), facts.find_position(Offset(end.start() if end else len(text)))
        if _has_all_shared_words(compared.claim, facts, *words, but_first=kind == "proposals"):
            return found.span()
    return None


def _find_start(compared: Comparison, text: str, phrase: Span) -> int:
    """Return where the words begin that a phrase may be about: after it or, in German, at the beginning of its clause."""
    if compared.source.language != "de":
        return phrase[1]
    return max((found.end() for found in _CLAUSE_END.finditer(text, 0, phrase[0])), default=0)


def _has_all_shared_words(claim: Claim, facts: TextFacts, first: int, end: int, *, but_first: bool) -> bool:
    """Return whether a part of a sentence has all content words of the claim that the sentence has.

    With `but_first`, the first content word may be before it: "The committee had planned to buy a press".
    """
    content = [word.key for word in claim.words if word.is_content]
    shared = [key for key in content if is_form_of_any(key, facts.folded)]
    is_subject = but_first and shared[:1] == content[:1] and len(shared) > MIN_SHARED_WORDS
    told = shared[1:] if is_subject else shared
    return len(told) >= MIN_SHARED_WORDS and all(is_form_of_any(key, facts.folded[first:end]) for key in told)


def _is_proposed(compared: Comparison, sentence: SentenceNumber) -> bool:
    """Return whether a sentence proposes something, and neither it nor one of the next ones says that it was accepted."""
    is_proposed = _find_phrase_before(compared, sentence, "proposals") is not None
    return is_proposed and not _is_accepted(compared, sentence)


def _is_accepted(compared: Comparison, sentence: SentenceNumber) -> bool:
    """Return whether the first decision after a proposal, or in its sentence, accepts it, and not with another number."""
    language, last = compared.source.language, min(sentence + SENTENCES_AFTER, len(compared.source.spans) - 1)
    acceptances, rejections = compile_phrases(language, "acceptances"), compile_phrases(language, "rejections")
    for at in range(sentence, last + 1):
        facts = compared.read_facts(SentenceNumber(at))
        if rejections.search(facts.text.lower()):
            return False
        if acceptances.search(facts.text.lower()):
            return not facts.values or not any(facts.values.isdisjoint(one.values) for one in compared.claim.numbers)
    return False
