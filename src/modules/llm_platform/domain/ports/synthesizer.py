"""The port of writers: question and sources in, text with [n] markers out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence

from modules.llm_platform.domain.dtos.research_dtos import Source, Synthesis, SynthesisPart, SynthesisToken

DEFAULT_MAX_TOKENS = 2048  # research-bridge.md §3.3


class ISynthesizer(ABC):
    """Somebody who writes an answer from numbered sources."""

    name: str = "custom"  # in `metadata.synthesizer` and `degraded`

    @abstractmethod
    async def synthesize(
        self,
        question: str,
        sources: Sequence[Source],
        language: str,
        *,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        instructions: str | None = None,
    ) -> Synthesis:
        """Markdown that cites sources as [n] by their `index`; says plainly when they do not answer (`answered` False).

        The text is not trusted: callers sanitise it and check its citations. Raises an AppException when nothing could be
        written. `language` is the BCP 47 tag of the answer; `instructions` are the person's own wishes for the text.
        """

    async def stream(
        self,
        question: str,
        sources: Sequence[Source],
        language: str,
        *,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        instructions: str | None = None,
    ) -> AsyncIterator[SynthesisPart]:
        """The same piece by piece: SynthesisToken…, then one Synthesis with the tokens since the last reset joined.

        A writer that has nothing to stream gives its text as one token, which is what this default does.
        """
        synthesis = await self.synthesize(question, sources, language, max_tokens=max_tokens, instructions=instructions)
        yield SynthesisToken(text=synthesis.text)
        yield synthesis
