"""The port of writers: question and sources in, text with [n] markers out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Final

from modules.llm_platform.domain.dtos.answer_dtos import Synthesis, SynthesisPart, SynthesisToken
from modules.llm_platform.domain.dtos.evidence_dtos import EvidenceRow
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.exceptions import LLMProviderException

EXTRACTIVE: Final = "extractive"  # the name of the synthesizer that quotes sources instead of calling a model
DEFAULT_MAX_TOKENS = 2048  # length of an answer, unless a setting says otherwise
NO_SYNTHESIS = "The writer's stream ended without an answer: use another writer"


@dataclass(frozen=True, slots=True)
class SynthesisRequest:
    """A text to write.

    - `language` is the BCP 47 tag of the answer.
    - `instructions` are the person's own wishes for the text.
    - `context` is text of the person beyond the question. It is untrusted data, and no source.
    - `evidence` are the rows of the ledger whose answer takes sentences of several sources, quoted from `sources`.
    - `is_streamed` is False if nobody reads the text before its end, so that it may come in larger parts.
    - `asks_in_doubt` is False if a model need not be asked where no passage seems to answer.

    With `questions` the text is a report: an introduction, one `##` section for each of them that has an answer, and what could
    not be found. Only a writer with `writes_reports` gets them.
    """

    question: str
    sources: Sequence[Source]
    language: str
    max_tokens: int = DEFAULT_MAX_TOKENS
    instructions: str | None = None
    questions: Sequence[str] = ()
    context: str | None = None
    evidence: Sequence[EvidenceRow] = ()
    is_streamed: bool = True
    asks_in_doubt: bool = True

    @property
    def has_wishes(self) -> bool:
        """True if the person says more than the question: how to write, or about what."""
        return bool(self.instructions or self.context)

    def stream_with(self, writer: ISynthesizer) -> AsyncIterator[SynthesisPart]:
        """Return the text of `writer` for this request; of one that writes no reports, one answer to the whole question."""
        return writer.stream(self if writer.writes_reports or not self.questions else replace(self, questions=()))


class ISynthesizer(ABC):
    """Writes an answer from numbered sources, or a report on several questions from complete pages."""

    name: str = "custom"  # shown in `metadata.synthesizer` and `degraded`
    is_free: bool = False  # True if every text costs nothing
    is_small: bool = False  # True if a model writes that reads only a few passages
    version: str = ""  # version of its prompts or rules: a stored text of another version is not used
    writes_reports: bool = (
        False  # takes `questions`; a writer that does not is asked for one answer to the whole question
    )
    writes_sections: bool = False  # a report asks it for each section separately, as for a short answer

    @property
    def report_version(self) -> str:
        """The version of its prompts or rules for reports."""
        return self.version

    def begin_loading(self) -> None:
        """Load in the background what it needs. It is called while the sources are searched, and safe to call often."""
        return

    @abstractmethod
    async def synthesize(self, request: SynthesisRequest) -> Synthesis:
        """Return Markdown that cites sources as [n] by their `index`. If they do not answer, it says so (`answered` is False).

        The text is not trusted: callers sanitise it and check its citations. Raises an AppException when nothing could be
        written.
        """

    async def stream(self, request: SynthesisRequest) -> AsyncIterator[SynthesisPart]:
        """Yield the text piece by piece: SynthesisToken…, then one Synthesis with the tokens since the last reset joined.

        A writer that has nothing to stream gives its text as one token, which is what this default does.
        """
        synthesis = await self.synthesize(request)
        yield SynthesisToken(text=synthesis.text, is_doubtful=synthesis.is_doubtful)
        yield synthesis


class StreamingSynthesizer(ISynthesizer):
    """A writer whose complete text is the end of its stream."""

    @abstractmethod
    def stream(self, request: SynthesisRequest) -> AsyncIterator[SynthesisPart]:
        """Yield the answer as the port says."""

    async def synthesize(self, request: SynthesisRequest) -> Synthesis:
        last: SynthesisPart | None = None
        async with aclosing(self.stream(request)) as parts:  # type: ignore[type-var]  # an async generator
            async for part in parts:
                last = part  # the stream is drained, so that wrappers of the call record success
        if isinstance(last, Synthesis):
            return last
        raise LLMProviderException(NO_SYNTHESIS)
