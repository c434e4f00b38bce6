"""Derive the verdicts of a sealed answer again, from the texts in the file, with the checker of this program.

The comparison of words and the support model give the same verdict on every machine. A language model may not: what it judged
is not derived again, and only the verdict of the words below it is.
"""

import asyncio
import math
from collections.abc import Iterable, Sequence
from typing import Final

from modules.llm_platform.application.research.check.support_reading import SupportReading
from modules.llm_platform.domain.citations.checker import CheckedAnswer, CitationChecker
from modules.llm_platform.domain.dtos.citation_dtos import Citation, TextSpan, Verdict
from modules.llm_platform.domain.dtos.sealed_dtos import OpenedSeal, Outcome, RederivedCitation, RederivedSentence
from modules.llm_platform.domain.ports.support_model import ISupportModel
from modules.llm_platform.domain.ports.tracing import stage

JUDGED: Final = "a language model judged it"
NO_MODEL: Final = 'the support model judged it, which is not here: pip install "llm-platform[meaning]"'
NOT_READ: Final = "the support model judged it, and could not read it here"
NO_TEXT: Final = "its source is not in the file"
OTHER_VERDICT: Final = "the verdict differs"
OTHER_QUOTE: Final = "the quote or the difference differs"
OTHER_WORDS: Final = "a language model judged it after another verdict of the words"
NOT_CITED: Final = "this program finds no such citation in the text"
CITED_NOW: Final = "this program finds a source that it cites"

Place = tuple[int, int, int]  # start, end, number of the source
_WORST: Final[Sequence[Outcome]] = ("different", "not_rederivable", "same")


@stage("verify")
async def rederive(seal: OpenedSeal, support_model: ISupportModel | None) -> tuple[RederivedSentence, ...]:
    """Return the sentences of the answer, in their order. Without a support model, its verdicts are not derived again."""
    response = seal.answer.response
    checker = CitationChecker(seal.sources, response.metadata.language)
    by_words = await asyncio.to_thread(checker.check, response.synthesis)
    by_model = None
    if support_model is not None and any(citation.checked_by == "encoder" for citation in response.citations):
        reading = SupportReading(support_model, checker)
        await reading.finish(math.inf)
        by_model = await asyncio.to_thread(checker.check, response.synthesis)
    comparison = _Comparison(seal, by_words, by_model, has_model=support_model is not None)
    return (*comparison.list_cited(response.citations), *comparison.list_uncited(response.metadata.uncited))


class _Comparison:
    """The citations of a sealed answer beside those that this program finds, with and without its support model."""

    def __init__(
        self, seal: OpenedSeal, by_words: CheckedAnswer, by_model: CheckedAnswer | None, *, has_model: bool
    ) -> None:
        self._words = {_place(citation): citation for citation in by_words.citations}
        self._read = {_place(citation): citation for citation in by_model.citations} if by_model else {}
        self._uncited = {*by_words.uncited, *(by_model.uncited if by_model else ())}
        self._sources = {source.index for source in seal.sources}
        self._has_model = has_model

    def list_cited(self, citations: Iterable[Citation]) -> list[RederivedSentence]:
        """Return the sentences that cite a source."""
        found: dict[tuple[int, int], list[RederivedCitation]] = {}
        for citation in citations:
            found.setdefault((citation.start, citation.end), []).append(self._compare(citation))
        return [
            RederivedSentence(
                start=start,
                end=end,
                outcome=min((one.outcome for one in rederived), key=_WORST.index),
                citations=tuple(rederived),
            )
            for (start, end), rederived in found.items()
        ]

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
            is_same = was.word_verdict == (words.word_verdict or words.verdict)
            return ("not_rederivable", None, JUDGED) if is_same else ("different", None, OTHER_WORDS)
        if was.checked_by == "encoder":
            if not self._has_model:
                return "not_rederivable", None, NO_MODEL
            if read is None or read.checked_by != "encoder":
                return "not_rederivable", None, NOT_READ
            return _compare_fields(was, read)
        if words.word_verdict is not None:
            words = words.model_copy(update={"verdict": words.word_verdict, "word_verdict": None})
        return _compare_fields(was, words)


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
