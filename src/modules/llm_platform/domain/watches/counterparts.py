"""Find the statement that takes the place of a fact that left its page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from modules.llm_platform.domain.citations.read.claims import Claim
from modules.llm_platform.domain.watches.page_versions import PageVersion
from modules.llm_platform.domain.watches.values import (
    NO_VALUE,
    ChangedValue,
    find_changed_value,
    find_replaced_part,
    has_figures,
    has_values_of_same_kind,
    share_of_words,
    shares_number,
)

SAME_SUBJECT: Final = 0.35  # share of a fact's words that the statement in its place has
SAME_KIND: Final = 0.2  # added to the share of a statement with values of the same kind


@dataclass(frozen=True, slots=True)
class Other:
    """The statement that takes the place of a fact, and the values that differ."""

    quote: str
    value: ChangedValue


def find_rewording(claim: Claim, came: PageVersion) -> str | None:
    """Return the statement that says the same as a claim that left its page; None if none does."""
    near = find_nearest(claim, came)
    return near if near is not None and came.keep([near]).judge(claim).verdict == "supported" else None


def find_other(claim: Claim, came: PageVersion, *, is_answer: bool) -> Other | None:
    """Return the statement that says otherwise than a claim that left its page; None if none does.

    A claim that answers changes with its verdict, too: the nearest statement does not support it.
    """
    near = find_nearest(claim, came)
    if near is None:
        return None
    other, judgement = came.statements[near], came.keep([near]).judge(claim)
    if judgement.verdict == "supported":
        return None
    value = find_changed_value(claim, other)
    if value is None and not judgement.is_refuted and not (is_answer and _is_verdict(claim, came)):
        return None
    return Other(near, find_replaced_part(claim, other) or value or NO_VALUE)


def _is_verdict(claim: Claim, came: PageVersion) -> bool:
    """Return whether the verdict on a claim decides: it has no figures, or no statement that came has one of its numbers."""
    if not claim.numbers:
        return not has_figures(claim)
    return not any(shares_number(claim, statement) for statement in came.statements.values())


def find_nearest(claim: Claim, came: PageVersion) -> str | None:
    """Return the statement that is most likely about the same thing; None if none shares enough words.

    A statement with values of the same kind, a date for a date, is preferred.
    """
    best, nearest = 0.0, None
    for statement, other in came.statements.items():
        shared = share_of_words(claim, other)
        likelihood = shared + SAME_KIND * has_values_of_same_kind(claim, other)
        if shared >= SAME_SUBJECT and likelihood > best:
            best, nearest = likelihood, statement
    return nearest
