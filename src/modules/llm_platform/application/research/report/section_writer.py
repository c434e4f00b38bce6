"""Write a report with a slow model: a short answer to the main question, then one to each sub-question."""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import Final

from modules.llm_platform.application.research.report.run import ReportRun
from modules.llm_platform.application.research.report.section_text import SectionedText, fold_text
from modules.llm_platform.application.research.report.stored_writer import StoredWriter
from modules.llm_platform.application.research.write.writing import LATE
from modules.llm_platform.domain.citations.checker import CitationChecker
from modules.llm_platform.domain.citations.marker_completion import MarkerCompleter
from modules.llm_platform.domain.concurrency.deadline import deadline_at
from modules.llm_platform.domain.concurrency.long_work import run_in_thread_if_long
from modules.llm_platform.domain.dtos.answer_dtos import Synthesis, SynthesisPart, SynthesisToken
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.llm_dtos import NOTHING_SPENT, Spending
from modules.llm_platform.domain.exceptions import LLMException
from modules.llm_platform.domain.markdown.sanitizer import sanitize
from modules.llm_platform.domain.ports.synthesizer import ISynthesizer, StreamingSynthesizer, SynthesisRequest
from modules.llm_platform.domain.text.counts import format_count

SECTIONS_VERSION: Final = "1"  # part of the keys of stored reports: raise it when the sections change
MIN_SECTION_TOKENS: Final = 64  # a section may have this many, even if the report becomes longer than its limit
QUOTING_S: Final = 2.0  # the model ends this long before the deadline, so that quotes can take the place of the rest
QUOTED = "stand_in: {sections} quotes, because the model did not write them"


class SectionWriter(StreamingSynthesizer):
    """Asks the writer for the introduction and for each section of a report separately, each from its own passages.

    In a long text, a small model forgets to cite. A short answer has a few hundred tokens of passages, so all sections together
    often have fewer than one prompt with all pages.

    - Each section is yielded and stored as soon as it is finished.
    - Where no passage seems to answer, the writer does not ask the model (`Synthesis.is_doubtful`), and quotes take its place.
    - Quotes also take the place of an answer to a sub-question if the sources support no sentence of it.
    - If the model fails or is late, quotes take the place of the section and of all sections after it.
    - Questions without an answer are listed at the end.

    It does not fail, because quotes need no model.
    """

    writes_reports = True

    def __init__(self, run: ReportRun, writer: ISynthesizer, make_key: Callable[[str], str]) -> None:
        """Create the writer of one report. `make_key` returns the store key of the answer to a question."""
        self.name, self.is_free, self.version = writer.name, writer.is_free, writer.version
        self._run, self._writer, self._make_key = run, writer, make_key
        self._quotes = run.tools.fallback
        self._has_failed = False

    async def stream(self, request: SynthesisRequest) -> AsyncIterator[SynthesisPart]:
        questions = list_section_questions(request.question, request.questions)
        max_tokens = max(MIN_SECTION_TOKENS, request.max_tokens // len(questions))
        asked = replace(request, questions=(), max_tokens=max_tokens, is_streamed=False)
        text = SectionedText(request.question, request.sources, request.language)
        checker = CitationChecker(request.sources, request.language)
        for place, question in enumerate(questions):
            self._run.budget.expect_calls("write", len(questions) - place)
            section = replace(asked, question=question, evidence=() if place else request.evidence)
            answer = await self._write(section)
            if place and not await self._is_supported(answer, section, checker):
                answer = await self._quotes.synthesize(section)
            if part := text.add(question, answer):
                yield SynthesisToken(text=part)
        self._run.budget.expect_calls("write", 0)
        if part := text.finish():
            yield SynthesisToken(text=part)
        if count := self._run.quoted_sections:
            reason = QUOTED.format(sections=format_count(count, "section consists of", "sections consist of"))
            self._run.add_degraded(Degraded(component=self.name, reason=reason))
        yield text.make_synthesis()

    async def _write(self, section: SynthesisRequest) -> Synthesis:
        """Return the answer of the model, or quotes if it fails, is late, or is not asked because no passage seems to answer."""
        if self._has_failed:
            return await self._replace_by_quotes(section, NOTHING_SPENT)
        stored = StoredWriter(self._run, self._writer, self._make_key(section.question))
        try:
            async with deadline_at(self._run.deadline - QUOTING_S):
                synthesis = await stored.synthesize(section)
        except TimeoutError:
            failure, spent = (
                Degraded(component=self.name, reason=LATE),
                Spending.of_unfinished_call(is_free=self.is_free),
            )
        except LLMException as error:
            failure, spent = Degraded.of(self.name, error), error.spent
        else:
            return await self._quote_without_ledger(section) if synthesis.is_doubtful else synthesis
        self._has_failed = True
        self._run.add_degraded(failure)
        return await self._replace_by_quotes(section, spent)

    async def _quote_without_ledger(self, section: SynthesisRequest) -> Synthesis:
        """Return quotes that answer, or that none does. The quotes of the ledger only have the words of the question."""
        return await self._quotes.synthesize(replace(section, evidence=()))

    async def _is_supported(self, answer: Synthesis, section: SynthesisRequest, checker: CitationChecker) -> bool:
        """Return whether the sources support a sentence of what the model wrote. The word comparison decides."""
        if not answer.answered or answer.synthesizer == self._quotes.name:
            return True
        size, text = sum(len(source.text) for source in section.sources), sanitize(answer.text, section.sources)
        return await run_in_thread_if_long(size, _is_supported, text, checker, section.language)

    async def _replace_by_quotes(self, section: SynthesisRequest, spent: Spending) -> Synthesis:
        self._run.quoted_sections += 1
        quoted = await self._quotes.synthesize(section)
        return quoted.model_copy(update={"spent": spent + quoted.spent})


def _is_supported(text: str, checker: CitationChecker, language: str) -> bool:
    completed = MarkerCompleter(checker, language).finish(text)
    return any(citation.verdict == "supported" for citation in checker.check(completed).citations)


def list_section_questions(question: str, sub_questions: Sequence[str]) -> list[str]:
    """Return the main question and the sub-questions, each once."""
    by_text: dict[str, str] = {}
    for text in (question, *sub_questions):
        by_text.setdefault(fold_text(text), text)
    return list(by_text.values())
