"""How far a passage bears out a sentence: how much of it is there, and whether a fact of it was changed.

A sentence is refuted by one wrong number, name, identifier, date or "not", however much else agrees. It is partly
supported where a whole clause has nothing in the passage. Scattered other words are only another way to say it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from modules.llm_platform.domain.citations.alignment import Passage, SourceText
from modules.llm_platform.domain.citations.claims import Claim, TextFacts, Word
from modules.llm_platform.domain.citations.denials import NEGATORS, OPENERS
from modules.llm_platform.domain.citations.mismatches import (
    Run,
    acts_for_another,
    contradicts,
    missing_runs,
    name_mismatch,
    number_mismatch,
    replaced_word,
)
from modules.llm_platform.domain.citations.numbers import NUMBER_WORDS, other_date, values_of
from modules.llm_platform.domain.citations.placement import FactPlacement
from modules.llm_platform.domain.citations.words import is_unspaced, squash
from modules.llm_platform.domain.dtos.research_dtos import Verdict

SUPPORTED_COVER = 0.4  # of the weight of the claim's content words
PARTIAL_COVER = 0.3
SAME_MATTER_COVER = 0.5  # below it a differing "not" or an opposite is about something else
REFUTED_SCORE = 0.4  # times the cover: what is left of the score when a fact differs
PARTIAL_SCORE = 0.75
LONG_RUN = 4  # content words in a row that the passage does not have: something was added
MIN_UNKNOWN_WORDS = 2  # in a clause that says something of its own
ADDED_COVER = 0.25  # of a clause that the passage knows nothing of
BORNE_OUT_COVER = 0.5  # of the clause that it was added to
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


def judge_sentence(
    claim: Claim, source: SourceText, passage: Passage, whole: TextFacts, facts_of: Callable[[int], TextFacts]
) -> Judgement:
    """The verdict on a sentence and the best passage of one source.

    `whole` are the facts of the passage, `facts_of` gives those of a sentence of the source by its number.
    """
    matched = [bool(passage.matched >> place & 1) for place in range(len(claim.words))]
    for place, word in enumerate(claim.words):
        if word.is_content and not matched[place]:
            matched[place] = _said_elsewhere(word, source) or _is_known_number(word, whole)
    cover = _cover_of(claim, matched, range(len(matched)))
    if cover < PARTIAL_COVER:
        return Judgement("unsupported", round(cover, 2))
    runs = missing_runs(claim, matched)
    added = _added_places(claim, matched, runs)
    sentences = [facts_of(sentence) for sentence in passage.sentences]
    placement = FactPlacement(claim, source, passage, facts_of)
    mismatches = {number_mismatch(claim, whole, placement.has_number_near, added)}
    for run in runs:
        if run.first not in added and run.last not in added:
            mismatches.add(name_mismatch(run, claim, whole, sentences[0]))
    said = [word for place, word in enumerate(claim.keys) if place not in added]
    if (
        "changed" in mismatches
        or other_date(said, whole.dated)
        or placement.any_changed(added)
        or (
            cover >= SAME_MATTER_COVER
            and any(rule(claim, part) for rule in (contradicts, replaced_word, acts_for_another) for part in sentences)
        )
    ):
        return Judgement("unsupported", round(REFUTED_SCORE * cover, 2))
    if added or "added" in mismatches or cover < SUPPORTED_COVER:
        return Judgement("partial", round(PARTIAL_SCORE * cover, 2))
    return Judgement("supported", round(cover, 2))


def _cover_of(claim: Claim, matched: Sequence[bool], places: range) -> float:
    """The share of the weight of these words that the passage has."""
    total = sum(claim.weights[place] for place in places)
    return sum(claim.weights[place] for place in places if matched[place]) / total if total else 0.0


def _added_places(claim: Claim, matched: Sequence[bool], runs: Sequence[Run]) -> set[int]:
    """The places of whole statements that the passage knows nothing of: clauses, and long runs of words.

    In a sentence without a clause that is borne out, nothing was added to anything.
    """
    added = {place for run in runs if _is_long(run) for place in range(run.first, run.last + 1)}
    covers = [_cover_of(claim, matched, clause) for clause in claim.clauses]
    if len(covers) > 1 and max(covers) >= BORNE_OUT_COVER:
        for clause, cover in zip(claim.clauses, covers, strict=True):
            unknown = [claim.words[at] for at in clause if claim.words[at].is_content and not matched[at]]
            if cover <= ADDED_COVER and _says_something(unknown):
                added.update(clause)
    return added


def _is_long(run: Run) -> bool:
    """Whether the run is a statement of its own rather than a changed fact or another wording."""
    return len(run.words) >= LONG_RUN and not is_unspaced(run.words[0].key) and _says_something(run.words)


def _says_something(words: Sequence[Word]) -> bool:
    """Whether words make a statement, and not just a name or one hyphenated word."""
    return len(words) >= MIN_UNKNOWN_WORDS and not all(
        word.is_name or word.is_identifier or word.is_part for word in words
    )


def _said_elsewhere(word: Word, source: SourceText) -> bool:
    """A name that the source has in another place: the passage may say "it" or "the company"."""
    return (word.is_identifier or word.written[0].isupper()) and source.knows(word.key, word.written)


def _is_known_number(word: Word, whole: TextFacts) -> bool:
    """A number that the passage writes in another way."""
    if word.key[0].isdigit():
        return any(reading & known for reading in values_of(word.key) for known in whole.numbers)
    return word.key in NUMBER_WORDS and any(NUMBER_WORDS[word.key] in known for known in whole.numbers)
