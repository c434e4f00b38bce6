"""Derive the verdicts of a sealed answer again, from the texts in the file, with the checker of this program.

The comparison of words and the support model give the same verdict on every machine. A language model may not: what it judged
is not derived again, and only the verdict of the words below it is.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final, get_args

from modules.llm_platform.application.research.check.support_reading import SupportReading
from modules.llm_platform.domain.citations.checker import CheckedAnswer, CitationChecker
from modules.llm_platform.domain.citations.compare.model_verdicts import apply_model_verdict, list_claims
from modules.llm_platform.domain.concurrency.stoppable import StopSignal, WorkStoppedError, run_stoppable
from modules.llm_platform.domain.dtos.citation_dtos import Citation, ModelVerdict, TextSpan, Verdict
from modules.llm_platform.domain.dtos.sealed_dtos import OpenedSeal, Outcome, RederivedCitation, RederivedSentence
from modules.llm_platform.domain.exceptions import SealError
from modules.llm_platform.domain.ports.support_model import ISupportModel
from modules.llm_platform.domain.ports.tracing import stage

TIMEOUT_S: Final = 600.0  # an answer takes seconds; the file may be hostile
LATE: Final = "the verdicts were not derived again in time: the answer is too long"
JUDGED: Final = "a language model judged it"
NO_MODEL: Final = 'the support model judged it, which is not here: pip install "llm-platform[meaning]"'
NOT_READ: Final = "the support model judged it, and could not read it here"
NO_TEXT: Final = "its source is not in the file"
OTHER_VERDICT: Final = "the verdict differs"
OTHER_QUOTE: Final = "the quote or the difference differs"
OTHER_WORDS: Final = "a language model judged it after another verdict of the words"
BEYOND_LIMITS: Final = "no language model may give this verdict after the one of the words"
NOT_CITED: Final = "this program finds no such citation in the text"
LEFT_OUT: Final = "the file has no verdict on it, and this program does"

Place = tuple[int, int, int]  # start, end, number of the source
_WORST: Final[Sequence[Outcome]] = ("different", "not_rederivable", "same")


@stage("verify")
async def rederive(
    seal: OpenedSeal, support_model: ISupportModel | None, timeout_s: float = TIMEOUT_S
) -> tuple[RederivedSentence, ...]:
    """Return the sentences of the answer, in their order. Without a support model, its verdicts are not derived again.

    Raises SealError if the words were not compared within `timeout_s` seconds.
    """
    response, signal = seal.answer.response, StopSignal(timeout_s)
    checker = CitationChecker(seal.sources, response.metadata.language, signal.check)

    async def check() -> CheckedAnswer:
        try:
            return await run_stoppable(signal, lambda: checker.check(response.synthesis))
        except WorkStoppedError as error:
            raise SealError(LATE) from error

    by_words, by_model = await check(), None
    if support_model is not None and any(citation.checked_by == "encoder" for citation in response.citations):
        reading = SupportReading(support_model, checker)
        await reading.finish(asyncio.get_running_loop().time() + timeout_s)
        by_model = await check()
    comparison = _Comparison(seal, by_words, by_model, has_model=support_model is not None)
    sentences = (*comparison.list_cited(), *comparison.list_uncited(response.metadata.uncited))
    return tuple(sorted(sentences, key=lambda sentence: (sentence.start, sentence.end)))


class _Comparison:
    """The citations of a sealed answer beside those that this program finds, with and without its support model."""

    def __init__(
        self, seal: OpenedSeal, by_words: CheckedAnswer, by_model: CheckedAnswer | None, *, has_model: bool
    ) -> None:
        self._recorded = seal.answer.response.citations
        self._words = {_place(citation): citation for citation in by_words.citations}
        self._read = {_place(citation): citation for citation in by_model.citations} if by_model else {}
        self._uncited = {*by_words.uncited, *(by_model.uncited if by_model else ())}
        self._sources = {source.index for source in seal.sources}
        self._has_model = has_model
        is_judged = any(citation.checked_by == "model" for citation in self._recorded)
        response = seal.answer.response
        self._claims = list_claims(response.synthesis, response.metadata.language) if is_judged else {}

    def list_cited(self) -> list[RederivedSentence]:
        """Return the sentences that cite a source, in the file or here."""
        found: dict[tuple[int, int], list[RederivedCitation]] = {}
        for citation in self._recorded:
            found.setdefault((citation.start, citation.end), []).append(self._compare(citation))
        for citation in self._list_left_out():
            found.setdefault((citation.start, citation.end), []).append(
                RederivedCitation(
                    source_index=citation.source_index,
                    checked_by=citation.checked_by,
                    outcome="different",
                    now=citation.verdict,
                    reason=LEFT_OUT,
                )
            )
        return [
            RederivedSentence(
                start=start,
                end=end,
                outcome=min((one.outcome for one in rederived), key=_WORST.index),
                citations=tuple(rederived),
            )
            for (start, end), rederived in found.items()
        ]

    def _list_left_out(self) -> list[Citation]:
        """Return the citations that the file lacks.

        An answer without any citation may end with passages that were added after its check. Which sentences some markers
        cite depends on the support model, if it was asked.
        """
        is_read = any(citation.checked_by == "encoder" for citation in self._recorded)
        if not self._recorded or (is_read and not self._read):
            return []
        known = {_place(citation) for citation in self._recorded}
        found = self._read if is_read else self._words
        return [citation for place, citation in found.items() if place not in known]

    def list_uncited(self, spans: Iterable[TextSpan]) -> list[RederivedSentence]:
        """Return the statements that cite no source."""
        return [
            RederivedSentence(
                start=span.start,
                end=span.end,
                outcome="same" if (span.start, span.end) in self._uncited else "different",
            )
            for span in spans
        ]

    def _compare(self, was: Citation) -> RederivedCitation:
        outcome, now, reason = self._decide(was)
        return RederivedCitation(
            source_index=was.source_index,
            checked_by=was.checked_by,
            outcome=outcome,
            was=was.verdict,
            now=now,
            reason=reason,
        )

    def _decide(self, was: Citation) -> tuple[Outcome, Verdict | None, str]:
        if was.source_index not in self._sources:
            return "not_rederivable", None, NO_TEXT
        read = self._read.get(_place(was))
        # Where the words alone find no citation, the verdicts of the support model decided which sentence a marker cites.
        words = self._words.get(_place(was)) or read
        if words is None:
            return "different", None, NOT_CITED
        if was.checked_by == "model":
            return self._compare_judged(was, words)
        if was.checked_by == "encoder":
            if not self._has_model:
                return "not_rederivable", None, NO_MODEL
            if read is None or read.checked_by != "encoder":
                return "not_rederivable", None, NOT_READ
            return _compare_fields(was, read)
        if words.word_verdict is not None:
            words = words.model_copy(update={"verdict": words.word_verdict, "word_verdict": None})
        return _compare_fields(was, words)

    def _compare_judged(self, was: Citation, words: Citation) -> tuple[Outcome, Verdict | None, str]:
        """Compare what a language model judged with what it may have judged: see `apply_model_verdict`."""
        if was.word_verdict != (words.word_verdict or words.verdict):
            return "different", None, OTHER_WORDS
        if (was.quote, was.quote_start, was.quote_end) != (words.quote, words.quote_start, words.quote_end):
            return "different", None, OTHER_QUOTE
        claim = self._claims.get((was.start, was.end), "")
        allowed = {apply_model_verdict(words, claim, verdict).verdict for verdict in get_args(ModelVerdict)}
        if was.verdict not in allowed:
            return "different", None, BEYOND_LIMITS
        return "not_rederivable", None, JUDGED


def _compare_fields(was: Citation, now: Citation) -> tuple[Outcome, Verdict, str]:
    if now.verdict != was.verdict:
        return "different", now.verdict, OTHER_VERDICT
    if _describe(now) != _describe(was):
        return "different", now.verdict, OTHER_QUOTE
    return "same", now.verdict, ""


def _describe(citation: Citation) -> tuple[object, ...]:
    """Return all that a reader sees of a citation beside its verdict."""
    span = citation.quote_start, citation.quote_end
    return citation.quote, span, citation.is_verbatim, citation.cells, citation.difference, citation.word_verdict


def _place(citation: Citation) -> Place:
    return citation.start, citation.end, citation.source_index
