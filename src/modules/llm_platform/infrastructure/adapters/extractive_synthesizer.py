"""Write an answer without a model: quotes from the sources, nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from modules.llm_platform.domain.dtos.research_dtos import Source, Synthesis
from modules.llm_platform.domain.extractive.question import read_question
from modules.llm_platform.domain.extractive.rendering import render_answer
from modules.llm_platform.domain.extractive.report import write_report
from modules.llm_platform.domain.extractive.selection import select_quotes
from modules.llm_platform.domain.ports.synthesizer import DEFAULT_MAX_TOKENS, ISynthesizer
from modules.llm_platform.domain.text.language import detect
from modules.llm_platform.domain.text.messages import messages_for

RULES_VERSION = "2"  # part of the keys of stored reports: raise it where other sentences are chosen or set otherwise
INLINE_CHARS = 30_000  # of all sources together: about 5 ms of work; more goes to a thread


class ExtractiveSynthesizer(ISynthesizer):
    """Verbatim sentences of the sources, each with its marker, and our own words in the asked language where they are needed.

    Needs nothing and cannot fail. `instructions` are wishes for a text of one's own making, of which there is none here.
    """

    name = "extractive"
    version = RULES_VERSION
    writes_reports = True

    async def synthesize(
        self,
        question: str,
        sources: Sequence[Source],
        language: str,
        *,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        instructions: str | None = None,
        questions: Sequence[str] = (),
    ) -> Synthesis:
        if not sources:
            return Synthesis(text=messages_for(language).nothing_found, synthesizer=self.name, answered=False)
        if sum(len(source.text) for source in sources) <= INLINE_CHARS:
            return self._write(question, questions, sources, language, max_tokens)
        return await asyncio.to_thread(self._write, question, questions, sources, language, max_tokens)

    def _write(
        self, question: str, questions: Sequence[str], sources: Sequence[Source], language: str, max_tokens: int
    ) -> Synthesis:
        own = messages_for(language)
        if questions:
            text = write_report(question, questions, sources, language, own, max_tokens)
        else:
            asked = read_question(question, detect(question) or language)
            text = render_answer(asked, select_quotes(asked, sources), own, max_tokens)
        return Synthesis(text=text or own.not_answered, synthesizer=self.name, answered=bool(text))
