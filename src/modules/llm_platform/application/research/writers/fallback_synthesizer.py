"""Writers in order of preference: the next one writes when one fails."""

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing

from modules.llm_platform.domain.dtos.research_dtos import Synthesis, SynthesisPart, SynthesisReset, SynthesisToken
from modules.llm_platform.domain.exceptions import LLMTimeoutError
from modules.llm_platform.domain.llm.failures import Failures
from modules.llm_platform.domain.ports.synthesizer import ISynthesizer, StreamingSynthesizer, SynthesisRequest
from shared.exceptions import AppException


class FallbackSynthesizer(StreamingSynthesizer):
    """Calls the writers in order until one succeeds. The answer lists the failed ones in `degraded` and includes their cost.

    Every AppException leads to the next writer, a wrong request too: a prompt that is too long for one model must not end a
    research that another writer can finish. When all fail, the last error is raised; so is a timeout in the middle of a
    stream, whose text is worth more than another writer's.
    """

    writes_reports = True  # a writer gets the arguments that it supports

    def __init__(self, writers: Sequence[ISynthesizer]) -> None:
        if not writers:
            raise ValueError("a fallback needs at least one writer")
        self._writers = tuple(writers)
        self.name = writers[0].name
        self.version = "|".join(writer.version for writer in writers)

    async def stream(self, request: SynthesisRequest) -> AsyncIterator[SynthesisPart]:
        failures = Failures()
        for writer in self._writers:
            has_tokens = False
            try:
                async with aclosing(request.stream_with(writer)) as parts:  # type: ignore[type-var]  # async generators
                    async for part in parts:
                        is_reset = isinstance(part, SynthesisReset)
                        has_tokens = isinstance(part, SynthesisToken) or (has_tokens and not is_reset)
                        yield failures.added_to(part) if isinstance(part, Synthesis) else part
            except AppException as error:
                failures.add(writer.name, error)
                if has_tokens and isinstance(error, LLMTimeoutError):
                    raise failures.last_error() from error  # the caller keeps what was written
                if has_tokens:
                    yield SynthesisReset(reason=f"{writer.name}: {error.code}")
            else:
                return
        raise failures.last_error()
