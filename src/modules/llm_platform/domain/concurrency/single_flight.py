"""Callers with equal keys share one call while it runs."""

import asyncio
import copy
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Hashable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from modules.llm_platform.domain.concurrency.deadline import Deadline, current_deadline, set_deadline
from modules.llm_platform.domain.concurrency.task_group import cancel_and_wait
from modules.llm_platform.domain.dtos.llm_dtos import NOTHING_SPENT
from modules.llm_platform.domain.exceptions import LLMException
from shared.exceptions import AppException

Value = TypeVar("Value")
Emit = Callable[[Value], None]


class Part(NamedTuple, Generic[Value]):
    """One part of what a shared call produces.

    - `has_joined` is True if another caller started the call, and accounts for its cost.
    - `is_past` is True if the part came before this caller joined.
    """

    value: Value
    has_joined: bool
    is_past: bool


@dataclass(slots=True, eq=False)
class _Flight(Generic[Value]):
    """One call in a task of its own, the parts that it has produced, and the number of callers that wait for it."""

    deadline: Deadline
    parts: list[Value] = field(default_factory=list)
    waiters: int = 0
    progress: asyncio.Future[None] = field(default_factory=asyncio.Future)  # replaced with each part
    task: asyncio.Task[None] = field(init=False)

    def emit(self, part: Value) -> None:
        self.parts.append(part)
        self.progress.set_result(None)
        self.progress = asyncio.Future()


class SingleFlight(Generic[Value]):
    """Callers with equal keys share one call while it runs.

    The call runs in its own task, with the context variables of the first caller and the latest deadline of all callers. It
    is cancelled, and its end awaited, when the last caller leaves; until then a cancelled caller, the first one too, changes
    nothing for the others. An error goes to all callers of that call. The next caller after its end starts a new call.
    """

    def __init__(self) -> None:
        self._flights: dict[Hashable, _Flight[Value]] = {}

    def __contains__(self, key: Hashable) -> bool:
        """Return whether a call with this key runs."""
        return key in self._flights

    async def run(self, key: Hashable, start: Callable[[], Awaitable[Value]]) -> tuple[Value, bool]:
        """Return the result, and whether this caller joined the call of another one, which accounts for its cost."""
        flight, has_joined = self._join(key, start=start)
        try:
            await asyncio.wait((flight.task,))
            if error := flight.task.exception():
                raise _copy_error(error) if has_joined else error
            return flight.parts[0], has_joined
        finally:
            await self._leave(key, flight)

    async def stream(
        self, key: Hashable, work: Callable[[Emit[Value]], Awaitable[None]]
    ) -> AsyncGenerator[Part[Value]]:
        """Yield all parts of one call from its beginning. `work` calls its argument with each of them."""
        flight, has_joined = self._join(key, work=work)
        past, position = len(flight.parts), 0
        try:
            while position < len(flight.parts) or not flight.task.done():
                if position == len(flight.parts):
                    await asyncio.wait((flight.task, flight.progress), return_when=asyncio.FIRST_COMPLETED)
                else:
                    position += 1
                    yield Part(flight.parts[position - 1], has_joined, position <= past)
            if error := flight.task.exception():
                raise _copy_error(error) if has_joined else error
        finally:
            await self._leave(key, flight)

    async def aclose(self) -> None:
        """Cancel all running calls."""
        await cancel_and_wait(*(flight.task for flight in self._flights.values()))

    def _join(
        self,
        key: Hashable,
        *,
        start: Callable[[], Awaitable[Value]] | None = None,
        work: Callable[[Emit[Value]], Awaitable[None]] | None = None,
    ) -> tuple[_Flight[Value], bool]:
        """Return the running call with this key, or a new one, and whether it is another caller's."""
        flight = self._flights.get(key)
        has_joined = flight is not None and not flight.task.done()
        if flight is None or not has_joined:
            flight = self._flights[key] = _Flight(Deadline(current_deadline()))
            flight.task = asyncio.create_task(self._call(flight, start, work))
        else:
            flight.deadline.extend(current_deadline())
        flight.waiters += 1
        return flight, has_joined

    async def _call(
        self,
        flight: _Flight[Value],
        start: Callable[[], Awaitable[Value]] | None,
        work: Callable[[Emit[Value]], Awaitable[None]] | None,
    ) -> None:
        set_deadline(flight.deadline)
        if start is not None:
            flight.parts.append(await start())
        if work is not None:
            await work(flight.emit)

    async def _leave(self, key: Hashable, flight: _Flight[Value]) -> None:
        flight.waiters -= 1
        if flight.waiters:
            return
        if self._flights.get(key) is flight:
            del self._flights[key]
        await cancel_and_wait(flight.task)  # a flight that has just failed is awaited too: this drops its error


async def emit_all(start: Callable[[], AsyncIterator[Value]], emit: Emit[Value]) -> None:
    """Emit the parts of an async generator, and close it."""
    async with aclosing(start()) as parts:  # type: ignore[type-var]  # async generators
        async for part in parts:
            emit(part)


def _copy_error(error: BaseException) -> BaseException:
    """Return the error for a caller that joined: a copy, because policies change the cost of an error, and it costs nothing."""
    if not isinstance(error, AppException):
        return error
    shared = copy.copy(error)
    shared.__cause__ = error.__cause__
    if isinstance(shared, LLMException):
        shared.spent = NOTHING_SPENT
    return shared
