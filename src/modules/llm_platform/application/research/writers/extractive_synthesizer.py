"""Writes answers without a language model: quotes from the sources, nothing else."""

import asyncio

from modules.llm_platform.domain.dtos.research_dtos import Synthesis
from modules.llm_platform.domain.evidence.ledger import MAX_QUOTES, evidence_quotes
from modules.llm_platform.domain.extractive.question import read_question
from modules.llm_platform.domain.extractive.rendering import render_answer, render_passage
from modules.llm_platform.domain.extractive.report import write_report
from modules.llm_platform.domain.extractive.selection import select_quotes
from modules.llm_platform.domain.ports.synthesizer import ISynthesizer, SynthesisRequest
from modules.llm_platform.domain.text.language import detect
from modules.llm_platform.domain.text.messages import messages_for

RULES_VERSION = "9"  # part of the keys of stored reports: raise it when the selection or the rendering changes
INLINE_CHARS = 30_000  # all sources together, about 5 ms of work; longer sources are processed in a thread


class ExtractiveSynthesizer(ISynthesizer):
    """Verbatim sentences of the sources, each with its marker; headings and lead-ins are in the requested language.

    Needs no configuration and does not fail. `instructions` and `context` have no effect, because no text is generated.
    """

    name = "extractive"
    version = RULES_VERSION
    writes_reports = True

    async def synthesize(self, request: SynthesisRequest) -> Synthesis:
        if not request.sources:
            text = messages_for(request.language).nothing_found
            return Synthesis(text=text, synthesizer=self.name, answered=False)
        if sum(len(source.text) for source in request.sources) <= INLINE_CHARS:
            return self._extract(request)
        return await asyncio.to_thread(self._extract, request)

    def _extract(self, request: SynthesisRequest) -> Synthesis:
        language, messages = request.language, messages_for(request.language)
        evidence = evidence_quotes(request.evidence, request.sources)
        if request.questions:
            text = write_report(
                request.question, request.questions, request.sources, language, messages, request.max_tokens, evidence
            )
        elif evidence and all(row.state == "answered" for row in request.evidence):
            text = "\n\n".join(render_passage(evidence))
        else:
            question = read_question(request.question, detect(request.question) or language)
            extraction = select_quotes(question, request.sources)
            if evidence:
                # The evidence answers in part: it stands behind the first quote of a source that it lacks. If there are
                # MAX_QUOTES already, the last one gives way to that quote.
                quoted = {quote.source.url for quote in evidence}
                first = [quote for quote in extraction.quotes if quote.source.url not in quoted][:1]
                text = "\n\n".join(render_passage([*first, *evidence][: max(len(evidence), MAX_QUOTES)]))
            else:
                text = render_answer(question, extraction, messages, request.max_tokens)
        return Synthesis(text=text or messages.not_answered, synthesizer=self.name, answered=bool(text))
