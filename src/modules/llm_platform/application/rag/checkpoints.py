"""Decide when the documents that an indexing run has written become durable."""

import time
from collections.abc import Awaitable, Callable
from typing import Final

CHECKPOINT_S: Final = 20.0  # seconds of work that a crash may lose
CHECKPOINT_COST_FACTOR: Final = 10  # checkpoints take at most a tenth of the time


class Checkpoints:
    """Decides when to call `finish`, which makes the written documents durable.

    The cost of a checkpoint includes the next write, because both may be slow.
    """

    def __init__(
        self,
        finish: Callable[[], Awaitable[None]],
        every_s: float = CHECKPOINT_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._finish = finish
        self._every_s = every_s
        self._clock = clock
        self._due = clock() + every_s
        self._began: float | None = None  # start of the last checkpoint, until something is written after it

    def record_write(self) -> None:
        """Record a write: the cost of the last checkpoint is known from here on."""
        if self._began is not None:
            now = self._clock()
            self._due = now + max(self._every_s, (now - self._began) * CHECKPOINT_COST_FACTOR)
            self._began = None

    async def finish_if_due(self) -> None:
        """Make a checkpoint if one is due. Called after a complete batch."""
        if self._began is None and self._clock() >= self._due:
            self._began = self._clock()
            await self._finish()
