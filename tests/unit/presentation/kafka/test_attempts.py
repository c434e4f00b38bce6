"""Trying again inside a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from modules.llm_platform.domain.exceptions import LLMBlockedError, VectorStoreConfigError, VectorStoreError
from modules.llm_platform.presentation.kafka.worker.deadlines import SPREAD, WAITS_S, Deadlines, until_deadline
from shared.exceptions import AppException


class Calls:
    """Fails as often as it is told to."""

    def __init__(self, fails: int, error: Callable[[], AppException] = VectorStoreError) -> None:
        self.made, self._fails, self._error = 0, fails, error

    async def __call__(self) -> int:
        self.made += 1
        if self.made <= self._fails:
            raise self._error()
        return self.made


class Naps(list[float]):
    """Sleeps that take no time."""

    async def __call__(self, seconds: float) -> None:
        self.append(seconds)


@pytest.mark.parametrize("fails", range(len(WAITS_S) + 1))
async def test_as_often_as_there_are_waits(fails: int) -> None:
    """The waits are the usual ones, a little spread."""
    naps = Naps()
    assert await until_deadline(Calls(fails), Deadlines(100.0), naps) == fails + 1
    assert len(naps) == fails
    assert all(usual * (1 - SPREAD) <= nap <= usual * (1 + SPREAD) for nap, usual in zip(naps, WAITS_S, strict=False))


async def test_not_for_ever() -> None:
    """After the last try the error is raised."""
    calls = Calls(100)
    with pytest.raises(VectorStoreError):
        await until_deadline(calls, Deadlines(100.0), Naps())
    assert calls.made == len(WAITS_S) + 1


async def test_what_cannot_be_recovered_is_raised_at_once() -> None:
    """Nobody waits for a setting."""
    calls, naps = Calls(1, VectorStoreConfigError), Naps()
    with pytest.raises(VectorStoreConfigError):
        await until_deadline(calls, Deadlines(100.0), naps)
    assert (calls.made, naps) == (1, [])


async def test_the_wait_that_was_asked_for() -> None:
    """A longer one than ours is kept to, and one that does not fit into the deadline is the end."""
    naps = Naps()
    assert await until_deadline(Calls(1, lambda: LLMBlockedError(retry_after_s=30.0)), Deadlines(100.0), naps) == 2
    assert naps == [30.0]
    with pytest.raises(LLMBlockedError):
        await until_deadline(Calls(1, lambda: LLMBlockedError(retry_after_s=101.0)), Deadlines(100.0), naps)
    assert len(naps) == 1


async def test_a_wait_that_does_not_fit_is_the_end() -> None:
    """The cause is told rather than the deadline."""
    naps = Naps()
    with pytest.raises(VectorStoreError):
        await until_deadline(Calls(1), Deadlines(WAITS_S[0] * (1 - SPREAD) / 2), naps)
    assert naps == []


async def test_a_call_that_hangs() -> None:
    """It is cancelled at the deadline."""
    ended = asyncio.Event()

    async def hang() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with pytest.raises(TimeoutError):
        await until_deadline(hang, Deadlines(0.02))
    assert ended.is_set()
