"""Combine the verdict of the words with the result of a support model, which reads the claim and a passage of the source.

Words decide what they can prove: a changed fact, a copy, a number that the source lacks. The model decides whether the source
says the same in other words. The less the words agree, the more certain the model must be.
"""

from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

from modules.llm_platform.domain.citations.compare.verdicts import RANK, Judgement
from modules.llm_platform.domain.dtos.citation_dtos import Verdict
from modules.llm_platform.domain.text.data_files import load_data
from modules.llm_platform.domain.text.sentences import Span


class CheckKey(NamedTuple):
    """A sentence and the number of a source that it cites. Equal sentences of an answer are judged once.

    `cells` are the cells of a table row, each alone and with its heads. `clauses` are the clauses that cite the source.
    """

    claim: str
    cells: tuple[tuple[str, str], ...]
    clauses: tuple[str, ...]
    source: int


class Limits(NamedTuple):
    """The log-odds from which a support model gives each verdict. Each verdict of the words has its own limits."""

    supported: float
    partial: float


@dataclass(frozen=True, slots=True)
class Doubt:
    """A claim and a passage that a support model may decide.

    - `judgement` is the result of the words, and `highest` is the highest verdict that the model may give.
    - `is_english` is False if the claim or the passage is in another language.
    - `quote` is the span that the citation shows once the model has decided.
    """

    key: CheckKey
    claim: str
    passage: str
    judgement: Judgement
    highest: Verdict
    is_english: bool
    quote: Span


@cache
def read_limits(words: Verdict, *, is_english: bool = True, is_without_words: bool = False) -> Limits:
    """Return the limits for a verdict of the words, or for claims that share no word with their source.

    `scripts/support_model/combine.py` fits the limits of English in `support_limits.json`, and `languages.py` measures the
    limits of other languages.
    """
    limits = load_data("support_limits")["english" if is_english else "other languages"]
    return Limits(**limits["without words" if is_without_words else words])


def decide(doubt: Doubt, log_odds: float) -> Judgement:
    """Return the judgement with the verdict of the model, limited by `doubt.highest`. The score stays.

    If claim and source share no word, the model may confirm the claim but not reject it, because nothing shows which passage
    to read.
    """
    judgement, has_no_words = doubt.judgement, doubt.judgement.is_without_words
    limits = read_limits(judgement.verdict, is_english=doubt.is_english, is_without_words=has_no_words)
    if has_no_words and log_odds < limits.partial:
        return judgement
    verdict: Verdict = "unsupported"
    if log_odds >= limits.partial:
        verdict = "supported" if log_odds >= limits.supported else "partial"
    decided = min(verdict, doubt.highest, key=RANK.__getitem__)
    return replace(judgement, quote=doubt.quote, verdict=decided, word_verdict=judgement.verdict)
