"""The port of writers: question and sources in, text with [n] markers out."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TypedDict

from modules.llm_platform.domain.dtos.research_dtos import Source, Synthesis, SynthesisPart, SynthesisToken

DEFAULT_MAX_TOKENS = 2048  # research-bridge.md §3.3


class ISynthesizer(ABC):
    """Somebody who writes an answer from numbered sources, or a report on several questions from whole pages."""

    name: str = "custom"  # in `metadata.synthesizer` and `degraded`
    version: str = ""  # of its prompts or rules: a stored text of another version is not used

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
        and what could not be found.
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
            **report_on(questions, self.synthesize),
        )
        yield SynthesisToken(text=synthesis.text)
        yield synthesis


class ReportWords(TypedDict, total=False):
    """The keyword of a report, as it is passed on."""

    questions: Sequence[str]


def report_on(questions: Sequence[str], write: Callable[..., object]) -> ReportWords:
    """`questions` for `write`; nothing where there are none, and where `write` is older than reports and has no such word.

    Such a writer gives an answer to the whole question instead of a report.
    """
    if not questions:
        return {}
    known = inspect.signature(write).parameters.values()
    takes = any(each.name == "questions" or each.kind is inspect.Parameter.VAR_KEYWORD for each in known)
    return {"questions": questions} if takes else {}
