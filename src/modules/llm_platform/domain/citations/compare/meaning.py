"""Combine the verdict of the words with the result of a support model, which reads the claim and a passage of the source.

Words decide what they can prove: a changed fact, a copy, a number that the source lacks. The model decides whether the source
says the same in other words. The less the words agree, the more certain the model must be.
"""

from dataclasses import dataclass, replace
from functools import cache
from typing import Final, NamedTuple

from modules.llm_platform.domain.citations.compare.verdicts import RANK, Judgement
from modules.llm_platform.domain.dtos.citation_dtos import Verdict
from modules.llm_platform.domain.text.data_files import load_data
from modules.llm_platform.domain.text.sentences import Span

READ_LANGUAGES: Final = frozenset({"en"})

# A sentence and a source: the claim, its cells alone and with heads, its clauses, and the number of the source.
Key = tuple[str, tuple[tuple[str, str], ...], tuple[str, ...], int]


class Limits(NamedTuple):
    """The log-odds from which a support model gives each verdict. Each verdict of the words has its own limits."""

    supported: float
    partial: float


@dataclass(frozen=True, slots=True)
class Doubt:
    """A claim and a passage that a support model may decide.

    `span` and `judgement` are the result of the words, and `highest` is the highest verdict that the model may give.
    """

    key: Key
    claim: str
    passage: str
    span: Span
    judgement: Judgement
    highest: Verdict


@cache
def read_limits(words: Verdict) -> Limits:
    """Return the limits for a verdict of the words. `scripts/support_model/combine.py` fits `support_limits.json`."""
    return Limits(**load_data("support_limits")[words])


def decide(doubt: Doubt, log_odds: float) -> Judgement:
    """Return the judgement with the verdict of the model, limited by `doubt.highest`. The score of the words stays."""
    judgement = doubt.judgement
    limits = read_limits(judgement.verdict)
    verdict: Verdict = "unsupported"
    if log_odds >= limits.partial:
        verdict = "supported" if log_odds >= limits.supported else "partial"
    decided = min(verdict, doubt.highest, key=RANK.__getitem__)
    return replace(judgement, verdict=decided, word_verdict=judgement.verdict)
