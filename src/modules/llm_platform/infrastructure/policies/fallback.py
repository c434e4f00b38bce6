"""Writers in order of preference: the next one writes when one fails."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.llm_dtos import Spending
from modules.llm_platform.domain.dtos.research_dtos import Synthesis, SynthesisPart, SynthesisReset, SynthesisToken
from modules.llm_platform.domain.exceptions import LLMException, LLMTimeoutError
from modules.llm_platform.domain.ports.synthesizer import BaseSynthesizer, ISynthesizer, SynthesisRequest
from shared.exceptions import AppException


@dataclass(slots=True)
class _Failures:
    """The failed writers of one request and what they spent."""

    errors: list[AppException] = field(default_factory=list)
    degraded: list[Degraded] = field(default_factory=list)
    spent: Spending = field(default_factory=Spending)

    def add(self, writer: ISynthesizer, error: AppException) -> None:
        self.errors.append(error)
        self.degraded.append(Degraded.of(writer.name, error))
        if isinstance(error, LLMException):
            self.spent += error.spent

    def added_to(self, synthesis: Synthesis) -> Synthesis:
        if not self.degraded:
            return synthesis
        return synthesis.model_copy(
            update={"spent": self.spent + synthesis.spent, "degraded": (*self.degraded, *synthesis.degraded)}
        )

    def last_error(self) -> AppException:
        """The last error; one of a language model carries what all writers spent."""
        error = self.errors[-1]
        if isinstance(error, LLMException):
            error.spent = self.spent
        return error


class FallbackSynthesizer(BaseSynthesizer):
    """Calls the writers in order until one succeeds. The answer lists the failed ones in `degraded` and includes their cost.

    Every AppException leads to the next writer, a wrong request too: a prompt that is too long for one model must not end a
    research that another writer can finish. When all fail, the last error is raised; so is a timeout in the middle of a
    stream, whose text is worth more than another writer's.
    """

    writes_reports = True  # each writer gets the arguments that it supports

    def __init__(self, writers: Sequence[ISynthesizer]) -> None:
        if not writers:
            raise ValueError("a fallback needs at least one writer")
        self._writers = tuple(writers)
        self.name = writers[0].name
        self.version = "|".join(writer.version for writer in writers)

    async def write(self, request: SynthesisRequest) -> Synthesis:
        failures = _Failures()
        for writer in self._writers:
            try:
                synthesis = await request.synthesize_with(writer)
            except AppException as error:
                failures.add(writer, error)
            else:
                return failures.added_to(synthesis)
        raise failures.last_error()

    async def write_stream(self, request: SynthesisRequest) -> AsyncIterator[SynthesisPart]:
        failures = _Failures()
        for writer in self._writers:
            has_tokens = False
            try:
                async with aclosing(request.stream_with(writer)) as parts:  # type: ignore[type-var]  # async generators
                    async for part in parts:
                        is_reset = isinstance(part, SynthesisReset)
                        has_tokens = isinstance(part, SynthesisToken) or (has_tokens and not is_reset)
                        yield failures.added_to(part) if isinstance(part, Synthesis) else part
            except AppException as error:
                failures.add(writer, error)
                if has_tokens and isinstance(error, LLMTimeoutError):
                    raise failures.last_error() from error  # the caller keeps what was written
                if has_tokens:
                    yield SynthesisReset(reason=f"{writer.name}: {error.code}")
            else:
                return
        raise failures.last_error()
