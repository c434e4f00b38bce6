"""The verdict on a sentence and a passage: how much of the sentence the passage has, and whether a fact was changed.

One wrong number, name, identifier, date or negation refutes a sentence, however much else agrees. A clause without any
counterpart makes it partly supported. Scattered other words are only another wording.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Final

from modules.llm_platform.domain.citations.alignment import Passage, SourceText
from modules.llm_platform.domain.citations.claims import Claim, TextFacts, Word, is_unspaced
from modules.llm_platform.domain.citations.mismatches import (
    RULES,
    MissingRun,
    missing_runs,
    name_mismatch,
    number_mismatch,
)
from modules.llm_platform.domain.citations.placement import FactPlacement
from modules.llm_platform.domain.dtos.research_dtos import Verdict
from modules.llm_platform.domain.text.negation import is_denied_at
from modules.llm_platform.domain.text.numbers import has_other_date, number_words, values_of
from modules.llm_platform.domain.text.tokens import normalize

SUPPORTED_COVER: Final = 0.4  # of the weight of the claim's content words
PARTIAL_COVER: Final = 0.3
SAME_SUBJECT_COVER: Final = 0.5  # below it a differing word or negation belongs to another statement
REFUTED_SCORE: Final = 0.4  # times the cover: the score where a fact differs
PARTIAL_SCORE: Final = 0.75
LONG_RUN: Final = 4  # adjacent content words without a counterpart that make an added statement
MIN_UNKNOWN_WORDS: Final = 2  # in an added clause
ADDED_COVER: Final = 0.25  # at most, of an added clause
KNOWN_COVER: Final = 0.5  # at least, of the clause that it was added to
MIN_WORDS_AFTER_COLON: Final = 4  # of a statement of its own
DENIAL_REACH_CHARS: Final = 40  # before and behind a copied sentence


@dataclass(frozen=True, slots=True)
class Judgement:
    """`score` is 0..1; comparable only within one verdict."""

    verdict: Verdict
    score: float


def is_verbatim(claim: Claim, source: SourceText) -> bool:
    """Whether the source has the words of the claim in the same order, and does not deny them right before or behind."""
    if claim.normalized == "  ":
        return False
    if _is_copied(claim.normalized, source):
        return True
    lead, colon, statement = claim.text.partition(": ")  # a heading or a lead-in, and a sentence below it
    if not colon or len(statement.split()) < MIN_WORDS_AFTER_COLON or not _is_copied(normalize(statement), source):
        return False
    return normalize(lead) in source.normalized_title or _is_copied(normalize(lead), source)


def _is_copied(words: str, source: SourceText) -> bool:
    return _occurs_undenied(words, source.normalized) or _occurs_undenied(words, source.normalized_without_bars)


def _occurs_undenied(words: str, text: str) -> bool:
    at = text.find(words)
    while at >= 0:
        end = at + len(words)
        before = text[max(0, at - DENIAL_REACH_CHARS) : at].rpartition("|")[2].split()
        if not is_denied_at(before, text[end : end + DENIAL_REACH_CHARS].split(" ", 1)):
            return True
        at = text.find(words, at + 1)
    return False


def judge_sentence(
    claim: Claim, source: SourceText, passage: Passage, facts: TextFacts, facts_of: Callable[[int], TextFacts]
) -> Judgement:
    """The verdict on a sentence and the best passage of one source.

    `facts` are those of the passage, `facts_of` returns those of a sentence of the source by its number.
    """
    matched = _matched_words(claim, source, passage, facts)
    cover = _cover_of(claim, matched, range(len(matched)))
    if cover < PARTIAL_COVER:
        return Judgement("unsupported", round(cover, 2))
    runs = missing_runs(claim, matched)
    added = _added_places(claim, matched, runs)
    sentences = [facts_of(sentence) for sentence in passage.sentences]
    placement = FactPlacement(claim, source, passage, facts_of)
    mismatches = {number_mismatch(claim, facts, placement.has_number_near, added)}
    for run in runs:
        if run.first not in added and run.last not in added:
            mismatches.add(name_mismatch(run, claim, sentences[0]))
    remaining = [key for place, key in enumerate(claim.keys) if place not in added]
    if (
        "changed" in mismatches
        or has_other_date(remaining, facts.dated)
        or placement.is_any_changed(added)
        or (cover >= SAME_SUBJECT_COVER and any(rule(claim, sentence) for rule in RULES for sentence in sentences))
    ):
        return Judgement("unsupported", round(REFUTED_SCORE * cover, 2))
    if added or "added" in mismatches or cover < SUPPORTED_COVER:
        return Judgement("partial", round(PARTIAL_SCORE * cover, 2))
    return Judgement("supported", round(cover, 2))


def _matched_words(claim: Claim, source: SourceText, passage: Passage, facts: TextFacts) -> list[bool]:
    """For each word of the claim whether the passage has it, or may refer to it in other words."""
    matched = [bool(passage.matched >> place & 1) for place in range(len(claim.words))]
    spelled = number_words()
    for place, word in enumerate(claim.words):
        if word.is_content and not matched[place]:
            is_number = word.key[0].isdigit() or word.key in spelled  # asked here: most words are none
            matched[place] = _is_known_name(word, source) or (is_number and _is_known_number(word, facts))
    return matched


def _is_known_name(word: Word, source: SourceText) -> bool:
    """Whether the source has a name elsewhere: the passage may refer to it as "it" or "the company"."""
    return (word.is_identifier or word.written[0].isupper()) and source.knows(word.key, word.written)


def _is_known_number(word: Word, facts: TextFacts) -> bool:
    """Whether the passage writes a number in another way."""
    if word.key[0].isdigit():
        return not all(map(facts.values.isdisjoint, values_of(word.key)))
    value = number_words().get(word.key)
    return value is not None and value in facts.values


def _cover_of(claim: Claim, matched: Sequence[bool], places: range) -> float:
    """The share of the weight of these words that is matched."""
    weights = claim.weights[places.start : places.stop]
    total = sum(weights)
    return sum(compress(weights, matched[places.start : places.stop])) / total if total else 0.0


def _added_places(claim: Claim, matched: Sequence[bool], runs: Sequence[MissingRun]) -> set[int]:
    """The places of statements without a counterpart in the passage: long runs, and clauses beside a known one."""
    added = {place for run in runs if _is_long(run) for place in range(run.first, run.last + 1)}
    covers = [_cover_of(claim, matched, clause) for clause in claim.clauses]
    if len(covers) > 1 and max(covers) >= KNOWN_COVER:
        for clause, cover in zip(claim.clauses, covers, strict=True):
            unknown = sum(claim.words[at].is_content and not matched[at] for at in clause)
            if cover <= ADDED_COVER and unknown >= MIN_UNKNOWN_WORDS:
                added.update(clause)
    return added


def _is_long(run: MissingRun) -> bool:
    return len(run.words) >= LONG_RUN and not is_unspaced(run.words[0].key)
