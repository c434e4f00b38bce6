"""Admission of research runs: a bounded number at once, a short queue, then 503 with Retry-After."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Final, TypeVar

from modules.llm_platform.domain.concurrency.emitted_events import emitted_events
from modules.llm_platform.domain.ports.metrics import IMetrics
from modules.llm_platform.domain.telemetry.metrics import RESEARCHES_REFUSED, RESEARCHES_RUNNING, RESEARCHES_WAITING
from modules.llm_platform.presentation.rest.http.problems import OverloadedError

Event = TypeVar("Event")

MAX_QUEUE_S: Final = 5.0  # a person waits this long; a longer queue only delays the same refusal


class ResearchAdmission:
    """Slots for research runs. As many requests as there are slots may wait for one, each at most `max_queue_s`.

    Waiting requests get free slots in the order of their arrival. A `limit` of 0 means no limit. `refusal` is the
    message of a 503 for requests that are not research runs.
    """

    def __init__(self, limit: int, max_queue_s: float = MAX_QUEUE_S, refusal: str | None = None) -> None:
        self._slots = asyncio.Semaphore(limit) if limit else None
        self._max_queued = limit
        self._max_queue_s = max_queue_s
        self._refusal = refusal
        self.running = 0
        self.queued = 0
        self.refused = 0  # refusals since `report`

    def report(self, metrics: IMetrics) -> None:
        metrics.set(RESEARCHES_RUNNING, self.running)
        metrics.set(RESEARCHES_WAITING, self.queued)
        refused, self.refused = self.refused, 0
        metrics.count(RESEARCHES_REFUSED, by=refused)

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Occupy a slot for the block, however it ends. Raises OverloadedError if none becomes free in time."""
        if self._slots is not None:
            await self._acquire(self._slots)
        self.running += 1
        try:
            yield
        finally:
            self.running -= 1
            if self._slots is not None:
                self._slots.release()

    def admit(self, events: AsyncGenerator[Event, None]) -> AsyncGenerator[Event, None]:
        """Return the events of a research run that occupies a slot. The research starts when it has one.

        The slot is free when the run ends, whether or not its events have been taken: a client may not read them. They wait
        in memory until then, which the length of an answer limits.
        """

        async def run(emit: Callable[[Event], None]) -> None:
            async with self.slot(), aclosing(events):
                async for event in events:
                    emit(event)

        return emitted_events(run)

    async def _acquire(self, slots: asyncio.Semaphore) -> None:
        if not slots.locked():
            await slots.acquire()  # does not wait
            return
        if self.queued >= self._max_queued:
            self.refused += 1
            raise OverloadedError(self._refusal)
        self.queued += 1
        try:
            async with asyncio.timeout(self._max_queue_s):
                await slots.acquire()
        except TimeoutError:
            self.refused += 1
            raise OverloadedError(self._refusal) from None
        finally:
            self.queued -= 1
