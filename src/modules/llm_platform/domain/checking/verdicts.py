"""How far a passage bears out a sentence: how much of it is there, and whether a fact of it was changed.

A sentence is refuted by one wrong number, name, identifier, date or "not", however much else agrees. It is partly
supported where a whole clause has nothing in the passage. Scattered other words are only another way to say it.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass

from modules.llm_platform.domain.checking.changed_facts import contradicts, odd_number
from modules.llm_platform.domain.checking.changed_names import has_changed_places, odd_name, sets_another_name
from modules.llm_platform.domain.checking.claims import Claim, Word
from modules.llm_platform.domain.checking.dates import contradicting_date
from modules.llm_platform.domain.checking.denial import NEGATORS, OPENERS
from modules.llm_platform.domain.checking.evidence import Passage, SourceText
from modules.llm_platform.domain.checking.gaps import added_places, bears_out_a_clause, cover_of, runs_of
from modules.llm_platform.domain.checking.numbers import NUMBER_WORDS, values_of
from modules.llm_platform.domain.checking.places import FactPlaces
from modules.llm_platform.domain.checking.text_facts import TextFacts
from modules.llm_platform.domain.checking.words import squash
from modules.llm_platform.domain.dtos.research_dtos import Verdict

SUPPORTED_COVER = 0.45  # of the weight of the claim's content words
PARTIAL_COVER = 0.3
SAME_MATTER_COVER = 0.5  # below it a differing "not" or an opposite is about something else
REFUTED_SCORE = 0.4  # times the cover: what is left of the score when a fact differs
PARTIAL_SCORE = 0.75
MIN_TOLD_WORDS = 4  # behind a colon, to be a statement by themselves
MAX_DENIAL_CHARS = 40  # of what stands before or behind a copied sentence


@dataclass(frozen=True, slots=True)
class Judgement:
    """`score` is 0..1; comparable only within one verdict."""

    verdict: Verdict
    score: float


def is_verbatim(claim: Claim, source: SourceText) -> bool:
    """Whether the words of the claim stand in the source one after the other, and no "not" right before or behind them."""
    if claim.squashed == "  ":
        return False
    if _is_copied(claim.squashed, source):
        return True
    lead, colon, told = claim.text.partition(": ")  # a heading, or what introduces a list, and a sentence below it
    if not colon or len(told.split()) < MIN_TOLD_WORDS or not _is_copied(squash(told), source):
        return False
    return squash(lead) in source.squashed_title or _is_copied(squash(lead), source)


def _is_copied(words: str, source: SourceText) -> bool:
    return _stands_in(words, source.squashed) or _stands_in(words, source.squashed_in_one)


def _stands_in(words: str, text: str) -> bool:
    at = text.find(words)
    while at >= 0:
        before = text[max(0, at - MAX_DENIAL_CHARS) : at].rpartition("|")[2].split()
        behind = text[at + len(words) : at + len(words) + MAX_DENIAL_CHARS].partition(" ")[0]
        doubted = not NEGATORS.isdisjoint(before) and not OPENERS.isdisjoint(before)  # "no evidence that"
        if NEGATORS.isdisjoint([*before[-1:], behind]) and not doubted:
            return True
        at = text.find(words, at + 1)
    return False


def judge(
    claim: Claim, source: SourceText, passage: Passage, whole: TextFacts, facts_of: Callable[[int], TextFacts]
) -> Judgement:
    """The verdict on a sentence and the best passage of one source.

    `whole` are the facts of the passage, `facts_of` gives those of a sentence of the source by its number.
    """
    parts = [facts_of(sentence) for sentence in passage.sentences]
    places = FactPlaces(claim, source, passage, facts_of)
    matched = [
        bool(passage.matched >> place & 1)
        or (word.is_content and (_said_elsewhere(word, source) or _is_known_number(word, whole)))
        for place, word in enumerate(claim.words)
    ]
    cover = cover_of(claim, matched, range(len(matched)))
    if cover < PARTIAL_COVER and not bears_out_a_clause(claim, matched):
        return Judgement("unsupported", round(cover, 2))
    added = added_places(claim, matched)
    runs = [run for run in runs_of(claim, matched) if run.first not in added and run.last not in added]
    odd = {odd_name(run, claim, whole, parts[0]) for run in runs} | {odd_number(claim, places, whole, added)}
    if cover >= PARTIAL_COVER and (
        "changed" in odd
        or places.any_changed(added)
        or sets_another_name(claim, whole)
        or (
            cover >= SAME_MATTER_COVER
            and any(contradicts(claim, part) or has_changed_places(claim, part) for part in parts)
        )
        or contradicting_date(_without_places(claim.keys, added), whole.dated)
    ):
        return Judgement("unsupported", round(REFUTED_SCORE * cover, 2))
    if added or "added" in odd or cover < SUPPORTED_COVER:
        return Judgement("partial", round(PARTIAL_SCORE * cover, 2))
    return Judgement("supported", round(cover, 2))


def _without_places(words: Sequence[str], places: Container[int]) -> list[str]:
    return [word for place, word in enumerate(words) if place not in places]


def _said_elsewhere(word: Word, source: SourceText) -> bool:
    """A name that the source has in another place: the passage may say "it" or "the company"."""
    return (word.is_identifier or word.written[0].isupper()) and source.knows(word.key, word.written)


def _is_known_number(word: Word, whole: TextFacts) -> bool:
    """A number that the passage writes in another way."""
    if word.key[0].isdigit():
        return any(reading & known for reading in values_of(word.key) for known in whole.numbers)
    return word.key in NUMBER_WORDS and any(NUMBER_WORDS[word.key] in known for known in whole.numbers)
