"""Let a caller ask a research run to end its search and to write from what it has found."""

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TypeVar

Result = TypeVar("Result")


class EarlyFinish:
    """Ends the blocks of one run that search and read, when its caller asks and something is found; until then it is not due.

    After `close`, when the run begins to write, nothing changes any more.
    """

    def __init__(self) -> None:
        self.is_asked = False
        self.is_due = False
        self._has_found = False
        self._is_closed = False
        self._timeouts: set[asyncio.Timeout] = set()
        self._listeners: list[Callable[[], None]] = []

    def ask(self) -> None:
        """Ask for the end. A second call does nothing."""
        self.is_asked = True
        self._check()
        for listener in tuple(self._listeners):
            listener()

    def found(self) -> None:
        """Note that something was found from which a text can be written."""
        self._has_found = True
        self._check()

    def close(self) -> None:
        """Ignore later requests, because the search has ended."""
        self._is_closed = True

    def _check(self) -> None:
        if self.is_due or self._is_closed or not (self.is_asked and self._has_found):
            return
        self.is_due = True
        for timeout in self._timeouts:
            if not timeout.expired():
                timeout.reschedule(asyncio.get_running_loop().time())

    @asynccontextmanager
    async def limit(self, until: float = math.inf) -> AsyncIterator[None]:
        """Cancel the block when the end is due, and at `until` (event loop time); it raises TimeoutError then."""
        async with asyncio.timeout_at(asyncio.get_running_loop().time() if self.is_due else until) as timeout:
            self._timeouts.add(timeout)
            try:
                yield
            finally:
                self._timeouts.discard(timeout)

    async def wait(
        self,
        tasks: Iterable[asyncio.Task[Result]],
        until: float = math.inf,
        *,
        return_when: str = asyncio.ALL_COMPLETED,
    ) -> set[asyncio.Task[Result]]:
        """Wait as asyncio.wait does, at most until the end is due or `until` (event loop time). Return those that are done."""
        waited = set(tasks)
        with suppress(TimeoutError):
            async with self.limit(until):
                await asyncio.wait(waited, return_when=return_when)
        return {task for task in waited if task.done()}

    @contextmanager
    def listened_to(self, listener: Callable[[], None]) -> Iterator[None]:
        """Call `listener` when the caller asks, while the block lasts."""
        self._listeners.append(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)


class SharedEarlyFinish(EarlyFinish):
    """The early finish of work that several callers share. The work ends early when all callers that wait for it have asked."""

    def __init__(self) -> None:
        super().__init__()
        self.callers: list[EarlyFinish] = []

    @contextmanager
    def shared_by(self, caller: EarlyFinish) -> Iterator[None]:
        self.callers.append(caller)
        with caller.listened_to(self._count):
            self._count()
            try:
                yield
            finally:
                self.callers.remove(caller)
                self._count()

    def _count(self) -> None:
        if self.callers and all(caller.is_asked for caller in self.callers):
            self.ask()
