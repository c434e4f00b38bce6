"""Numbers and denials in which a sentence differs from its source."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container, Sequence
from typing import Literal

from modules.llm_platform.domain.checking.claims import Claim
from modules.llm_platform.domain.checking.denial import (
    CONTRASTS,
    Clause,
    contradicts_han,
    hints_at_denial,
    prefers_the_contrary,
)
from modules.llm_platform.domain.checking.opposites import negated_form, opposed, opposed_han
from modules.llm_platform.domain.checking.places import FactPlaces
from modules.llm_platform.domain.checking.roles import roles_exchanged
from modules.llm_platform.domain.checking.text_facts import TextFacts
from modules.llm_platform.domain.checking.words import is_form_of_any

SAME_CLAUSE = 0.6  # of the content words of a clause, that another must have to say the same or the contrary
MIN_CLAUSE_WORDS = 2
_PREPOSITIONS = (
    "for on in at by with under during after before from despite bei für mit in im am nach vor unter seit pour dans sur avec"
    " para en con de для в при на по до после за"
)
_OPENING_PREPOSITIONS = frozenset(_PREPOSITIONS.split())
SMALL_COUNT = 4  # "three ways" may count what the passage lists


def odd_number(
    claim: Claim, places: FactPlaces, whole: TextFacts, added: Container[int]
) -> Literal["", "added", "changed"]:
    """Whether a number of the claim stands for another one, or where the passage has none at all.

    Numbers at the places `added` belong to statements that were added, and are not looked at.
    """
    found: Literal["", "added"] = ""
    for reading, at, spelled in claim.numbers:
        if bisect_right(claim.ats, at) - 1 in added or any(reading & known for known in whole.numbers):
            continue
        if not spelled and places.has_number(at):
            continue
        if spelled and min(map(float, reading)) < 1:
            if any(min(map(float, known)) < 1 for known in whole.numbers):
                return "changed"
        elif spelled and min(map(float, reading)) <= SMALL_COUNT:
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


def contradicts(claim: Claim, heart: TextFacts) -> bool:
    """A "not" on one side only, a word and its opposite, or two parties that have changed places."""
    mine = claim.denied_words
    if opposed(_without(mine, claim.keys), _without(heart.denied_words, heart.folded)):
        return True
    said: Sequence[str] = claim.undenied_words if mine else () if claim.says_no else claim.keys
    if any(is_form_of_any(word, said) and not is_form_of_any(word, mine) for word in heart.denied_words):
        return True
    plain = CONTRASTS.isdisjoint(claim.keys) and not hints_at_denial(heart.folded)
    if plain and any(is_form_of_any(word, heart.undenied_words) for word in mine):
        return True
    if prefers_the_contrary(claim.preferred, heart.preferred, claim.keys):
        return True
    if ((claim.denies or heart.denies) and _denies_a_clause(claim, heart)) or roles_exchanged(claim, heart):
        return True
    return not claim.text.isascii() and (
        opposed_han(claim.text, heart.text) or contradicts_han(claim.text, heart.text)
    )


def _denies_a_clause(claim: Claim, heart: TextFacts) -> bool:
    """Whether a clause of the claim matches best a clause that says the contrary."""
    clauses = claim.clauses_said
    for clause in clauses:
        if len(clauses) > 1 and clause.words[:1] and clause.words[0] in _OPENING_PREPOSITIONS:
            continue  # "for large files" says nothing by itself
        words = [word for word in clause.words if word in claim.content_keys]
        if clause.denied is None or len(words) < MIN_CLAUSE_WORDS or negated_form(clause.words, heart.folded):
            continue
        same, contrary = 0.0, 0.0
        for other in heart.clauses_said:
            share = sum(is_form_of_any(word, other.words) for word in words) / len(words)
            if other.denied is not clause.denied and not (clause.denied and not _has_head(claim, clause, other)):
                contrary = max(contrary, share if other.denied is not None else 0.0)
            if other.denied is None or other.denied is clause.denied:
                same = max(same, share)
        if contrary >= SAME_CLAUSE and contrary > same:
            return True
    return False


def _has_head(claim: Claim, denied: Clause, other: Clause) -> bool:
    """Whether the other clause says what this one denies, and does not only speak of the same things."""
    return any(word in denied.words and is_form_of_any(word, other.words) for word in claim.denied_words)


def _without(denied_words: Sequence[str], words: Sequence[str]) -> Sequence[str]:
    return [word for word in words if word not in denied_words] if denied_words else words
