"""Find words that a claim replaces in the sentence that it copies.

"The north gate was closed in May" copies "The south gate was closed in May" and replaces `south` by `north`. A number in another
writing is not a replacement: `21` for `twenty-one`.
"""

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Final

from modules.llm_platform.domain.citations.compare.comparison import Comparison
from modules.llm_platform.domain.citations.compare.mismatches import Mismatch, find_words
from modules.llm_platform.domain.citations.read.amounts import MONEY
from modules.llm_platform.domain.citations.read.claims import Claim, TextFacts
from modules.llm_platform.domain.citations.read.words import is_unspaced, list_unspaced_function_signs
from modules.llm_platform.domain.text.numbers import PERCENT, is_same_number
from modules.llm_platform.domain.text.positions import WordNumber
from modules.llm_platform.domain.text.stemming import is_form_of_any, is_related, normalize_unit

# A claim is a copy with replaced words if it shares at least MIN_COPIED_WORDS with a sentence, and if at most
# MAX_REPLACING_WORDS of the claim replace at most MAX_REPLACED_WORDS of the sentence.
MIN_COPIED_WORDS: Final = 3
MAX_REPLACING_WORDS: Final = 2
MAX_REPLACED_WORDS: Final = 5
# In scripts without spaces, characters are compared: a share of the claim, and the length of a word or name.
MIN_COPIED_SHARE: Final = 0.5
MIN_REPLACING_CHARS, MAX_REPLACING_CHARS = 2, 4

Replaced = tuple[list[str], list[str]]  # content words of the claim, and the words of the source that they replace


def find_replacement(compared: Comparison) -> Mismatch | None:
    """Return the first replaced words of a claim that otherwise copies a sentence; None if it is not such a copy."""
    for sentence in compared.passage.sentences:
        facts = compared.read_facts(sentence)
        for mine, theirs in find_replaced_words(compared.claim, facts):
            if _may_stand_for(theirs, mine):
                found = compared.locate(sentence, find_words(facts.text, theirs))
                return Mismatch("other", find_words(compared.claim.text, mine), found)
    return None


def is_word_replaced(compared: Comparison) -> bool:
    """Return whether the claim copies a sentence of the passage, with a word or two replaced."""
    claim, passage = compared.claim, compared.passage
    for sentence in passage.sentences:
        missing = (claim.content & ~passage.masks[sentence]).bit_count()
        if missing <= MAX_REPLACING_WORDS and find_replaced_words(claim, compared.read_facts(sentence)):
            return True
    best = map(compared.read_facts, passage.sentences)
    return not claim.text.isascii() and any(_is_run_replaced(claim, facts) for facts in best)


def find_replaced_words(claim: Claim, sentence: TextFacts) -> list[Replaced]:
    """Return the words, as written, that a claim replaces in the sentence that it copies; empty if it copies none."""
    mine, theirs = claim.facts.folded, sentence.folded
    if len(set(mine).difference(theirs)) > MAX_REPLACING_WORDS or mine == theirs:
        return []
    copied, replaced = 0, list[Replaced]()
    for kind, start, end, first, last in SequenceMatcher(None, mine, theirs, autojunk=False).get_opcodes():
        if kind == "equal":
            copied += end - start
        elif kind == "delete" or (
            kind == "replace" and (end - start > MAX_REPLACING_WORDS or last - first > MAX_REPLACED_WORDS)
        ):
            return []
        elif kind == "replace" and not is_same_number(
            _list_quantity(claim.facts, WordNumber(start), WordNumber(end)),
            _list_quantity(sentence, WordNumber(first), WordNumber(last)),
        ):
            own = [claim.facts.words[at] for at in range(start, end) if claim.facts.content[at]]
            other = [sentence.words[at] for at in range(first, last) if sentence.content[at]]
            replaced.append((own, other))
    if copied < MIN_COPIED_WORDS:
        return []
    return [pair for pair in replaced if _is_other_word(*pair, mine) or _is_swapped(*pair, replaced)]


def _list_quantity(facts: TextFacts, start: WordNumber, end: WordNumber) -> list[str]:
    """Return these words, and the percent sign if one follows the last word."""
    words = facts.words[start:end]
    is_percentage = PERCENT in facts.text and re.search(rf"(?<!\w){re.escape(words[-1])}\s?{PERCENT}", facts.text)
    return [*words, PERCENT] if is_percentage else words


def _is_other_word(mine: Sequence[str], theirs: Sequence[str], words: Sequence[str]) -> bool:
    """Return whether both have words, and none of `theirs` is a form of one of the claim's `words`."""
    own, other = [word.casefold() for word in mine], [word.casefold() for word in theirs]
    return bool(own and other) and not any(is_form_of_any(word, words) or is_related(word, own) for word in other)


def _may_stand_for(theirs: Sequence[str], mine: Sequence[str]) -> bool:
    """Return whether a reader sees a counterpart: a number or a currency for "pounds", and not "filling"."""
    return not _names_currency(mine) or _names_currency(theirs) or not any(map(str.isalpha, theirs))


def _names_currency(words: Sequence[str]) -> bool:
    return any(normalize_unit(word.casefold()) in MONEY for word in words)


def _is_swapped(mine: list[str], theirs: list[str], replaced: Sequence[Replaced]) -> bool:
    return bool(mine) and any(own and set(mine) <= set(other) and set(own) <= set(theirs) for own, other in replaced)


def _is_run_replaced(claim: Claim, sentence: TextFacts) -> bool:
    """Return whether a claim in a script without spaces copies the sentence, with a few characters replaced."""
    mine, theirs = claim.text, sentence.text
    if not any(is_unspaced(word.key) for word in claim.words):
        return False
    changes = SequenceMatcher(None, mine, theirs, autojunk=False).get_opcodes()
    copied = sum(end - start for kind, start, end, _, _ in changes if kind == "equal")
    return copied >= MIN_COPIED_SHARE * len(mine) and any(
        kind == "replace"
        and last - first >= MIN_REPLACING_CHARS <= end - start <= MAX_REPLACING_CHARS
        and is_unspaced(mine[start:end])
        and list_unspaced_function_signs().union(theirs).isdisjoint(mine[start:end])
        for kind, start, end, first, last in changes
    )
