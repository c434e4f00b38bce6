"""Combine the lexical verdict with the result of a support model, which reads the claim and a passage of the source.

The word comparison decides what it can prove: a mismatch, a copy, a number that the source lacks. The model decides whether the
source says the same in other words. The fewer words agree, the more certain the model must be. If the word comparison refutes a
claim, but the source lacks many of its other words, the model may call the claim partial, but not supported.

`UndecidedClaims` collects the claims that the word comparison leaves to the model. Each `UndecidedClaim` has the passages that
the model reads, and `decide` turns the log-odds of the model into a new judgement.
"""

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from operator import itemgetter
from typing import Literal, NamedTuple

from modules.llm_platform.domain.citations.compare.alignment import SourceText
from modules.llm_platform.domain.citations.compare.model_verdicts import find_highest_verdict
from modules.llm_platform.domain.citations.compare.verdicts import POSSIBLE_SUPPORT, Judgement
from modules.llm_platform.domain.citations.read.amounts import list_amounts, use_units
from modules.llm_platform.domain.citations.read.claims import Claim, read_claim
from modules.llm_platform.domain.dtos.citation_dtos import Verdict
from modules.llm_platform.domain.ports.support_model import ENGLISH, READ_LANGUAGES
from modules.llm_platform.domain.text.data_files import load_data
from modules.llm_platform.domain.text.language import get_primary_subtag
from modules.llm_platform.domain.text.sentences import Span

MAX_PASSAGE_CHARS = 500  # of an English passage that a support model reads, about 100 tokens
MAX_FOREIGN_CHARS = {"zh": 150}  # of a passage in this language
MAX_OTHER_CHARS = 350  # of a passage in any other language
MAX_WINDOWS_READ = 4  # a source without a word of the claim is read if it is at most this many passages long


class CheckKey(NamedTuple):
    """A sentence and the number of a source that it cites. Equal sentences of an answer are judged once.

    `cells` are the cells of a table row, each alone and with its headers. `clauses` are the clauses that cite the source, and
    `is_all_cited` is True if each clause of the sentence cites some source.
    """

    claim: str
    cells: tuple[tuple[str, str], ...]
    clauses: tuple[str, ...]
    source: int
    is_all_cited: bool


class SupportThresholds(NamedTuple):
    """The lowest log-odds at which a support model calls a claim partial or supported, for one lexical verdict.

    For refuted claims, `supported` is infinite: the model cannot call them supported.
    """

    partial: float
    supported: float = math.inf


class PassageToRead(NamedTuple):
    """A passage that a support model reads beside a claim.

    - `text` is the passage on one line, with HTML entities decoded.
    - `quote` is the span that the citation shows if this passage decides, and `quote_text` its text, written as `text` is.
    - `highest_verdict` limits the verdict that the model may give for it.
    """

    text: str
    quote_text: str
    quote: Span
    highest_verdict: Verdict


@dataclass(frozen=True, slots=True)
class UndecidedClaim:
    """A claim that a support model may decide, and the passages that it reads. The passage with the highest log-odds counts.

    - `claim` is the text that the model reads: the sentence, or its clauses that cite the source, with amounts in the units of
      the source.
    - `judgement` is the result of the word comparison.
    - `is_english` is False if the claim or the passages are in another language.
    """

    key: CheckKey
    claim: str
    passages: tuple[PassageToRead, ...]
    judgement: Judgement
    is_english: bool


class UndecidedClaims:
    """The claims that the word comparison leaves to a support model, in the order of the answer.

    The model reads what `list_first` returns. `CitationChecker.record_log_odds` takes the log-odds.
    """

    def __init__(self, language: str) -> None:
        """Start without claims. `language` is the language of the answer."""
        self._language = language
        self._primary = get_primary_subtag(language)
        self._open: dict[CheckKey, tuple[Judgement, SourceText]] = {}
        self._settled: set[CheckKey] = set()  # keys that the model has read, or that it cannot read

    def add(self, key: CheckKey, judgement: Judgement, source: SourceText) -> None:
        """Add a claim with its lexical judgement, unless the judgement is final or a support model may not decide.

        The model must know the language of the answer and of the source. It does not decide a settled claim. If claim and source
        share no word, it decides neither table rows nor pairs in English.
        """
        if self._primary not in READ_LANGUAGES or judgement.is_final or key in self._settled:
            return
        if source.language not in (None, *READ_LANGUAGES):
            return
        if not (judgement.shares_no_word and (key.cells or self._is_english(source))):
            self._open[key] = judgement, source

    @property
    def has_any(self) -> bool:
        return bool(self._open)

    def list_first(self, max_passages: int) -> list[UndecidedClaim]:
        """Return the first claims with at most `max_passages` passages together. The first claim may have more.

        Claims without a passage to read are settled. The returned claims remain until they are settled.
        """
        found: list[UndecidedClaim] = []
        left = max_passages
        for key in list(self._open):
            if left <= 0:
                break
            if (claim := self._collect_passages(key)) is None:
                self.settle(key)
            elif len(claim.passages) <= left or not found:
                found.append(claim)
                left -= len(claim.passages)
            else:
                break
        return found

    def _collect_passages(self, key: CheckKey) -> UndecidedClaim | None:
        """Return the claim and its passages; None if it has none on which a support model may decide.

        The model reads only the clauses that cite the source, unless the source supports the whole sentence by its words.
        """
        judgement, source = self._open[key]
        has_claim_only = judgement.verdict == "supported" or not key.clauses
        written = html.unescape(key.claim if has_claim_only else " ".join(key.clauses))
        claim, is_english = read_claim(written, self._language), self._is_english(source)
        said = use_units(claim.text, source.amounts, source.text) if list_amounts(claim.text) else claim.text
        passages = []
        for text, quote in self._find_passages(claim, judgement, source):
            quote_text = source.text[slice(*quote)]
            allowed = find_highest_verdict(judgement.verdict, html.unescape(key.claim), quote_text)
            highest = min(allowed, judgement.highest_verdict, key=POSSIBLE_SUPPORT.__getitem__)
            if judgement.shares_no_word and highest != "supported":  # other figures, or a clause without a marker
                continue
            passages.append(PassageToRead(_clean(text), _clean(quote_text), quote, highest))
        return UndecidedClaim(key, said, tuple(passages), judgement, is_english) if passages else None

    def _find_passages(self, claim: Claim, judgement: Judgement, source: SourceText) -> list[tuple[str, Span]]:
        """Return the passages that a support model reads, each with the span that the citation shows; empty if there are none.

        There is one passage if the source shares a word with the claim: the best passage and further sentences that share most.
        Otherwise a short source is read in windows, unless claim and source are in English: then it says something else.
        """
        is_english = self._is_english(source)
        other_limit = MAX_FOREIGN_CHARS.get(source.language or self._primary, MAX_OTHER_CHARS)
        limit = MAX_PASSAGE_CHARS if is_english else other_limit
        if (best := source.find_best_passage(claim)) is not None:
            return [(source.collect_text(best, limit), judgement.quote)]
        if is_english or len(source.text) > MAX_WINDOWS_READ * limit:
            return []
        return [(source.text[slice(*window)], window) for window in source.cut_windows(limit)]

    def _is_english(self, source: SourceText) -> bool:
        return self._primary == ENGLISH and source.language in (None, ENGLISH)

    def settle(self, key: CheckKey) -> None:
        """Remove a claim that the model has read, or cannot read. `add` ignores it from now on."""
        self._open.pop(key, None)
        self._settled.add(key)

    def forget_source(self, number: int) -> None:
        """Remove the claims that cite a source, because it is replaced. They may be added again."""
        self._open = {key: entry for key, entry in self._open.items() if key.source != number}
        self._settled = {key for key in self._settled if key.source != number}

    def clear(self) -> None:
        """Remove all claims, so that they keep the lexical verdicts."""
        self._open.clear()


@cache
def load_support_thresholds(
    kind: Verdict | Literal["refuted", "without words"], *, is_english: bool = True
) -> SupportThresholds:
    """Return the thresholds for a lexical verdict, for refuted claims, or for claims that share no word with their source.

    English has no thresholds for claims without shared words, because `UndecidedClaims.add` leaves them out.

    The thresholds are in `support_limits.json`. `scripts/support_model/combine.py` measures the thresholds of English, and
    `languages.py` the thresholds of other languages.
    """
    stored = load_data("support_limits")["english" if is_english else "other languages"]
    return SupportThresholds(**stored[kind])


def _clean(text: str) -> str:
    """Return the text on one line, with HTML entities decoded."""
    return html.unescape(" ".join(text.split()))


def decide(undecided: UndecidedClaim, log_odds: Sequence[float]) -> Judgement:
    """Return the judgement with the verdict and the quote of the passage with the highest log-odds. The score stays.

    `log_odds` has one value for each passage, in order: the log-odds that the passage supports the claim. The verdict is at most
    the `highest_verdict` of its passage. A refuted claim that the model calls partial is not refuted any more, and has no
    mismatch.

    If claim and source share no word, the model may confirm the claim but not reject it, because nothing shows which passage
    to read.
    """
    highest, best = max(zip(log_odds, undecided.passages, strict=True), key=itemgetter(0))
    judgement, shares_no_word = undecided.judgement, undecided.judgement.shares_no_word
    kind = "without words" if shares_no_word else "refuted" if judgement.is_refuted else judgement.verdict
    thresholds = _raise_for_short(load_support_thresholds(kind, is_english=undecided.is_english), undecided)
    if shares_no_word and highest < thresholds.partial:
        return judgement
    verdict: Verdict = "unsupported"
    if highest >= thresholds.partial:
        verdict = "supported" if highest >= thresholds.supported else "partial"
    decided = min(verdict, best.highest_verdict, key=POSSIBLE_SUPPORT.__getitem__)
    if judgement.is_refuted and decided != "unsupported":
        judgement = replace(judgement, is_refuted=False, mismatch=None)
    return replace(judgement, quote=best.quote, verdict=decided, word_verdict=undecided.judgement.verdict)


def _raise_for_short(thresholds: SupportThresholds, undecided: UndecidedClaim) -> SupportThresholds:
    """Return the thresholds of a claim. To support a short English claim, the model must be more certain.

    The few words of such a claim are mostly in its passage, whether the passage says it or the opposite.
    """
    short = load_data("support_limits")["short English claims"]
    if not undecided.is_english or len(undecided.claim.split()) > short["words"]:
        return thresholds
    return thresholds._replace(supported=thresholds.supported + short["supported_raised_by"])
