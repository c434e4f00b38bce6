"""When to make what was written safe: often enough to lose little in a crash, seldom enough to cost little."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Final

CHECKPOINT_S: Final = 20.0  # of work that a crash may cost
COST_SHARE: Final = 10  # at most a tenth of the time goes into making safe, however large the collection is


class Checkpoints:
    """`finish` makes safe what was written; it may take long, and so may the first write after it."""

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
        self._began: float | None = None  # of the last one, until the first write after it

    def wrote(self) -> None:
        """Something was written: what the last checkpoint cost is known now."""
        if self._began is not None:
            now = self._clock()
            self._due = now + max(self._every_s, (now - self._began) * COST_SHARE)
            self._began = None

    async def reached(self) -> None:
        """Here what was written is whole: make it safe when it is time."""
        if self._began is None and self._clock() >= self._due:
            self._began = self._clock()
            await self._finish()
