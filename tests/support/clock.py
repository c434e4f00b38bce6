"""A manual clock for tests."""

from __future__ import annotations


class Clock:
    """A clock that is moved by hand.

    `sleep` moves it at once, and `slept` has the seconds of each call, rounded to 1 ms.
    """

    def __init__(self, now: float = 1_790_000_000.0) -> None:
        self.now = now
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def elapse(self, seconds: float) -> None:
        self.now += seconds

    async def sleep(self, seconds: float) -> None:
        self.slept.append(round(seconds, 3))
        self.now += seconds
