"""The deadline of the work under way. Policies of outside calls read it: they wait for nothing and repeat nothing past it.

It is a context variable: tasks inherit it, and a stage within a stage has the earlier deadline of the two.
"""

from __future__ import annotations

import asyncio
import math
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Self


class Deadline:
    """A moment in event loop time, not later than `outer`."""

    __slots__ = ("_outer", "_when")

    def __init__(self, when: float, outer: Deadline | None = None) -> None:
        self._when = when
        self._outer = outer

    @property
    def when(self) -> float:
        return self._when if self._outer is None else min(self._when, self._outer.when)

    def extend(self, when: float) -> None:
        """Let the work of one caller continue for another one that has until `when`."""
        self._when = max(self._when, when)


_CURRENT: ContextVar[Deadline | None] = ContextVar("deadline", default=None)


def current_deadline() -> float:
    """Return the moment in event loop time; infinity without a deadline."""
    deadline = _CURRENT.get()
    return math.inf if deadline is None else deadline.when


def remaining_s() -> float:
    """Return the seconds until the deadline, below 0 past it; infinity without one."""
    deadline = _CURRENT.get()
    return math.inf if deadline is None else deadline.when - asyncio.get_running_loop().time()


def set_deadline(deadline: Deadline) -> None:
    """Replace the deadline of this task, which another task cancels, or which works for several callers."""
    _CURRENT.set(deadline)


class deadline_at:  # noqa: N801  used as `async with deadline_at(when)`, like asyncio.timeout_at
    """Limit a block as asyncio.timeout_at does: at `when` (event loop time) it is cancelled and raises TimeoutError.

    What is called within the block knows the deadline, tasks that outlive it too: use it around a call, not around a stage
    that starts such tasks.
    """

    def __init__(self, when: float) -> None:
        self._when = when
        self._timeout = asyncio.timeout_at(when)

    async def __aenter__(self) -> Self:
        await self._timeout.__aenter__()
        self._token: Token[Deadline | None] = _CURRENT.set(Deadline(self._when, _CURRENT.get()))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _CURRENT.reset(self._token)
        await self._timeout.__aexit__(kind, error, trace)


def deadline_in(seconds: float) -> deadline_at:
    """Limit a block as `deadline_at` does, to `seconds` from now."""
    return deadline_at(asyncio.get_running_loop().time() + seconds)
