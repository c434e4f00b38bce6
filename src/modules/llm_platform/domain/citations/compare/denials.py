"""Find where a claim and its source deny each other.

"The lock was forced" is denied by "There is no evidence that the lock was forced", and "The gate is open" by "The gate is
closed".
"""

from collections.abc import Sequence
from typing import Final

from modules.llm_platform.domain.citations.compare.comparison import Comparison
from modules.llm_platform.domain.citations.compare.denied_alternatives import compare_alternatives, is_about_exception
from modules.llm_platform.domain.citations.compare.denied_parts import find_denied_part, find_negator
from modules.llm_platform.domain.citations.compare.mismatches import Mismatch, SpanPair, find_word
from modules.llm_platform.domain.citations.compare.number_contrasts import has_same_limit, list_numbers_with_words
from modules.llm_platform.domain.citations.compare.unasserted import reports_denial
from modules.llm_platform.domain.citations.read.claims import Claim, TextFacts
from modules.llm_platform.domain.text.data_files import load_words
from modules.llm_platform.domain.text.kinds import find_other_of_kind
from modules.llm_platform.domain.text.negation import (
    contradicts_unspaced,
    count_negators,
    denies_clause,
    has_opposite,
    has_unclear_negation,
    is_negator_at,
    list_denied_clauses,
    list_undenied_words,
    list_words_beside_negators,
    load_negation_words,
)
from modules.llm_platform.domain.text.positions import WordNumber
from modules.llm_platform.domain.text.sentences import Span
from modules.llm_platform.domain.text.stemming import is_form_of_any

# A sentence with this share of the claim's content words says the same but for a negation.
SAME_BUT_FOR_NEGATION: Final = 0.9
INSTEAD_WORDS: Final = 2  # content words after "sondern" that name what holds instead
MAX_DENYING_WORDS: Final = 12  # a longer claim may deny something else than the word that its sentence has
MAY: Final = "may"  # elsewhere, it may be the month
MIN_COPIED_WORDS: Final = 3  # content words of a claim that differs from its source in a word of one kind


def find_denial(compared: Comparison) -> Mismatch | None:
    """Return where one of the best sentences denies the claim, or where the passage has an opposite word."""
    claim, passage = compared.claim, compared.passage_facts
    for sentence in compared.passage.sentences:
        facts = compared.read_facts(sentence)
        for find in (
            _find_other_of_kind,
            _find_denied_only,
            _find_exchanged_denial,
            _find_correction,
            compare_alternatives,
        ):
            if (spans := find(claim, facts)) is not None:
                return Mismatch("negation", spans[0], compared.locate(sentence, spans[1]))
        if not reports_denial(compared, sentence) and _is_denied(claim, facts):
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
    if sentence.folded.count(other) > 1:  # "once in 2019 and once in 2021"
        return None
    start = claim.offsets[position]
    found = find_word(sentence.text, WordNumber(sentence.folded.index(other)))
    return (start, start + len(claim.words[position].written)), found


def _find_denied_only(claim: Claim, sentence: TextFacts) -> SpanPair | None:
    """Return the "only" of both texts if one of them says "not only" of the same word."""
    mine, theirs = _find_only(claim.facts), _find_only(sentence)
    if mine is None or theirs is None or _is_denied_only(claim.facts, mine) is _is_denied_only(sentence, theirs):
        return None
    denying, at, other = (
        (claim.facts, mine, sentence) if _is_denied_only(claim.facts, mine) else (sentence, theirs, claim.facts)
    )
    following = denying.list_content(at + 1, len(denying.folded))[:1]
    if not following or not is_form_of_any(following[0], other.folded):
        return None
    return find_word(claim.text, mine), find_word(sentence.text, theirs)


def _find_only(facts: TextFacts) -> WordNumber | None:
    only = load_negation_words().only
    return next((WordNumber(at) for at, word in enumerate(facts.folded) if word in only), None)


def _is_denied_only(facts: TextFacts, at: WordNumber) -> bool:
    return at > 0 and facts.folded[at - 1] in load_negation_words().negators


def _find_exchanged_denial(claim: Claim, sentence: TextFacts) -> SpanPair | None:
    """Return what a claim affirms and its sentence denies, if exchanged: "a dog but no cat" beside "one cat, but no dog".

    Clauses with a "not" that share a word deny the same in other words.
    """
    mine, theirs = claim.denied_words, sentence.denied_words
    if not mine or not theirs or count_negators(claim.facts.folded) != 1 or count_negators(sentence.folded) != 1:
        return None
    affirmed, affirmed_there = list_undenied_words(claim.text), list_undenied_words(sentence.text)
    denies_affirmed = all(is_form_of_any(word, affirmed_there) and not is_form_of_any(word, theirs) for word in mine)
    affirms_denied = all(is_form_of_any(word, affirmed) and not is_form_of_any(word, mine) for word in theirs)
    beside, beside_there = list_words_beside_negators(claim.text), list_words_beside_negators(sentence.text)
    is_same_denial = any(is_form_of_any(word, beside_there) for word in beside)
    # "bans scooters but not bicycles"
    is_unclear = has_unclear_negation(claim.text) or has_unclear_negation(sentence.text)
    if not denies_affirmed or not affirms_denied or is_same_denial or is_unclear:
        return None
    negator = find_negator(sentence.folded)
    start = 0 if negator is None else find_word(sentence.text, negator)[0]
    return _find_form(claim.facts, theirs[0]), (start, max(start, _find_form(sentence, theirs[0])[1]))


def _find_correction(claim: Claim, sentence: TextFacts) -> SpanPair | None:
    """Return what a claim affirms and what its sentence says instead: "nicht von den Mietern, sondern von der Firma Kessler".

    The claim shares a word with the beginning of the sentence, and has none of what the sentence says instead.
    """
    words, said = sentence.folded, claim.facts.folded
    at = next((at for at, word in enumerate(words) if word in load_words("connectives", "corrections")), 0)
    negator = next((at for at in range(at - 1, -1, -1) if is_negator_at(words, at)), None)
    is_addition = not load_words("connectives", "additions").isdisjoint(words[at + 1 : at + 2])  # "sondern auch"
    if negator is None or count_negators(said) or is_addition:
        return None
    before, replaced = sentence.list_content(0, negator), sentence.list_content(negator + 1, at)
    instead = sentence.list_content(at + 1, len(words))[:INSTEAD_WORDS]
    is_about_both = any(is_form_of_any(word, said) for word in before) and any(
        is_form_of_any(word, said) for word in replaced[-1:]
    )
    if not replaced or not instead or not is_about_both or any(is_form_of_any(word, said) for word in instead):
        return None
    return _find_form(claim.facts, replaced[-1]), (
        _find_form(sentence, instead[0])[0],
        _find_form(sentence, instead[-1])[1],
    )


def _find_form(facts: TextFacts, word: str) -> Span:
    """Return the span of the first form of a word that the text has."""
    return find_word(
        facts.text, WordNumber(next(at for at, one in enumerate(facts.folded) if is_form_of_any(word, [one])))
    )


def _is_denied(claim: Claim, sentence: TextFacts) -> bool:
    """Return whether only one of the two denies the same predicate, or whether they have opposite words."""
    mine, theirs = claim.denied_words, sentence.denied_words
    if has_same_limit(claim, sentence) or is_about_exception(claim, sentence):
        return False  # "More than eight are not allowed" beside "No more than eight are allowed"
    if _has_undenied_opposite(claim, sentence):
        return True
    if _denies_something_else(claim, sentence):
        return False
    if _is_negated_copy(claim, sentence):
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
    mine = _list_affirmed_content(claim)
    shared = sum(is_form_of_any(word, sentence.folded) for word in mine)
    return bool(mine) and shared >= SAME_BUT_FOR_NEGATION * len(mine)


def _denies_something_else(claim: Claim, sentence: TextFacts) -> bool:
    """Return whether the claim has all its words outside what the sentence denies.

    "It is not on Monday but on Tuesday" does not deny "It is on Tuesday".
    """
    if count_negators(claim.facts.folded) or count_negators(sentence.folded) != 1:
        return False
    part = find_denied_part(sentence, is_german=not claim.capitals_name)
    if _is_about_other_subject(claim, sentence, part.stop):
        return True
    affirmed = [*sentence.folded[: part.start], *sentence.folded[part.stop :]]
    keys = [key for key, word in zip(claim.keys, claim.words, strict=True) if word.is_content]  # `-v` is one of them
    adverbs = load_words("connectives", "until_now")
    denied = [word for word in sentence.list_content(part.start, part.stop) if word not in adverbs][-1:]
    has_denied = not denied or is_form_of_any(denied[0], _list_affirmed_content(claim))
    has_words = all(is_form_of_any(key, affirmed) for key in keys if not key[0].isdigit())
    return not has_denied and has_words and _has_numbers_outside(claim, sentence, part)


def _has_numbers_outside(claim: Claim, sentence: TextFacts, part: range) -> bool:
    """Return whether all numbers of a claim are outside a part of the sentence: "It cost £1,140, not £1,410"."""
    outside = [
        values for values, offset in list_numbers_with_words(sentence) if sentence.find_position(offset) not in part
    ]
    return all(any(number.values & values for values in outside) for number in claim.numbers)


def _is_about_other_subject(claim: Claim, sentence: TextFacts, end: int) -> bool:
    """Return whether a claim is about the subject after a contrast alone: "Heating is not included, but water is"."""
    at = find_negator(sentence.folded) or WordNumber(0)
    auxiliaries, said = load_words("connectives", "auxiliaries") | {MAY}, claim.facts.folded
    subject = [word for word in sentence.list_content(0, at) if word not in auxiliaries]
    ends_in_auxiliary = sentence.folded[-1] in auxiliaries
    if not subject or not ends_in_auxiliary or any(is_form_of_any(word, said) for word in subject):
        return False
    return any(is_form_of_any(word, said) for word in sentence.list_content(end, len(sentence.folded)))


def _list_affirmed_content(claim: Claim) -> list[str]:
    words = zip(claim.facts.folded, claim.facts.content, strict=True)
    return [word for word, content in words if content and not count_negators([word])]


def _remove_words(denied: Sequence[str], words: Sequence[str]) -> Sequence[str]:
    return [word for word in words if word not in denied] if denied else words


def _locate_denial(claim: Claim, sentence: TextFacts) -> tuple[Span, Span]:
    """Return where a claim and a sentence deny each other: the opposite words in both, or the negation in one of them.

    If only a short claim has a negation, the sentence has the word that the claim denies. A long one may deny something else.
    """
    mine, theirs = find_negator(claim.facts.folded), find_negator(sentence.folded)
    if mine is not None and theirs is None and len(claim.words) <= MAX_DENYING_WORDS:
        denied = [at for at, word in enumerate(sentence.folded) if is_form_of_any(word, claim.denied_words)]
        if denied:
            return find_word(claim.text, mine), find_word(sentence.text, WordNumber(denied[0]))
    if (mine is None) == (theirs is None):
        mine, theirs = _find_opposites(claim.facts.folded, sentence.folded)
    claimed = (0, len(claim.text)) if mine is None else find_word(claim.text, mine)
    return claimed, (0, len(sentence.text)) if theirs is None else find_word(sentence.text, theirs)


def _find_opposites(mine: Sequence[str], theirs: Sequence[str]) -> tuple[WordNumber | None, WordNumber | None]:
    opposites = load_negation_words().opposites
    for own, word in enumerate(mine):
        for pair, side in opposites.get(word, ()):
            for other, their_word in enumerate(theirs):
                if (pair, 1 - side) in opposites.get(their_word, ()):
                    return WordNumber(own), WordNumber(other)
    return None, None
