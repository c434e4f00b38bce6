"""Combine the verdict of the words with the result of a support model, which reads the claim and a passage of the source.

Words decide what they can prove: a changed fact, a copy, a number that the source lacks. The model decides whether the source
says the same in other words. The less the words agree, the more certain the model must be.

`Doubts` collects the judgements that the model may decide. Each becomes a `Doubt`, the claim and the passage that the model
reads, and `decide` turns the log-odds of the model into a verdict.
"""

import html
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

from modules.llm_platform.domain.citations.compare.alignment import SourceText
from modules.llm_platform.domain.citations.compare.model_verdicts import find_highest_verdict
from modules.llm_platform.domain.citations.compare.verdicts import RANK, Judgement
from modules.llm_platform.domain.citations.read.claims import read_claim
from modules.llm_platform.domain.dtos.citation_dtos import Verdict
from modules.llm_platform.domain.ports.support_model import ENGLISH, READ_LANGUAGES
from modules.llm_platform.domain.text.data_files import load_data
from modules.llm_platform.domain.text.sentences import Span

MAX_PASSAGE_CHARS = 500  # of the passage in English that a support model reads, about 100 tokens
MAX_FOREIGN_CHARS = {"zh": 150}  # the same in other languages
MAX_OTHER_CHARS = 350


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


class Doubts:
    """The judgements that a support model may decide, in the order of the answer.

    A model reads what `list_open` returns and reports with `record_log_odds`.
    """

    def __init__(self, judged: dict[CheckKey, Judgement], language: str) -> None:
        """Start without doubts. Results of the model replace entries of `judged`; `language` is the language of the answer."""
        self._judged, self._language = judged, language
        self._primary = language.partition("-")[0].lower()
        self._open: dict[CheckKey, SourceText] = {}
        self._settled: set[CheckKey] = set()  # keys that the model has read, or that it cannot read

    def add(self, key: CheckKey, source: SourceText) -> None:
        """Add the judgement with this key if the words have not decided it, and if a support model may.

        The model must know both languages. If no word is shared, it decides neither table rows nor pairs in English.
        """
        judgement = self._judged[key]
        if self._primary not in READ_LANGUAGES or judgement.is_final or key in self._settled:
            return
        if source.language not in (None, *READ_LANGUAGES):
            return
        if not (judgement.is_without_words and (key.cells or self._is_english(source))):
            self._open[key] = source

    @property
    def has_open(self) -> bool:
        return bool(self._open)

    def list_open(self, limit: int) -> list[Doubt]:
        """Return the first doubts, at most `limit`."""
        found: list[Doubt] = []
        for key in list(self._open):
            if len(found) == limit:
                break
            if (doubt := self._find_doubt(key)) is not None:
                found.append(doubt)
            else:
                self._settle(key)
        return found

    def _find_doubt(self, key: CheckKey) -> Doubt | None:
        """Return the claim and the passage that a support model reads; None if it may not decide, or if it has nothing to read.

        The passage is the quote and what else shares most with the claim. If the source has no word of the claim, a short
        source is read as a whole. If both are in English, it is not read, because it then says something else.
        """
        judgement, source = self._judged[key], self._open[key]
        has_claim_only = judgement.verdict == "supported" or not key.clauses
        said = html.unescape(key.claim if has_claim_only else " ".join(key.clauses))
        claim, is_english = read_claim(said, self._language), self._is_english(source)
        other_limit = MAX_FOREIGN_CHARS.get(source.language or self._primary, MAX_OTHER_CHARS)
        limit = MAX_PASSAGE_CHARS if is_english else other_limit
        best, whole = source.find_best_passage(claim), source.text.strip()
        if best is None and (is_english or len(whole) > limit):
            return None
        passage = source.collect_text(best, limit) if best else " ".join(whole.split())
        first = len(source.text) - len(source.text.lstrip())
        quote = judgement.quote if best else (first, first + len(whole))
        allowed = find_highest_verdict(judgement.verdict, html.unescape(key.claim), source.text[slice(*quote)])
        highest = min(allowed, judgement.highest, key=RANK.__getitem__)
        if judgement.is_without_words and highest != "supported":  # another figure, or a clause that nobody cites
            return None
        return Doubt(key, claim.text, html.unescape(passage), judgement, highest, is_english, quote)

    def _is_english(self, source: SourceText) -> bool:
        return self._primary == ENGLISH and source.language in (None, ENGLISH)

    def record_log_odds(self, doubt: Doubt, log_odds: float) -> None:
        """Record the result of a support model: the log-odds that the passage supports the claim."""
        if self._judged.get(doubt.key) == doubt.judgement:  # its source may have been replaced
            self._judged[doubt.key] = decide(doubt, log_odds)
            self._settle(doubt.key)

    def _settle(self, key: CheckKey) -> None:
        self._open.pop(key, None)
        self._settled.add(key)

    def forget_source(self, number: int) -> None:
        """Drop the doubts about a source that is replaced. Its sentences may be added again."""
        self._open = {key: source for key, source in self._open.items() if key.source != number}
        self._settled = {key for key in self._settled if key.source != number}

    def drop(self) -> None:
        """Keep the verdicts of the words on everything that is still in doubt."""
        self._open.clear()


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
