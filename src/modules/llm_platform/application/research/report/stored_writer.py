"""Store the text of a report as soon as it is complete, so that a repeated run does not write it again."""

from collections.abc import AsyncIterator
from contextlib import aclosing

from modules.llm_platform.application.research.report.run import ReportRun
from modules.llm_platform.application.research.write.writing import UNFINISHED
from modules.llm_platform.domain.dtos.answer_dtos import Synthesis, SynthesisPart, SynthesisToken
from modules.llm_platform.domain.dtos.llm_dtos import NOTHING_SPENT
from modules.llm_platform.domain.dtos.report_dtos import KeptSynthesis
from modules.llm_platform.domain.markdown.sanitizer import sanitize
from modules.llm_platform.domain.ports.synthesizer import ISynthesizer, StreamingSynthesizer, SynthesisRequest


class StoredWriter(StreamingSynthesizer):
    """Returns the stored text with this key, which costs nothing. If there is none, `writer` writes it.

    The text is stored before its citations are judged, so a process that is killed in between loses no text.
    """

    def __init__(self, run: ReportRun, writer: ISynthesizer, key: str) -> None:
        self.name, self.is_free = writer.name, writer.is_free
        self.version, self.writes_reports = writer.version, writer.writes_reports
        self._run, self._writer, self._key = run, writer, key

    async def stream(self, request: SynthesisRequest) -> AsyncIterator[SynthesisPart]:
        checkpoints = self._run.checkpoints
        if stored := await checkpoints.get("answers", self._key, KeptSynthesis):
            yield SynthesisToken(text=stored.synthesis.text)
            yield stored.synthesis
            return
        async with aclosing(self._writer.stream(request)) as parts:  # type: ignore[type-var]  # an async generator
            async for part in parts:
                # Only the complete text of a model is stored, and only if something of it is left after sanitizing.
                if (
                    isinstance(part, Synthesis)
                    and part.synthesizer != self._run.tools.fallback.name
                    and part.finish_reason not in UNFINISHED
                    and sanitize(part.text, request.sources).strip()
                ):
                    synthesis = part.model_copy(update={"spent": NOTHING_SPENT, "cached": True})
                    await checkpoints.put("answers", self._key, KeptSynthesis(synthesis=synthesis))
                yield part
