"""The deadline of many requests that may all take equally long, with one timer for all of them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from types import TracebackType
from typing import Final, TypeVar

from shared.exceptions import AppException


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


# How often something is tried again, and how long it is waited for.


WAITS_S: Final = (0.5, 1.0, 2.0, 4.0)  # between the tries of one request, give or take a quarter
SPREAD: Final = 0.25
STORE_WAITS_S: Final = (0.1, 0.5, 2.0, 5.0)  # for a store of outcomes; the last one again and again

Result = TypeVar("Result")
Sleep = Callable[[float], Awaitable[None]]

_UNTIL: ContextVar[float | None] = ContextVar("until", default=None)


def deadline() -> float | None:
    """When what this task tries must be done (event loop time), all tries together; None where nothing is tried."""
    return _UNTIL.get()


async def until_deadline(
    call: Callable[[], Awaitable[Result]], deadlines: Deadlines, sleep: Sleep = asyncio.sleep
) -> Result:
    """What `call` gives, tried again after recoverable errors as long as there is time to wait.

    Raises the last error, or TimeoutError when the deadline came while it was tried.
    """
    with deadlines.begin() as until:
        known = _UNTIL.set(until)
        try:
            for usual_s in WAITS_S:
                try:
                    return await call()
                except AppException as error:
                    wait_s = _wait(error, usual_s)
                    if not error.retryable or asyncio.get_running_loop().time() + wait_s >= until:
                        raise
                await sleep(wait_s)
            return await call()
        finally:
            _UNTIL.reset(known)


def _wait(error: AppException, usual_s: float) -> float:
    """What the other side asked for, or our usual wait spread, so that many requests do not come back together."""
    spread_s = usual_s * random.uniform(1 - SPREAD, 1 + SPREAD)  # noqa: S311  for fairness, not for secrecy
    return max(spread_s, error.retry_after_s or 0.0)
