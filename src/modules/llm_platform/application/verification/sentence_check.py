"""Check the sentences of a text against its sources while these are read.

Sentences that share markers, such as those after a paragraph, form a part and are checked together.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import compress
from typing import Final

from modules.llm_platform.application.research.check.thread_support import ReadSupport, settle_undecided
from modules.llm_platform.domain.citations.checker import CitationChecker
from modules.llm_platform.domain.citations.forms.cited_text import CitedText
from modules.llm_platform.domain.citations.read.sentences import AnswerSentence, AnswerText, read_answer
from modules.llm_platform.domain.concurrency.stoppable import StopSignal, WorkStoppedError
from modules.llm_platform.domain.dtos.citation_dtos import SUPPORTING_VERDICTS, Citation, TextSpan, Verdict
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.dtos.verification_dtos import VerifiedSentence
from modules.llm_platform.domain.exceptions import VerificationError
from modules.llm_platform.domain.text.sentences import Span

MAX_SENTENCES: Final = 3000  # sentences of one text
MAX_CITED_SOURCES: Final = 50  # sources of one sentence
MAX_CITATIONS: Final = 3000  # comparisons of a sentence with a source
TOO_MANY_SENTENCES: Final = "The text has {count} sentences; the limit is {most}. Split the text."
TOO_MANY_CITED: Final = "A sentence of the text cites {count} sources; the limit is {most}. Cite fewer sources there."
TOO_MANY_CITATIONS: Final = (
    "The text needs {count} comparisons of a sentence with a source; the limit is {most}. Split the text."
)
# How much support was found for a sentence. The best citation decides its verdict, because one supporting source is enough.
# `partial` is above `unchecked`, because a source that supports a part says more than a source that could not be compared.
_FOUND_SUPPORT: Final[dict[Verdict, int]] = {"unsupported": 0, "unchecked": 1, "partial": 2, "supported": 3}


@dataclass(frozen=True, slots=True)
class TextPart:
    """Sentences `first` to `end` of a text, and the numbers of the sources that one of them may cite."""

    first: int
    end: int
    numbers: frozenset[int]


class SentenceCheck:
    """The check of one text. Not safe for use by two threads at once.

    Offsets of citations point into the rewritten text until `describe_sentence` gives the offsets in the text as sent.
    """

    def __init__(
        self,
        text: CitedText,
        language: str,
        signal: StopSignal | None = None,
        read_support: ReadSupport | None = None,
    ) -> None:
        """Read the sentences of a text. After `signal` no sentence is compared any more.

        `read_support` asks a support model about the claims that the word comparison leaves undecided. If it is None, they keep
        their lexical verdicts.
        """
        self._text = text
        self._signal = signal or StopSignal()
        self.answer = read_answer(text.markdown, language)
        self._checker = CitationChecker([], language, self._signal.check)
        self._read_support = read_support
        self._citations: dict[Span, list[Citation]] = {}
        self._cited: set[int] = set()  # positions of sentences that cite a source
        self._unchecked = _divide_into_parts(self.answer)
        self._received: set[int] = set()  # numbers of sources, read or not readable
        self._late: set[int] = set()  # positions of sentences that were not compared in time

    def require_bounded(self) -> None:
        """Raise VerificationError if the text needs too many comparisons."""
        sentences = self.answer.sentences
        cited = [len(sentence.cited) for sentence in sentences]
        by_trailing_markers = sum(len(markers.sentences) * len(markers.numbers) for markers in self.answer.trailing)
        for count, most, message in (
            (len(sentences), MAX_SENTENCES, TOO_MANY_SENTENCES),
            (max(cited, default=0), MAX_CITED_SOURCES, TOO_MANY_CITED),
            (sum(cited) + by_trailing_markers, MAX_CITATIONS, TOO_MANY_CITATIONS),
        ):
            if count > most:
                raise VerificationError(message.format(count=count, most=most))

    @property
    def late_sentences(self) -> int:
        return len(self._late)

    def add_sources(self, sources: Iterable[Source]) -> list[int]:
        """Add sources, read or not readable, and check the sentences that wait for no further source. Return their positions."""
        for source in sources:
            self._checker.replace_source(source)
            self._received.add(source.index)
        is_complete = [bool(part.numbers) and part.numbers <= self._received for part in self._unchecked]
        ready = list(compress(self._unchecked, is_complete))
        self._unchecked = [part for part, is_done in zip(self._unchecked, is_complete, strict=True) if not is_done]
        return [position for part in ready for position in self._check(part)]

    def find_sources(
        self, positions: Iterable[int], among: Collection[int] | None = None, *, may_contradict: bool = True
    ) -> list[int]:
        """Compare statements with all sources, or only with the sources `among`. Return the positions that got a citation.

        With `among`, a source that does not mention a statement is not cited. A source that contradicts it is cited only if
        `may_contradict` is True, because a page of the web may be about something else.
        """
        found = []
        for position in positions:
            sentence = self.answer.sentences[position]
            try:
                citation = self._checker.find_closest(sentence, among)
                if settle_undecided(self._checker, self._read_support):
                    citation = self._checker.find_closest(sentence, among)
            except WorkStoppedError:
                self._late.add(position)
                continue
            if citation is not None and (among is None or _is_relevant(citation, may_contradict=may_contradict)):
                self._add(citation)
                found.append(position)
        return found

    def list_uncited(self) -> list[int]:
        """Return the positions of the statements that cite no source."""
        return [
            position
            for position, sentence in enumerate(self.answer.sentences)
            if position not in self._cited and self._is_statement(position, sentence)
        ]

    def list_unsupported_statements(self) -> list[int]:
        """Return the positions of the statements that no source supports."""
        return [
            position
            for position, sentence in enumerate(self.answer.sentences)
            if position not in self._late
            and self._is_statement(position, sentence)
            and self._decide_verdict(position) in ("unsupported", "unchecked")
        ]

    def list_citations(self) -> tuple[Citation, ...]:
        """Return all citations, in the order of the sentences."""
        return tuple(citation for _, found in sorted(self._citations.items()) for citation in found)

    def replace(self, citations: Iterable[Citation]) -> None:
        """Take the citations with the verdicts of a judge."""
        self._citations = {}
        for citation in citations:
            self._add(citation)

    def read_unjudged(self, read_support: ReadSupport) -> None:
        """After the judge failed, let a support model decide the citations that got no verdict."""
        self._read_support = read_support
        with suppress(WorkStoppedError):
            if not settle_undecided(self._checker, self._read_support):
                return
            parts = (_read_text(self.answer, part) for part in _divide_into_parts(self.answer))
            by_author = [citation for part in parts for citation in self._checker.check_text(part).citations]
            read = {(citation.start, citation.source_index): citation for citation in by_author}
            for sentence in self.answer.sentences:
                for index, citation in enumerate(self._citations.get((sentence.start, sentence.end), [])):
                    if citation.checked_by == "words":
                        again = read.get((citation.start, citation.source_index))
                        again = again or self._checker.find_closest(sentence, {citation.source_index})
                        self._citations[sentence.start, sentence.end][index] = again or citation

    def describe_sentence(self, position: int, *, has_no_text: bool = False) -> VerifiedSentence:
        """Return a sentence with the offsets of the text as sent.

        `has_no_text` is True if no source has a text that the sentence may come from.
        """
        sentence = self.answer.sentences[position]
        citations = tuple(map(self._map_to_original, self._get_citations(position)))
        start, end = self._text.map_span(sentence.start, sentence.end)
        verdict = self._decide_verdict(position) if citations or position not in self._late else "unchecked"
        has_no_verdict = not citations and (has_no_text or not self._is_statement(position, sentence))
        return VerifiedSentence(
            start=start,
            end=end,
            verdict="unchecked" if has_no_verdict else verdict,
            is_cited=position in self._cited,
            citations=citations,
            difference=next(
                (found.difference for found in citations if found.verdict == verdict and found.difference), None
            ),
        )

    def _check(self, part: TextPart) -> range:
        try:
            checked = self._checker.check_text(_read_text(self.answer, part))
            if settle_undecided(self._checker, self._read_support):
                checked = self._checker.check_text(_read_text(self.answer, part))
        except WorkStoppedError:
            self._late.update(range(part.first, part.end))
            self._cited.update(
                position for position in range(part.first, part.end) if self.answer.sentences[position].cited
            )
            return range(part.first, part.end)
        starts = {self.answer.sentences[position].start: position for position in range(part.first, part.end)}
        for citation in checked.citations:
            self._add(citation)
            self._cited.add(starts[citation.start])
        return range(part.first, part.end)

    def _add(self, citation: Citation) -> None:
        self._citations.setdefault((citation.start, citation.end), []).append(citation)

    def _get_citations(self, position: int) -> list[Citation]:
        sentence = self.answer.sentences[position]
        return self._citations.get((sentence.start, sentence.end), [])

    def _decide_verdict(self, position: int) -> Verdict:
        """Return the best verdict of the author's citations; without any, the best verdict of the citations that were found."""
        found = self._get_citations(position)
        of_author = [citation for citation in found if citation.cited_by == "model"] or found
        verdicts: list[Verdict] = [citation.verdict for citation in of_author]
        return max(verdicts, key=_FOUND_SUPPORT.__getitem__, default="unsupported")

    def _is_statement(self, position: int, sentence: AnswerSentence) -> bool:
        return position not in self.answer.labels and self._checker.is_statement(sentence)

    def _map_to_original(self, citation: Citation) -> Citation:
        cells = tuple(cell.model_copy(update=self._map_span(cell.start, cell.end)) for cell in citation.cells)
        difference = citation.difference
        if difference is not None:
            start, end = self._text.map_words(difference.claimed.start, difference.claimed.end)
            difference = difference.model_copy(update={"claimed": TextSpan(start=start, end=end)})
        span = self._map_span(citation.start, citation.end)
        return citation.model_copy(update={**span, "cells": cells, "difference": difference})

    def _map_span(self, start: int, end: int) -> dict[str, int]:
        return dict(zip(("start", "end"), self._text.map_span(start, end), strict=True))


def _is_relevant(citation: Citation, *, may_contradict: bool) -> bool:
    """Return whether a source that was searched for says something about the statement."""
    return citation.verdict in SUPPORTING_VERDICTS or (may_contradict and citation.finding == "contradicts")


def _divide_into_parts(answer: AnswerText) -> list[TextPart]:
    """Return the parts of a text: sentences that share markers, and every other sentence alone."""
    ends = list(
        range(1, len(answer.sentences) + 1)
    )  # for each sentence, where a part that begins with it ends at the earliest
    numbers = [set(sentence.cited) for sentence in answer.sentences]
    for markers in answer.trailing:
        last = markers.sentences.stop if markers.is_on_own_line else min(markers.sentences.stop + 1, len(ends))
        ends[markers.sentences.start] = max(ends[markers.sentences.start], last)
        numbers[markers.sentences.start].update(markers.numbers)
    parts: list[TextPart] = []
    first = 0
    while first < len(ends):
        end, position = ends[first], first
        while position < end:
            end = max(end, ends[position])
            position += 1
        parts.append(TextPart(first, end, frozenset().union(*numbers[first:end])))
        first = end
    return parts


def _read_text(answer: AnswerText, part: TextPart) -> AnswerText:
    """Return a part of an answer. The positions of its markers count from its beginning."""
    trailing = [
        replace(markers, sentences=range(markers.sentences.start - part.first, markers.sentences.stop - part.first))
        for markers in answer.trailing
        if part.first <= markers.sentences.start < part.end
    ]
    labels = {position - part.first for position in answer.labels if part.first <= position < part.end}
    return AnswerText(answer.sentences[part.first : part.end], trailing, labels)
