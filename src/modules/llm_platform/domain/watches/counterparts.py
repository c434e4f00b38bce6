"""Find the statement that stands in the place of a fact that left its page."""

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
)

SAME_SUBJECT: Final = 0.35  # share of a fact's words that the statement in its place has
SAME_KIND: Final = 0.2  # added to the share of a statement with values of the same kind


@dataclass(frozen=True, slots=True)
class Other:
    """The statement that stands in the place of a fact, and the values that differ."""

    quote: str
    value: ChangedValue


def find_rewording(claim: Claim, came: PageVersion) -> str | None:
    """Return the statement that says the same as a claim that left its page; None if none does."""
    near = find_nearest(claim, came)
    return near if near is not None and came.keep([near]).judge(claim).verdict == "supported" else None


def find_other(claim: Claim, came: PageVersion) -> Other | None:
    """Return the statement that says otherwise than a claim that left its page; None if none does."""
    near = find_nearest(claim, came)
    if near is None:
        return None
    value = _find_difference(claim, came.keep([near]))
    return Other(near, find_replaced_part(claim, came.read_claim(near)) or value) if value is not None else None


def _find_difference(claim: Claim, near: PageVersion) -> ChangedValue | None:
    """Return the values that differ. A claim without figures changes with its verdict: no statement supports it any more."""
    judgement, text = near.judge(claim), near.prepared.text
    if judgement.verdict == "supported":
        return None
    if judgement.change is not None and judgement.is_refuted:
        return ChangedValue(claim.text[slice(*judgement.change.claimed)], text[slice(*judgement.change.found)])
    if not has_figures(claim):
        return find_changed_value(claim, near.read_claim(text)) or NO_VALUE
    return find_changed_value(claim, near.read_claim(text))


def find_nearest(claim: Claim, came: PageVersion) -> str | None:
    """Return the statement that is most likely about the same thing; None if none shares enough words.

    A statement with values of the same kind, a date for a date, is preferred.
    """
    best, nearest = 0.0, None
    for statement in came.list_statements():
        other = came.read_claim(statement)
        shared = share_of_words(claim, other)
        likelihood = shared + SAME_KIND * has_values_of_same_kind(claim, other)
        if shared >= SAME_SUBJECT and likelihood > best:
            best, nearest = likelihood, statement
    return nearest
