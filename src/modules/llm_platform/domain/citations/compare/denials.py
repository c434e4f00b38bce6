"""Find where a claim and its source deny each other.

"The lock was forced" is denied by "There is no evidence that the lock was forced", and "The gate is open" by "The gate is
closed".
"""

from collections.abc import Sequence
from typing import Final

from modules.llm_platform.domain.citations.compare.comparison import Comparison
from modules.llm_platform.domain.citations.compare.mismatches import Mismatch, SpanPair, find_word
from modules.llm_platform.domain.citations.read.claims import Claim, TextFacts
from modules.llm_platform.domain.text.kinds import find_other_of_kind
from modules.llm_platform.domain.text.negation import (
    contradicts_unspaced,
    count_negators,
    denies_clause,
    has_opposite,
    list_denied_clauses,
    load_negation_words,
)
from modules.llm_platform.domain.text.positions import WordNumber
from modules.llm_platform.domain.text.sentences import Span
from modules.llm_platform.domain.text.stemming import is_form_of_any

# A sentence with this share of the claim's content words says the same but for a negation.
SAME_BUT_FOR_NEGATION: Final = 0.9
MIN_COPIED_WORDS: Final = 3  # content words of a claim that differs from its source in a word of one kind


def find_denial(compared: Comparison) -> Mismatch | None:
    """Return where one of the best sentences denies the claim, or where the passage has an opposite word."""
    claim, passage = compared.claim, compared.passage_facts
    for sentence in compared.passage.sentences:
        facts = compared.read_facts(sentence)
        if other := _find_other_of_kind(claim, facts):
            return Mismatch("negation", other[0], compared.locate(sentence, other[1]))
        if _is_denied(claim, facts):
            claimed, found = _locate_denial(claim, facts)
            return Mismatch("negation", claimed, compared.locate(sentence, found))
    if _has_undenied_opposite(claim, passage):  # in another sentence of the passage
        claimed, found = _locate_denial(claim, passage)
        return Mismatch("negation", claimed, compared.locate_in_passage(found))
    return None


def _find_other_of_kind(claim: Claim, sentence: TextFacts) -> SpanPair | None:
    """Return a word of the claim and the word that stands for it in a sentence with all other content words of the claim."""
    content = [position for position, word in enumerate(claim.words) if word.is_content]
    missing = [position for position in content if not is_form_of_any(claim.keys[position], sentence.folded)]
    if len(missing) != 1 or len(content) < MIN_COPIED_WORDS:
        return None
    (position,) = missing
    other = find_other_of_kind(claim.keys[position], sentence.folded)
    if other is None or count_negators(claim.facts.folded) != count_negators(sentence.folded):
        return None
    start = claim.offsets[position]
    found = find_word(sentence.text, WordNumber(sentence.folded.index(other)))
    return (start, start + len(claim.words[position].written)), found


def _is_denied(claim: Claim, sentence: TextFacts) -> bool:
    """Return whether only one of the two denies the same predicate, or whether they have opposite words."""
    mine, theirs = claim.denied_words, sentence.denied_words
    if _has_undenied_opposite(claim, sentence) or _is_negated_copy(claim, sentence):
        return True
    if _denies_rest(claim, sentence):
        return True
    if not claim.text.isascii() and contradicts_unspaced(claim.text, sentence.text):
        return True
    return denies_clause(theirs, sentence.text, claim.text, mine) or denies_clause(
        mine, claim.text, sentence.text, theirs
    )


def _has_undenied_opposite(claim: Claim, facts: TextFacts) -> bool:
    """Return whether the two have opposite words between the same neighbours, and neither word is denied."""
    return has_opposite(_remove_words(claim.denied_words, claim.keys), _remove_words(facts.denied_words, facts.folded))


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


def _locate_denial(claim: Claim, sentence: TextFacts) -> tuple[Span, Span]:
    """Return where a claim and a sentence deny each other: the negation in one of them, or the opposite words in both."""
    known = load_negation_words()
    mine = _find_first(claim.facts.folded, known.negators)
    theirs = _find_first(sentence.folded, known.negators)
    if (mine is None) == (theirs is None):
        mine, theirs = _find_opposites(claim.facts.folded, sentence.folded)
    claimed = (0, len(claim.text)) if mine is None else find_word(claim.text, mine)
    return claimed, (0, len(sentence.text)) if theirs is None else find_word(sentence.text, theirs)


def _find_first(words: Sequence[str], wanted: frozenset[str]) -> WordNumber | None:
    return next((WordNumber(position) for position, word in enumerate(words) if word in wanted), None)


def _find_opposites(mine: Sequence[str], theirs: Sequence[str]) -> tuple[WordNumber | None, WordNumber | None]:
    opposites = load_negation_words().opposites
    for own, word in enumerate(mine):
        for pair, side in opposites.get(word, ()):
            for other, their_word in enumerate(theirs):
                if (pair, 1 - side) in opposites.get(their_word, ()):
                    return WordNumber(own), WordNumber(other)
    return None, None
