"""Decide about a sentence by its words and by what a support model reads in the passage.

The words keep the last word on what they can prove: a changed fact, a copy, a number that the source lacks. The model decides
where the source may say the same in other words: the less the words agree, the surer it must be.
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
    """The least log-odds of the support model for two verdicts, for sentences with one verdict of the words."""

    supported: float
    partial: float


@dataclass(frozen=True, slots=True)
class Doubt:
    """A claim and a passage that a support model may decide.

    `span` and `judgement` are what the words say, and `highest` is the highest verdict that they allow.
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
    """Return the judgement of words and model together. The score stays the score of the words."""
    judgement = doubt.judgement
    limits = read_limits(judgement.verdict)
    verdict: Verdict = "unsupported"
    if log_odds >= limits.partial:
        verdict = "supported" if log_odds >= limits.supported else "partial"
    decided = min(verdict, doubt.highest, key=RANK.__getitem__)
    return replace(judgement, verdict=decided, word_verdict=judgement.verdict)
