"""A text that was written before, given again."""

from __future__ import annotations

from collections.abc import Sequence

from modules.llm_platform.domain.dtos.research_dtos import Source, Synthesis
from modules.llm_platform.domain.ports.synthesizer import DEFAULT_MAX_TOKENS, ISynthesizer


class KeptWriter(ISynthesizer):
    """Stands where the writer stood: the same question from the same sources has the same answer, and costs nothing."""

    writes_reports = True

    def __init__(self, synthesis: Synthesis) -> None:
        self.name = synthesis.synthesizer
        self._synthesis = synthesis

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
        return self._synthesis
