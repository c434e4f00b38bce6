"""The port of writers: question and sources in, text with [n] markers out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from typing import TypedDict

from modules.llm_platform.domain.dtos.research_dtos import Source, Synthesis, SynthesisPart, SynthesisToken

DEFAULT_MAX_TOKENS = 2048  # requirements RB8 to RB11


class ISynthesizer(ABC):
    """Somebody who writes an answer from numbered sources, or a report on several questions from whole pages."""

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
        synthesis = await self.synthesize(
            question,
            sources,
            language,
            max_tokens=max_tokens,
            instructions=instructions,
            **report_arguments(self, questions),
        )
        yield SynthesisToken(text=synthesis.text)
        yield synthesis


class ReportArguments(TypedDict, total=False):
    """The keyword arguments that make a text a report."""

    questions: Sequence[str]


def report_arguments(writer: ISynthesizer, questions: Sequence[str]) -> ReportArguments:
    """`questions` as keyword arguments for `writer`; none where there are no questions or it writes no reports."""
    return {"questions": questions} if questions and writer.writes_reports else {}
