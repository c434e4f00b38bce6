"""Facts in which a sentence differs from the source it cites: numbers, names, replaced words, negations."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby
from typing import Final, Literal

from modules.llm_platform.domain.citations.claims import Claim, TextFacts, Word, is_unspaced, unspaced_function_signs
from modules.llm_platform.domain.text.data_files import load_words
from modules.llm_platform.domain.text.negation import (
    contradicts_unspaced,
    count_negators,
    has_ambiguous_negation,
    has_negation,
    has_opposite,
    negation_words,
)
from modules.llm_platform.domain.text.stemming import is_form_of_any

Mismatch = Literal["", "added", "changed"]  # a fact without a counterpart in the passage, or with another one

MAX_LISTED_COUNT: Final = 4  # "three ways" may count what the passage lists
MIN_COPIED_WORDS: Final = 3  # of a sentence in which a word was replaced
MAX_REPLACING_WORDS: Final = 2  # of the claim
MAX_REPLACED_WORDS: Final = 5  # of the source, in their place
MIN_COPIED_SHARE: Final = 0.5  # of the characters of a sentence without blanks
MIN_REPLACING_CHARS, MAX_REPLACING_CHARS = 2, 4  # of a word or name in a script without blanks
PREDICATE_WORDS: Final = 2  # beside a name
SAME_STATEMENT: Final = 0.9  # of a claim's content words that a sentence has which only a negation sets apart


@dataclass(frozen=True, slots=True)
class MissingRun:
    """Adjacent content words of the claim that the passage lacks, and the places of the first and the last."""

    words: tuple[Word, ...]
    first: int
    last: int


def missing_runs(claim: Claim, matched: Sequence[bool]) -> list[MissingRun]:
    content = [place for place, word in enumerate(claim.words) if word.is_content]
    groups = (list(group) for is_present, group in groupby(content, lambda place: matched[place]) if not is_present)
    return [MissingRun(tuple(claim.words[place] for place in group), group[0], group[-1]) for group in groups]


def number_mismatch(
    claim: Claim, passage: TextFacts, is_near: Callable[[int], bool], added: Container[int]
) -> Mismatch:
    """Whether a number of the claim replaces one of the passage, or the passage has none at all.

    `is_near` tells for an offset in the claim whether the source has that number near the passage. Numbers at the places
    `added` belong to added statements and are skipped.
    """
    found: Mismatch = ""
    for reading, at, spelled in claim.numbers:
        if bisect_right(claim.ats, at) - 1 in added or any(reading & known for known in passage.numbers):
            continue
        if not spelled and is_near(at):
            continue
        if spelled and 1 <= float(min(reading)) <= MAX_LISTED_COUNT:
            if passage.counts(_noun_behind(claim, at)):
                return "changed"
        elif passage.numbers:
            return "changed"
        else:
            found = "added"
    return found


def _noun_behind(claim: Claim, at: int) -> str | None:
    behind = (word.key for word, its in zip(claim.words, claim.ats, strict=True) if its > at and word.is_content)
    return next(behind, None)


def name_mismatch(run: MissingRun, claim: Claim, sentence: TextFacts) -> Mismatch:
    """Whether a missing run holds a name or an identifier; changed where the best sentence has a name of its own."""
    if is_unspaced(run.words[0].key):
        return ""
    if any(word.is_identifier for word in run.words):
        return "changed"
    if any(word.is_name for word in run.words):
        return "changed" if _has_other_name(claim, sentence) else "added"
    return ""


def _has_other_name(claim: Claim, facts: TextFacts) -> bool:
    """Whether a text has capitalised words that the claim lacks; a single one at its beginning does not count."""
    words, folded = facts.words, facts.folded
    opens_with_names = len(words) > 1 and words[1][0].isupper()
    return any(
        content and (place or opens_with_names) and _is_other_name(words[place], folded[place], claim.keys)
        for place, content in enumerate(facts.content)
    )


def _is_other_name(written: str, folded: str, keys: Sequence[str]) -> bool:
    return written[0].isupper() and not is_form_of_any(folded, keys)


def is_name_replaced(claim: Claim, place: int, facts: TextFacts) -> bool:
    """Whether the source has another name beside the word that stands beside the claim's name at `place`."""
    if not place and not claim.capitals_name:
        return False  # a German sentence may begin with any word
    keys, folded, articles = claim.keys, facts.folded, load_words("connectives", "articles")
    before, after = keys[max(0, place - 1) : place], keys[place + 1 : place + 2]
    beside = [(at + 1, at + 1) for at, word in enumerate(folded[:-1]) if word in before and word not in articles]
    beside += [(at - 1, at) for at, word in enumerate(folded) if at and word in after and word not in articles]
    return any(
        facts.content[name]
        and later not in facts.sentence_starts
        and _is_other_name(facts.words[name], folded[name], keys)
        for name, later in beside
    )


def is_predicate_of_other_name(claim: Claim, facts: TextFacts) -> bool:
    """Whether the two words behind or before a name of the claim stand in the source beside other names only."""
    if not claim.capitals_name:
        return False
    for place, word in enumerate(claim.words):
        if not word.is_content or not word.written[0].isupper():
            continue
        for first, offset in ((place + 1, -1), (place - PREDICATE_WORDS, PREDICATE_WORDS)):
            predicate = claim.words[max(0, first) : first + PREDICATE_WORDS]
            if len(predicate) == PREDICATE_WORDS and any(each.is_content and not each.is_name for each in predicate):
                names = _names_beside([each.key for each in predicate], offset, facts)
                if names and all(_is_other_name(facts.words[at], facts.folded[at], claim.keys) for at in names):
                    return True
    return False


def _names_beside(predicate: Sequence[str], offset: int, facts: TextFacts) -> list[int]:
    """The places of the words at `offset` from each occurrence of the predicate in the same sentence."""
    folded = facts.folded
    if predicate[0] not in folded:
        return []
    starts = [at for at in range(len(folded) - 1) if folded[at : at + PREDICATE_WORDS] == predicate]
    found = [(at + offset, max(at, at + offset)) for at in starts if 0 <= at + offset < len(folded)]
    return [name for name, later in found if facts.sentence_starts.isdisjoint((later - 1, later))]


def is_word_replaced(claim: Claim, sentence: TextFacts) -> bool:
    """Whether the claim copies a sentence but for one or two words that stand in the place of others."""
    mine, theirs = claim.facts.folded, sentence.folded
    if len(set(mine).difference(theirs)) > MAX_REPLACING_WORDS or mine == theirs:
        return False
    copied, replaced = 0, list[tuple[list[str], list[str]]]()
    for kind, start, end, first, last in SequenceMatcher(None, mine, theirs, autojunk=False).get_opcodes():
        if kind == "equal":
            copied += end - start
        elif kind == "delete" or (
            kind == "replace" and (end - start > MAX_REPLACING_WORDS or last - first > MAX_REPLACED_WORDS)
        ):
            return False
        elif kind == "replace":
            own = [mine[at] for at in range(start, end) if claim.facts.content[at]]
            other = [theirs[at] for at in range(first, last) if sentence.content[at]]
            replaced.append((own, other))
    return copied >= MIN_COPIED_WORDS and any(
        _is_other_word(own, other, mine) or _is_swapped(own, other, replaced) for own, other in replaced
    )


def _is_swapped(mine: list[str], theirs: list[str], replaced: Sequence[tuple[list[str], list[str]]]) -> bool:
    return bool(mine) and any(own and set(mine) <= set(other) and set(own) <= set(theirs) for own, other in replaced)


def is_run_replaced(claim: Claim, sentence: TextFacts) -> bool:
    """The same for a script without blanks: a copy but for a few characters in the place of others."""
    mine, theirs = claim.text, sentence.text
    if mine.isascii() or not any(is_unspaced(word.key) for word in claim.words):
        return False
    changes = SequenceMatcher(None, mine, theirs, autojunk=False).get_opcodes()
    copied = sum(end - start for kind, start, end, _, _ in changes if kind == "equal")
    return copied >= MIN_COPIED_SHARE * len(mine) and any(
        kind == "replace"
        and last - first >= MIN_REPLACING_CHARS <= end - start <= MAX_REPLACING_CHARS
        and is_unspaced(mine[start:end])
        and unspaced_function_signs().union(theirs).isdisjoint(mine[start:end])
        for kind, start, end, first, last in changes
    )


def _is_other_word(mine: Sequence[str], theirs: Sequence[str], words: Sequence[str]) -> bool:
    """Whether both have words here, and none of `theirs` is in the claim's `words`."""
    return bool(mine and theirs) and not any(is_form_of_any(word, words) for word in theirs)


def is_contradicted(claim: Claim, sentence: TextFacts) -> bool:
    """Whether only one of the two denies a word or the whole statement, or they have a word and its opposite."""
    mine, theirs = claim.denied_words, sentence.denied_words
    if has_opposite(_without(mine, claim.keys), _without(theirs, sentence.folded)):
        return True
    if _is_negated_copy(claim, sentence):
        return True
    affirmed = claim.undenied_words if mine else () if has_negation(claim.keys) else claim.keys
    if any(is_form_of_any(word, affirmed) and not is_form_of_any(word, mine) for word in theirs):
        return True
    is_clear = mine and not has_ambiguous_negation(sentence.folded)
    if is_clear and any(is_form_of_any(word, sentence.undenied_words) for word in mine):
        return True
    return not claim.text.isascii() and contradicts_unspaced(claim.text, sentence.text)


def _is_negated_copy(claim: Claim, sentence: TextFacts) -> bool:
    """Whether the sentence has nearly all content words of the claim, and one negator more or less."""
    if count_negators(claim.facts.folded) % 2 == count_negators(sentence.folded) % 2:
        return False
    negators = negation_words().negators
    mine = [
        word
        for word, content in zip(claim.facts.folded, claim.facts.content, strict=True)
        if content and word not in negators
    ]
    shared = sum(is_form_of_any(word, sentence.folded) for word in mine)
    return bool(mine) and shared >= SAME_STATEMENT * len(mine)


def _without(denied: Sequence[str], words: Sequence[str]) -> Sequence[str]:
    return [word for word in words if word not in denied] if denied else words


# Each compares the claim with each sentence of the passage. One that returns True refutes a claim of the same subject.
RULES: Final = (is_contradicted, is_word_replaced, is_run_replaced, is_predicate_of_other_name)
