"""Let the next writer write when one fails."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.llm_dtos import Spending
from modules.llm_platform.domain.dtos.research_dtos import (
    Source,
    Synthesis,
    SynthesisPart,
    SynthesisReset,
    SynthesisToken,
)
from modules.llm_platform.domain.exceptions import LLMException
from modules.llm_platform.domain.ports.synthesizer import DEFAULT_MAX_TOKENS, ISynthesizer, report_arguments
from shared.exceptions import AppException


@dataclass(slots=True)
class _Failures:
    """What went wrong so far and what it cost."""

    last: AppException | None = None
    degraded: list[Degraded] = field(default_factory=list)
    spent: Spending = field(default_factory=Spending)

    def add(self, writer: ISynthesizer, error: AppException) -> None:
        self.last = error
        self.degraded.append(Degraded.of(writer.name, error))
        if isinstance(error, LLMException):
            self.spent += error.spent

    def told_by(self, synthesis: Synthesis) -> Synthesis:
        if not self.degraded:
            return synthesis
        return synthesis.model_copy(
            update={"spent": self.spent + synthesis.spent, "degraded": (*self.degraded, *synthesis.degraded)}
        )

    def raised(self) -> AppException:
        """The last error, which tells what all tries cost."""
        if self.last is None:
            raise ValueError("nothing failed")
        if isinstance(self.last, LLMException):
            self.last.spent = self.spent
        return self.last


class FallbackSynthesizer(ISynthesizer):
    """Writers in order, until one writes. `degraded` of the answer says who could not and why, `spent` what that cost.

    Any AppException passes on to the next, a wrong request too: a prompt that is too long for one model must not end a
    research that another writer can finish. When all fail, the last error is raised.
    """

    writes_reports = True  # each writer gets what it takes

    def __init__(self, writers: Sequence[ISynthesizer]) -> None:
        if not writers:
            raise ValueError("a fallback needs at least one writer")
        self._writers = tuple(writers)
        self.name = writers[0].name  # whose turn it is: the others step in for it
        self.version = "|".join(writer.version for writer in writers)

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
        failures = _Failures()
        for writer in self._writers:
            try:
                written = await writer.synthesize(
                    question,
                    sources,
                    language,
                    max_tokens=max_tokens,
                    instructions=instructions,
                    **report_arguments(writer, questions),
                )
            except AppException as error:
                failures.add(writer, error)
            else:
                return failures.told_by(written)
        raise failures.raised()

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
        failures = _Failures()
        for writer in self._writers:
            shown = False
            parts = writer.stream(
                question,
                sources,
                language,
                max_tokens=max_tokens,
                instructions=instructions,
                **report_arguments(writer, questions),
            )
            try:
                async with aclosing(parts) as stream:  # type: ignore[type-var]  # every implementation is an async generator
                    async for part in stream:
                        shown = isinstance(part, SynthesisToken) or (shown and not isinstance(part, SynthesisReset))
                        yield failures.told_by(part) if isinstance(part, Synthesis) else part
            except AppException as error:
                failures.add(writer, error)
                if shown:
                    yield SynthesisReset(reason=f"{writer.name}: {error.code}")
            else:
                return
        raise failures.raised()
