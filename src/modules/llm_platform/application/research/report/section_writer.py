"""Write a report with a slow model: a short answer to the main question, then one to each sub-question."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import Final

from modules.llm_platform.application.research.report.run import ReportRun
from modules.llm_platform.application.research.report.section_text import Section, SectionedText, fold_text
from modules.llm_platform.application.research.report.stored_writer import StoredWriter
from modules.llm_platform.application.research.write.writing import LATE
from modules.llm_platform.domain.citations.checker import CitationChecker
from modules.llm_platform.domain.citations.marker_completion import MarkerCompleter
from modules.llm_platform.domain.concurrency.deadline import deadline_at
from modules.llm_platform.domain.concurrency.long_work import run_in_thread_if_long
from modules.llm_platform.domain.dtos.answer_dtos import Synthesis, SynthesisPart, SynthesisToken
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.exceptions import LLMException
from modules.llm_platform.domain.markdown.sanitizer import sanitize
from modules.llm_platform.domain.ports.support_model import ENGLISH
from modules.llm_platform.domain.ports.synthesizer import (
    EXTRACTIVE,
    ISynthesizer,
    StreamingSynthesizer,
    SynthesisRequest,
)
from modules.llm_platform.domain.text.counts import format_count
from modules.llm_platform.domain.text.language import get_primary_subtag

SECTIONS_VERSION: Final = "1"  # part of the keys of stored reports: raise it when the sections change
MIN_SECTION_TOKENS: Final = 64  # a section may have this many, even if the report becomes longer than its limit
# For each remaining section, the model must stop this long before the deadline, so that quotes can replace the section.
# The models of the package take up to 1.6 s for a section of five pages.
QUOTING_S: Final = 2.0
MAX_QUOTING_SHARE: Final = 0.3  # of the time that is left
QUOTED: Final = "stand_in: {sections} quotes, because the model did not write them"
UNSUPPORTED: Final = "unsupported: {sections} quotes, because the sources support no sentence of what the model wrote"


class SectionWriter(StreamingSynthesizer):
    """Asks the writer for the introduction and for each section of a report separately, each from its own passages.

    In a long text, a small model forgets to cite. A short answer has a few hundred tokens of passages, so all sections together
    often have fewer than one prompt with all pages.

    Each section is yielded and stored as soon as it is finished. Quotes take the place of a section in these cases:

    - No passage seems to answer a sub-question, so the writer does not ask the model.
    - The sources support no sentence of what the model wrote. An introduction stays unless no passage seemed to answer its
      question, because it may compare several pages.
    - The model failed or was late, in this section or in one before it.

    Questions without an answer are listed at the end. It does not fail, because quotes need no model.
    """

    writes_reports = True

    def __init__(self, run: ReportRun, writer: ISynthesizer, make_key: Callable[[str], str]) -> None:
        """Create the writer of one report. `make_key` returns the store key of the answer to a question."""
        self.name, self.is_free, self.version = writer.name, writer.is_free, writer.version
        self._run, self._writer, self._make_key = run, writer, make_key
        self._has_failed = False
        self._unsupported_sections = 0

    async def stream(self, request: SynthesisRequest) -> AsyncIterator[SynthesisPart]:
        questions = list_section_questions(request.question, request.questions)
        max_tokens = max(MIN_SECTION_TOKENS, request.max_tokens // len(questions))
        asked = replace(request, questions=(), max_tokens=max_tokens, is_streamed=False)
        checker = CitationChecker(request.sources, request.language)
        text = SectionedText(request.question, request.sources, request.language)
        for place, question in enumerate(questions):
            left = len(questions) - place
            self._run.budget.expect_calls("write", left)
            section = replace(
                asked, question=question, evidence=() if place else request.evidence, asks_in_doubt=not place
            )
            answer = await self._ask(section, left)
            if answer is None or not await self._is_kept(answer, section, checker, is_introduction=not place):
                answer = await self._run.tools.fallback.synthesize(replace(section, evidence=()))
            if part := text.add(Section(question, answer, is_quoted=self._is_quoted(answer))):
                yield SynthesisToken(text=part)
        self._run.budget.expect_calls("write", 0)
        if part := text.finish():
            yield SynthesisToken(text=part)
        self._report_quotes(self._run.quoted_sections, QUOTED)
        self._report_quotes(self._unsupported_sections, UNSUPPORTED)
        yield text.make_synthesis()

    async def _ask(self, section: SynthesisRequest, left: int) -> Synthesis | None:
        """Return what the model writes; None if it fails or is late, or has done so before. `left` sections are not written."""
        if not self._has_failed:
            stored = StoredWriter(self._run, self._writer, self._make_key(section.question))
            try:
                async with deadline_at(self._run.deadline - self._reserve_seconds(left)):
                    return await stored.synthesize(section)
            except TimeoutError:
                self._run.add_degraded(Degraded(component=self.name, reason=LATE))
            except LLMException as error:
                self._run.add_degraded(Degraded.of(self.name, error))
            self._has_failed = True
        self._run.quoted_sections += 1
        return None

    def _reserve_seconds(self, left: int) -> float:
        """Return the seconds to keep for the quotes of this many sections."""
        remaining = max(0.0, self._run.deadline - asyncio.get_running_loop().time())
        return min(left * QUOTING_S, remaining * MAX_QUOTING_SHARE)

    async def _is_kept(
        self, answer: Synthesis, section: SynthesisRequest, checker: CitationChecker, *, is_introduction: bool
    ) -> bool:
        """Return whether an answer stays in the report.

        It stays if the sources support one of its sentences, by the word comparison, or if that is not known: only English is
        compared, and only without wishes of the reader and without a judge.
        """
        if self._is_quoted(answer):
            return not answer.is_doubtful  # rows of a table, or nothing, because the model was not asked
        is_compared = get_primary_subtag(section.language) == ENGLISH and not section.has_wishes
        if (
            not (is_compared and answer.answered)
            or self._run.tools.judge
            or (is_introduction and not answer.is_doubtful)
        ):
            return True
        size, text = sum(len(source.text) for source in section.sources), sanitize(answer.text, section.sources)
        if await run_in_thread_if_long(size, has_supported_sentence, text, checker, section.language):
            return True
        self._unsupported_sections += 1
        return False

    def _is_quoted(self, answer: Synthesis) -> bool:
        return answer.synthesizer in (EXTRACTIVE, self._run.tools.fallback.name)

    def _report_quotes(self, count: int, reason: str) -> None:
        if count:
            sections = format_count(count, "section consists of", "sections consist of")
            self._run.add_degraded(Degraded(component=self.name, reason=reason.format(sections=sections)))


def has_supported_sentence(text: str, checker: CitationChecker, language: str) -> bool:
    """Return whether a source supports a sentence of a sanitised text, or whether one could not be compared."""
    completed = MarkerCompleter(checker, language).finish(text)
    return any(citation.verdict in ("supported", "unchecked") for citation in checker.check(completed).citations)


def list_section_questions(question: str, sub_questions: Sequence[str]) -> list[str]:
    """Return the main question and the sub-questions, each once."""
    by_text: dict[str, str] = {}
    for text in (question, *sub_questions):
        by_text.setdefault(fold_text(text), text)
    return list(by_text.values())
