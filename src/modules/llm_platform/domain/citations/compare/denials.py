"""Find where a claim and its source deny each other.

"The lock was forced" is denied by "There is no evidence that the lock was forced", and "The gate is open" by "The gate is
closed".
"""

from collections.abc import Sequence
from typing import Final

from modules.llm_platform.domain.citations.compare.comparison import Comparison
from modules.llm_platform.domain.citations.compare.mismatches import MAX_RECEIPT_WORDS, Mismatch, SpanPair, find_word
from modules.llm_platform.domain.citations.read.claims import Claim, TextFacts
from modules.llm_platform.domain.text.negation import (
    contradicts_unspaced,
    count_negators,
    denies_clause,
    find_opposites,
    list_denied_clauses,
    load_negation_words,
)
from modules.llm_platform.domain.text.positions import WordNumber
from modules.llm_platform.domain.text.stemming import is_form_of_any

# A sentence with this share of the claim's content words says the same but for a negation.
SAME_BUT_FOR_NEGATION: Final = 0.9
MIN_COPIED_WORDS: Final = 3  # content words of a claim, one of which has its opposite in the sentence


def find_denial(compared: Comparison) -> Mismatch | None:
    """Return where one of the best sentences denies the claim, or where the passage has an opposite word."""
    claim, passage = compared.claim, compared.passage_facts
    for sentence in compared.passage.sentences:
        facts = compared.read_facts(sentence)
        spans = _find_undenied_opposites(claim, facts) or _find_opposite_in_copy(claim, facts)
        if spans is None and _is_denied(claim, facts):
            spans = _locate_negation(claim, facts)
        if spans is not None:
            return Mismatch("negation", spans[0], compared.locate(sentence, spans[1]))
    if spans := _find_undenied_opposites(claim, passage):  # in another sentence of the passage
        return Mismatch("negation", spans[0], compared.locate_in_passage(spans[1]))
    return None


def _is_denied(claim: Claim, sentence: TextFacts) -> bool:
    """Return whether only one of the two denies the same predicate."""
    mine, theirs = claim.denied_words, sentence.denied_words
    if _is_negated_copy(claim, sentence) or _denies_rest(claim, sentence):
        return True
    if not claim.text.isascii() and contradicts_unspaced(claim.text, sentence.text):
        return True
    return denies_clause(theirs, sentence.text, claim.text, mine) or denies_clause(
        mine, claim.text, sentence.text, theirs
    )


def _find_undenied_opposites(claim: Claim, facts: TextFacts) -> SpanPair | None:
    """Return the opposite words that both have between the same neighbours; None if a word is denied."""
    words = find_opposites(
        _remove_words(claim.denied_words, claim.keys), _remove_words(facts.denied_words, facts.folded)
    )
    return None if words is None else _locate_words(claim, facts, *words)


def _find_opposite_in_copy(claim: Claim, sentence: TextFacts) -> SpanPair | None:
    """Return a word of the claim and its opposite in a sentence that has all other content words of the claim."""
    opposites, content = load_negation_words().opposites, [word.key for word in claim.words if word.is_content]
    missing = [word for word in content if not is_form_of_any(word, sentence.folded)]
    if len(missing) != 1 or len(content) < MIN_COPIED_WORDS:
        return None
    if count_negators(claim.facts.folded) != count_negators(sentence.folded):
        return None
    for group, side in opposites.get(missing[0], ()):
        sides = {other: word for word in sentence.folded for at, other in opposites.get(word, ()) if at == group}
        if sides and side not in sides:
            return _locate_words(claim, sentence, missing[0], next(iter(sides.values())))
    return None


def _locate_words(claim: Claim, facts: TextFacts, key: str, folded: str) -> SpanPair:
    """Return the spans of a word of the claim and of a word of the source."""
    position = claim.keys.index(key)
    start = claim.offsets[position]
    found = find_word(facts.text, WordNumber(facts.folded.index(folded)))
    return (start, start + len(claim.words[position].written)), found


def _denies_rest(claim: Claim, sentence: TextFacts) -> bool:
    """Return whether the claim affirms what a short clause denies: "it covers breakage, but no water damage".

    The clause has no verb of its own, so the claim must also share a word with the rest of the sentence.
    """
    if count_negators(claim.facts.folded) or not count_negators(sentence.folded):
        return False
    shared = [word for word, content in zip(sentence.folded, sentence.content, strict=True) if content]
    for denied in list_denied_clauses(sentence.text):
        rest = [word for word in shared if word not in denied]
        if all(is_form_of_any(word, claim.facts.folded) for word in denied) and not any(
            is_form_of_any(word, rest) for word in denied
        ):
            return any(is_form_of_any(word, claim.facts.folded) for word in rest)
    return False


def _is_negated_copy(claim: Claim, sentence: TextFacts) -> bool:
    """Return whether the sentence has nearly all content words of the claim, and one negator more or less."""
    if count_negators(claim.facts.folded) % 2 == count_negators(sentence.folded) % 2:
        return False
    mine = [word for word, content in zip(claim.facts.folded, claim.facts.content, strict=True) if content]
    mine = [word for word in mine if not count_negators([word])]
    shared = sum(is_form_of_any(word, sentence.folded) for word in mine)
    return bool(mine) and shared >= SAME_BUT_FOR_NEGATION * len(mine)


def _remove_words(denied: Sequence[str], words: Sequence[str]) -> Sequence[str]:
    return [word for word in words if word not in denied] if denied else words


def _locate_negation(claim: Claim, sentence: TextFacts) -> SpanPair:
    """Return what the sentence negates and the claim affirms: "no dog" and "dog".

    The span of a text is its negator if the other text has no such word, or the whole text if it has no negator.
    """
    mine, theirs = _find_negator(claim.facts), _find_negator(sentence)
    if mine is None and theirs is not None:
        return _locate_affirmed(claim, sentence, theirs)
    if mine is not None and theirs is None:
        return find_word(claim.text, mine), (0, len(sentence.text))
    return (0, len(claim.text)), (0, len(sentence.text))


def _find_negator(facts: TextFacts) -> WordNumber | None:
    negators = load_negation_words().negators
    return next((WordNumber(position) for position, word in enumerate(facts.folded) if word in negators), None)


def _locate_affirmed(claim: Claim, sentence: TextFacts, negator: WordNumber) -> SpanPair:
    """Return the span of the next word after a negator that the claim has too, and the span from the negator to it."""
    negation = find_word(sentence.text, negator)
    for position in range(negator + 1, min(len(sentence.folded), negator + MAX_RECEIPT_WORDS)):
        word = sentence.folded[position]
        own = next((at for at, mine in enumerate(claim.facts.folded) if is_form_of_any(word, [mine])), None)
        if sentence.content[position] and own is not None:
            end = find_word(sentence.text, WordNumber(position))[1]
            return find_word(claim.text, WordNumber(own)), (negation[0], end)
    return (0, len(claim.text)), negation
