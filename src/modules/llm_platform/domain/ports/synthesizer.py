"""The port of writers: question and sources in, text with [n] markers out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

from modules.llm_platform.domain.dtos.research_dtos import Source, Synthesis, SynthesisPart, SynthesisToken

DEFAULT_MAX_TOKENS = 2048  # requirements RB8 to RB11


class ISynthesizer(ABC):
    """Writes an answer from numbered sources, or a report on several questions from complete pages."""

    name: str = "custom"  # in `metadata.synthesizer` and `degraded`
    version: str = ""  # of its prompts or rules: a stored text of another version is not used
    writes_reports: bool = False  # takes `questions`; a writer that does not is asked for one answer to the whole question

    @abstractmethod
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
        """Markdown that cites sources as [n] by their `index`; says plainly when they do not answer (`answered` False).

        The text is not trusted: callers sanitise it and check its citations. Raises an AppException when nothing could be
        written. `language` is the BCP 47 tag of the answer; `instructions` are the person's own wishes for the text.

        With `questions` the text is a report: an introduction, one `##` section for each of them, where the sources disagree,
        and what could not be found. Only a writer with `writes_reports` gets them.
        """

    async def stream(
        self,
        question: str,
        sources: Sequence[Source],
        language: str,
        *,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        instructions: str | None = None,
        questions: Sequence[str] = (),
    ) -> AsyncIterator[SynthesisPart]:
        """The same piece by piece: SynthesisToken…, then one Synthesis with the tokens since the last reset joined.

        A writer that has nothing to stream gives its text as one token, which is what this default does.
        """
        request = SynthesisRequest(question, sources, language, max_tokens, instructions, questions)
        synthesis = await request.synthesize_with(self)
        yield SynthesisToken(text=synthesis.text)
        yield synthesis


@dataclass(frozen=True, slots=True)
class SynthesisRequest:
    """The arguments of `ISynthesizer.synthesize` and `ISynthesizer.stream` as one value."""

    question: str
    sources: Sequence[Source]
    language: str
    max_tokens: int = DEFAULT_MAX_TOKENS
    instructions: str | None = None
    questions: Sequence[str] = ()

    async def synthesize_with(self, writer: ISynthesizer) -> Synthesis:
        """The text of `writer` for this request."""
        return await writer.synthesize(self.question, self.sources, self.language, **self._options(writer))

    def stream_with(self, writer: ISynthesizer) -> AsyncIterator[SynthesisPart]:
        """The text of `writer` for this request, piece by piece."""
        return writer.stream(self.question, self.sources, self.language, **self._options(writer))

    def _options(self, writer: ISynthesizer) -> dict[str, Any]:
        """The keyword arguments; `questions` only for a writer of reports: another one may not know the parameter."""
        options: dict[str, Any] = {"max_tokens": self.max_tokens, "instructions": self.instructions}
        return options | ({"questions": self.questions} if self.questions and writer.writes_reports else {})


class BaseSynthesizer(ISynthesizer):
    """Takes the arguments as one SynthesisRequest. Subclasses implement `write`, and `write_stream` if they can stream."""

    @abstractmethod
    async def write(self, request: SynthesisRequest) -> Synthesis:
        """`synthesize` for this request."""

    async def write_stream(self, request: SynthesisRequest) -> AsyncIterator[SynthesisPart]:
        """`stream` for this request; by default the whole text as one token."""
        synthesis = await self.write(request)
        yield SynthesisToken(text=synthesis.text)
        yield synthesis

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
        return await self.write(SynthesisRequest(question, sources, language, max_tokens, instructions, questions))

    def stream(
        self,
        question: str,
        sources: Sequence[Source],
        language: str,
        *,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        instructions: str | None = None,
        questions: Sequence[str] = (),
    ) -> AsyncIterator[SynthesisPart]:
        return self.write_stream(SynthesisRequest(question, sources, language, max_tokens, instructions, questions))
