"""Work in threads that ends soon after its caller has left or its time is over.

A thread cannot be ended from outside. So the work looks at its StopSignal between steps of a few milliseconds.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


class WorkStoppedError(BaseException):
    """Nobody waits for the work any more, or its time is over. Not an Exception: no handler of errors may swallow it."""


class StopSignal:
    """Tells the threads of one piece of work to end: at `stop`, or when `seconds` have passed."""

    def __init__(self, seconds: float = math.inf) -> None:
        self._until = time.monotonic() + seconds
        self._is_stopped = False

    @property
    def is_set(self) -> bool:
        return self._is_stopped or time.monotonic() > self._until

    @property
    def left_s(self) -> float:
        """Seconds until the time is over, at least 0."""
        return max(0.0, self._until - time.monotonic())

    def stop(self) -> None:
        self._is_stopped = True

    def check(self) -> None:
        """Raise WorkStoppedError if the work shall end."""
        if self.is_set:
            raise WorkStoppedError


async def run_stoppable(signal: StopSignal, work: Callable[[], Result]) -> Result:
    """Return what `work` returns in a thread. If the caller is cancelled, the signal tells the thread to end."""
    try:
        return await asyncio.to_thread(work)
    except asyncio.CancelledError:
        signal.stop()
        raise
