"""Deadlines and pauses in time that the machine's load cannot change: only waiting takes time, and it takes no real time.

For tests of timeouts within one process, without sockets. The clock of the event loop stands still while code runs, however
slowly, and moves to the next timer when nothing else can run.
"""

from __future__ import annotations

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from typing import Any

THREAD_S = 60.0  # real seconds in which a thread that is waited for must end


class _Selector(selectors.DefaultSelector):  # type: ignore[misc, valid-type]  # the class depends on the system
    """Moves the clock instead of waiting."""

    loop: VirtualTimeLoop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready: list[tuple[selectors.SelectorKey, int]] = super().select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        if timeout is None or self.loop.threads:  # a thread's work takes no time either, so no timer may end before it
            ready = super().select(THREAD_S)
        if not ready:
            assert timeout is not None, "every task waits for another: the test would never end"
            self.loop.now += timeout
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop whose `time` is the sum of what was waited for."""

    def __init__(self) -> None:
        self.now = 0.0
        self.threads = 0  # calls in threads that have not ended
        selector = _Selector()
        selector.loop = self
        super().__init__(selector)
        self._clock_resolution = 1e-6  # sums of floating-point seconds are a little off

    def time(self) -> float:
        return self.now

    def run_in_executor(self, executor: Executor | None, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        future = super().run_in_executor(executor, func, *args)
        self.threads += 1
        future.add_done_callback(self._thread_ended)
        return future

    def _thread_ended(self, _: object) -> None:
        self.threads -= 1


def in_virtual_time(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Return a test whose event loop has virtual time. It stands above `for_each`; its fixtures must not need an event loop."""

    @functools.wraps(test)
    def run(*arguments: Any, **fixtures: Any) -> None:
        with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            runner.run(test(*arguments, **fixtures))

    return run
