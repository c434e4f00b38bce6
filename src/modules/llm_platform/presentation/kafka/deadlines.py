"""The deadline of many requests that may all take equally long, with one timer for all of them."""

from __future__ import annotations

import asyncio
from types import TracebackType


class Deadlines:
    """Of requests that may take `timeout_s` seconds each: whoever begins first is due first."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._open: dict[Deadline, None] = {}  # in the order in which they are due
        self._loop: asyncio.AbstractEventLoop | None = None  # on which there is a timer

    def begin(self) -> Deadline:
        """That of a request of the current task, which begins now: to be entered at once."""
        loop = asyncio.get_running_loop()
        deadline = Deadline(self._open, loop.time() + self._timeout_s)
        self._open[deadline] = None
        if self._loop is not loop:
            self._loop = loop
            loop.call_at(deadline.until, self._look, loop)
        return deadline

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        due = []
        for deadline in self._open:
            if deadline.until > now:
                loop.call_at(deadline.until, self._look, loop)
                break
            due.append(deadline)
        else:
            self._loop = None
        for deadline in due:
            deadline.passes()


class Deadline:
    """Like `asyncio.timeout`: what runs inside is cancelled at `until` (loop time), and leaves as TimeoutError."""

    __slots__ = ("_cancelling", "_open", "_passed", "_task", "until")

    def __init__(self, others: dict[Deadline, None], until: float) -> None:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a deadline is for a task")
        self._open, self.until = others, until
        self._task, self._cancelling = task, task.cancelling()
        self._passed = False

    def passes(self) -> None:
        """It is late."""
        del self._open[self]
        self._passed = True
        self._task.cancel()

    def __enter__(self) -> float:
        return self.until

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if not self._passed:
            del self._open[self]
        elif self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from error
