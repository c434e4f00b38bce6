"""Facts in which a sentence differs from the passage that it is compared with: numbers, names, denials."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby
from typing import Literal

from modules.llm_platform.domain.citations.claims import Claim, TextFacts, Word
from modules.llm_platform.domain.citations.denials import contradicts_han, leaves_open, negated_copy, opposed, says_no
from modules.llm_platform.domain.citations.numbers import NUMBER_WORDS, Reading, reading_of, values_of
from modules.llm_platform.domain.citations.words import RELATIVES, is_form_of_any, is_unspaced

Mismatch = Literal["", "added", "changed"]  # a fact that the passage has no counterpart of, or another one in its place

SMALL_COUNT = 4  # "three ways" may count what the passage lists
MIN_COPIED_WORDS = 3
MAX_REPLACING, MAX_REPLACED = 2, 5  # words of the claim, and of the sentence in their place

_HAN_SLOTS = frozenset("于在由是名叫为自至到向、和与はがをにのとで")  # behind them Chinese and Japanese put names
_HAN_NAME_ENDS = frozenset("省市县県都府道区州国岛島山河川海湖江镇町村路大学司")
_HAN_STRANGE = re.compile(r"[\u3400-\u9fff\u30a0-\u30ff]{2,}")
_ARTICLES = (
    "a an the its their his her this that these those more less all each every no about roughly nearly up down out off"
    " der die das den dem ein eine einen le la les l un une el los las una lo gli o os as um uma"
)
ARTICLES = frozenset(_ARTICLES.split())


@dataclass(frozen=True, slots=True)
class Run:
    """Content words of the claim in a row that the passage does not have, and the places of the first and the last."""

    words: tuple[Word, ...]
    first: int
    last: int


def missing_runs(claim: Claim, matched: Sequence[bool]) -> list[Run]:
    content = [place for place, word in enumerate(claim.words) if word.is_content]
    groups = (list(group) for is_there, group in groupby(content, lambda place: matched[place]) if not is_there)
    return [Run(tuple(claim.words[place] for place in group), group[0], group[-1]) for group in groups]


def number_mismatch(
    claim: Claim, whole: TextFacts, stands_near: Callable[[int], bool], added: Container[int]
) -> Mismatch:
    """Whether a number of the claim stands for another one, or where the passage has none at all.

    `stands_near` tells of a place in the claim's text whether the source has the number near the passage. Numbers at the
    places `added` belong to statements that were added, and are not looked at.
    """
    found: Mismatch = ""
    for reading, at, spelled in claim.numbers:
        if bisect_right(claim.ats, at) - 1 in added or any(reading & known for known in whole.numbers):
            continue
        if not spelled and stands_near(at):
            continue
        if spelled and 1 <= float(min(reading)) <= SMALL_COUNT:
            if whole.counts(_noun_behind(claim, at)):
                return "changed"
        elif whole.numbers:
            return "changed"
        else:
            found = "added"
    return found


def _noun_behind(claim: Claim, at: int) -> str | None:
    behind = (word.key for word, its in zip(claim.words, claim.ats, strict=True) if its > at and word.is_content)
    return next(behind, None)


def name_mismatch(run: Run, claim: Claim, whole: TextFacts, sentence: TextFacts) -> Mismatch:
    """Whether what the passage lacks here is a name or an identifier; changed where the passage has one of its own.

    `sentence` is the one of the passage that says most.
    """
    if is_unspaced(run.words[0].key):
        return "changed" if _han_name_changed(run, claim, whole) else ""
    if any(word.is_identifier for word in run.words):
        return "changed"
    if any(word.is_name for word in run.words):
        return "changed" if any(own_names(claim, sentence)) else "added"
    return ""


def own_names(claim: Claim, facts: TextFacts) -> Iterator[int]:
    """Where a text has capitalised words that the claim lacks, but for a single one at its beginning."""
    words, folded = facts.words, facts.folded
    opens_with_names = len(words) > 1 and words[1][0].isupper()
    for place, content in enumerate(facts.content):
        if content and (place or opens_with_names) and is_other_name(words[place], folded[place], claim.keys):
            yield place


def is_other_name(written: str, folded: str, keys: Sequence[str]) -> bool:
    return written[0].isupper() and not is_form_of_any(folded, keys)


def replaces_a_name(claim: Claim, place: int, facts: TextFacts) -> bool:
    """Whether a capitalised word of the claim stands beside the same word as another name does in the source."""
    if not place and not claim.capitals_name:
        return False  # in German the first word may be anything
    keys, folded = claim.keys, facts.folded
    before, after = keys[max(0, place - 1) : place], keys[place + 1 : place + 2]
    beside = [(at + 1, at + 1) for at, word in enumerate(folded[:-1]) if word in before and word not in ARTICLES]
    beside += [(at - 1, at) for at, word in enumerate(folded) if at and word in after and word not in ARTICLES]
    return any(
        facts.content[name]
        and later not in facts.sentence_starts
        and is_other_name(facts.words[name], folded[name], keys)
        for name, later in beside
    )


def _han_name_changed(run: Run, claim: Claim, whole: TextFacts) -> bool:
    """Whether two or more characters that the passage lacks stand where Chinese and Japanese put names."""
    start, end = claim.ats[run.first], claim.ats[run.last] + 2
    strange = "".join(
        sign if sign not in whole.text and sign not in _HAN_SLOTS else " " for sign in claim.text[start:end]
    )
    return any(
        claim.text[start + found.start() - 1 : start + found.start()] in _HAN_SLOTS
        or not _HAN_NAME_ENDS.isdisjoint(claim.text[start + found.end() - 1 : start + found.end() + 1])
        for found in _HAN_STRANGE.finditer(strange)
    )


def replaced_word(claim: Claim, sentence: TextFacts) -> bool:
    """Whether the claim copies a sentence but for a word in the place of another, or two words in each other's place."""
    mine, theirs = claim.facts.folded, sentence.folded
    if len(set(mine).difference(theirs)) > MAX_REPLACING or mine == theirs:
        return False
    copied, replaced = 0, list[tuple[list[str], list[str]]]()
    for kind, start, end, first, last in SequenceMatcher(None, mine, theirs, autojunk=False).get_opcodes():
        if kind == "equal":
            copied += end - start
        elif kind == "delete" or (kind == "replace" and (end - start > MAX_REPLACING or last - first > MAX_REPLACED)):
            return False
        elif kind == "replace":
            own = [mine[at] for at in range(start, end) if claim.facts.content[at]]
            other = [theirs[at] for at in range(first, last) if sentence.content[at]]
            replaced.append((own, other))
    return copied >= MIN_COPIED_WORDS and any(
        _is_another(own, other, mine) or _change_places(own, other, replaced) for own, other in replaced
    )


def _is_another(mine: Sequence[str], theirs: Sequence[str], words: Sequence[str]) -> bool:
    """Whether no word is another writing of one in its place, nor any of those a form of one of the claim's `words`."""
    if not mine or not theirs or any(is_form_of_any(word, words) for word in theirs):
        return False
    return not any(_says_the_same(own, other) for own in mine for other in theirs)


def _says_the_same(one: str, other: str) -> bool:
    if other in RELATIVES.get(one, ()) or one.removesuffix("s") == other.removesuffix("s"):
        return True
    return any(reading & known for reading in _values_of(one) for known in _values_of(other))


def _values_of(word: str) -> Sequence[Reading]:
    return (reading_of(NUMBER_WORDS[word]),) if word in NUMBER_WORDS else values_of(word)


def _change_places(mine: list[str], theirs: list[str], replaced: Sequence[tuple[list[str], list[str]]]) -> bool:
    return bool(mine) and any(set(mine) <= set(other) and set(own) <= set(theirs) and own for own, other in replaced)


def acts_for_another(claim: Claim, facts: TextFacts) -> bool:
    """Whether the two words behind a name of the claim stand in the source behind another name, and never behind this one."""
    if not claim.capitals_name:
        return False
    folded = facts.folded
    for name, word in enumerate(claim.words[:-2]):
        predicate = claim.keys[name + 1 : name + 3]
        if not (word.is_content and word.written[0].isupper()) or predicate[0] not in folded:
            continue
        if not any(word.is_content and not word.is_name for word in claim.words[name + 1 : name + 3]):
            continue
        actors = [
            at - 1
            for at in range(1, len(folded) - 1)
            if folded[at : at + 2] == predicate and facts.sentence_starts.isdisjoint((at - 1, at))
        ]
        if actors and all(is_other_name(facts.words[at], folded[at], claim.keys) for at in actors):
            return True
    return False


def contradicts(claim: Claim, sentence: TextFacts) -> bool:
    """Whether only one of the two says "not" of a word, or they say a word and its opposite."""
    mine, theirs = claim.denied_words, sentence.denied_words
    if opposed(_without(mine, claim.keys), _without(theirs, sentence.folded)):
        return True
    if negated_copy(claim.facts.folded, sentence.folded):
        return True
    said = claim.undenied_words if mine else () if says_no(claim.keys) else claim.keys
    if any(is_form_of_any(word, said) and not is_form_of_any(word, mine) for word in theirs):
        return True
    plain = mine and not leaves_open(sentence.folded)
    if plain and any(is_form_of_any(word, sentence.undenied_words) for word in mine):
        return True
    return not claim.text.isascii() and contradicts_han(claim.text, sentence.text)


def _without(denied: Sequence[str], words: Sequence[str]) -> Sequence[str]:
    return [word for word in words if word not in denied] if denied else words
