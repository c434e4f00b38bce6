"""A deadline for the waiting of a stream, not for what its reader does with the parts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import TracebackType
from typing import TypeVar

Part = TypeVar("Part")


class StreamDeadline:
    """`asyncio.timeout_at` around each part of a stream, with one timer for all of them: the stream of a text has hundreds
    of parts, and a timer takes longer than a part. Use as a context manager, in the task that reads.
    """

    def __init__(self, when: float) -> None:
        """`when` is event loop time."""
        self._when = when
        self._rang = False
        self._waiting: asyncio.Task[object] | None = None

    def __enter__(self) -> StreamDeadline:
        self._timer = asyncio.get_running_loop().call_at(self._when, self._ring)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()

    async def next_of(self, parts: AsyncIterator[Part]) -> Part | None:
        """The next part, None at the end. TimeoutError when the time comes first, or has come meanwhile."""
        if self._rang:
            raise TimeoutError
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a stream is read in a task")
        self._waiting = task
        cancelled_before = task.cancelling()
        try:
            return await anext(parts, None)
        except asyncio.CancelledError:
            if self._rang and task.cancelling() - 1 <= cancelled_before:  # nobody else wants it cancelled
                raise TimeoutError from None
            raise
        finally:
            self._waiting = None
            if self._rang:
                task.uncancel()

    def _ring(self) -> None:
        self._rang = True
        if self._waiting is not None:
            self._waiting.cancel()
