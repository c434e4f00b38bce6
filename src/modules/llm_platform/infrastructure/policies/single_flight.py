"""Single flight: identical calls at the same time become one call of the service. Nothing is cached."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Hashable
from contextlib import aclosing
from typing import Generic, TypeVar

from modules.llm_platform.domain.deadline import Deadline, current_deadline, set_deadline
from modules.llm_platform.domain.dtos.llm_dtos import NOTHING_SPENT, LLMRequest, LLMResponse, LLMStreamPart
from modules.llm_platform.domain.dtos.research_dtos import Synthesis, SynthesisPart
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest, WebSearchResponse
from modules.llm_platform.domain.exceptions import LLMException
from modules.llm_platform.domain.ports.llm import ILLMProvider
from modules.llm_platform.domain.ports.synthesizer import BaseSynthesizer, ISynthesizer, SynthesisRequest
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from modules.llm_platform.domain.task_group import cancel_and_wait
from modules.llm_platform.infrastructure.policies.base import LLMPolicy, WebSearchPolicy
from shared.exceptions import AppException

Value = TypeVar("Value")


class _Flight(Generic[Value]):
    """One call in a task of its own, the parts that it has produced, and the number of callers that wait for it."""

    def __init__(self, parts: AsyncIterator[Value]) -> None:
        self.parts: list[Value] = []
        self.waiters = 0
        self.progress = asyncio.Event()  # replaced with each part
        self.deadline = Deadline(current_deadline())
        self.task = asyncio.create_task(self._collect(parts))
        self.task.add_done_callback(self._finish)

    async def _collect(self, parts: AsyncIterator[Value]) -> None:
        set_deadline(self.deadline)
        async with aclosing(parts) as open_parts:  # type: ignore[type-var]  # async generators
            async for part in open_parts:
                self.parts.append(part)
                self._wake()

    def _wake(self) -> None:
        self.progress.set()
        self.progress = asyncio.Event()

    def _finish(self, task: asyncio.Task[None]) -> None:
        self._wake()
        if not task.cancelled():
            task.exception()  # marks it as retrieved: the callers may be gone


class SingleFlight(Generic[Value]):
    """Callers with equal keys share one call while it runs.

    The call runs in its own task, with the context variables of the first caller and the latest deadline of all callers. It
    is cancelled, and its end awaited, when the last caller leaves; until then a cancelled caller, the first one too, changes
    nothing for the others. An error goes to all callers of that call. The next caller after its end starts a new call.
    """

    def __init__(self) -> None:
        self._flights: dict[Hashable, _Flight[Value]] = {}

    async def run(self, key: Hashable, start: Callable[[], Awaitable[Value]]) -> tuple[Value, bool]:
        """The result, and whether this caller joined the call of another one, which accounts for its cost."""

        async def only_part() -> AsyncIterator[Value]:
            yield await start()

        async with aclosing(self.stream(key, only_part)) as parts:
            return await anext(parts)

    async def stream(
        self, key: Hashable, start: Callable[[], AsyncIterator[Value]]
    ) -> AsyncGenerator[tuple[Value, bool]]:
        """All parts of one stream from its beginning, each with the flag of `run`."""
        flight = self._flights.get(key)
        has_joined = flight is not None and not flight.task.done()
        if flight is None or not has_joined:
            flight = self._flights[key] = _Flight(start())
        flight.deadline.extend(current_deadline())
        flight.waiters += 1
        position = 0
        try:
            while position < len(flight.parts) or not flight.task.done():
                if position == len(flight.parts):
                    await flight.progress.wait()
                else:
                    position += 1
                    yield flight.parts[position - 1], has_joined
            if error := flight.task.exception():
                raise _shared(error) if has_joined else error
        finally:
            flight.waiters -= 1
            if not flight.waiters:
                if self._flights.get(key) is flight:
                    del self._flights[key]
                await cancel_and_wait(flight.task)


def _shared(error: BaseException) -> BaseException:
    """The error for a caller that joined: a copy, because policies change the cost of an error, and it costs nothing."""
    if not isinstance(error, AppException):
        return error
    shared = copy.copy(error)
    shared.__cause__ = error.__cause__
    if isinstance(shared, LLMException):
        shared.spent = NOTHING_SPENT
    return shared


class SingleFlightWebSearch(WebSearchPolicy):
    """Equal searches at the same time are one search. Those that join it get its response with `cached` set."""

    def __init__(self, provider: IWebSearchProvider) -> None:
        super().__init__(provider)
        self._flights: SingleFlight[WebSearchResponse] = SingleFlight()

    async def search(self, request: WebSearchRequest) -> WebSearchResponse:
        answer, is_shared = await self._flights.run(request, lambda: self._provider.search(request))
        return answer.model_copy(update={"cached": True}) if is_shared and not answer.cached else answer


class SingleFlightLLM(LLMPolicy):
    """Equal requests for a complete answer at the same time are one call; those that join it spend nothing.

    For prompts of the platform (a plan). Streams, and the chats of users, who expect an answer of their own, pass through.
    """

    def __init__(self, provider: ILLMProvider) -> None:
        super().__init__(provider)
        self._flights: SingleFlight[LLMResponse] = SingleFlight()

    async def generate(self, request: LLMRequest) -> LLMResponse:
        key = request.model_dump_json()  # a request with a JSON schema has no hash
        answer, is_shared = await self._flights.run(key, lambda: self._provider.generate(request))
        return answer.model_copy(update={"spent": NOTHING_SPENT}) if is_shared else answer

    def stream(self, request: LLMRequest) -> AsyncIterator[LLMStreamPart]:
        return self._provider.stream(request)


class SingleFlightSynthesizer(BaseSynthesizer):
    """The same request over the same sources is written once at a time, complete or as a stream.

    Callers that join get the text from its beginning, marked as `cached`, and spend nothing.
    """

    def __init__(self, writer: ISynthesizer) -> None:
        self.name = writer.name
        self.version = writer.version
        self.writes_reports = writer.writes_reports
        self._writer = writer
        self._flights: SingleFlight[Synthesis] = SingleFlight()
        self._streams: SingleFlight[SynthesisPart] = SingleFlight()

    async def write(self, request: SynthesisRequest) -> Synthesis:
        synthesis, is_shared = await self._flights.run(_key(request), lambda: request.synthesize_with(self._writer))
        return _joined(synthesis) if is_shared else synthesis

    async def write_stream(self, request: SynthesisRequest) -> AsyncIterator[SynthesisPart]:
        stream = self._streams.stream(_key(request), lambda: request.stream_with(self._writer))
        async with aclosing(stream) as parts:
            async for part, is_shared in parts:
                yield _joined(part) if is_shared and isinstance(part, Synthesis) else part


def _key(request: SynthesisRequest) -> Hashable:
    limits = (request.max_tokens, request.instructions)
    return (request.question, tuple(request.questions), tuple(request.sources), request.language, limits)


def _joined(synthesis: Synthesis) -> Synthesis:
    return synthesis.model_copy(update={"cached": True, "spent": NOTHING_SPENT})
