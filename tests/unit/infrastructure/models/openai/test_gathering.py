"""Chunks that follow each other closely are passed on together, and none of them late."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import pytest
from tests.support.virtual_time import in_virtual_time

from modules.llm_platform.infrastructure.models.openai.gathering import MAX_GATHERED_BYTES, gather_chunks

WINDOW_S = 0.04


class Steps:
    """One step after each of these pauses; `taken` is how many were made."""

    def __init__(self, pauses: Sequence[float], error: Exception | None = None) -> None:
        self._pauses, self._error = pauses, error
        self.taken = 0
        self.tasks: set[object] = set()
        self.is_closed = False

    async def run(self) -> AsyncGenerator[bytes]:
        try:
            for pause in self._pauses:
                await asyncio.sleep(pause)
                self.taken += 1
                self.tasks.add(asyncio.current_task())
                yield b"."
            if self._error is not None:
                raise self._error
        finally:
            self.is_closed = True


async def seen(steps: Steps) -> list[tuple[float, int]]:
    """Return when the reader is told, and of how many steps so far."""
    loop = asyncio.get_running_loop()
    began, told, count = loop.time(), list[tuple[float, int]](), 0
    async for data in gather_chunks(steps.run(), WINDOW_S):
        count += len(data)
        told.append((round(loop.time() - began, 3), count))
    return told


@in_virtual_time
async def test_a_step_is_passed_on_within_the_window() -> None:
    """The first one at once, the next ones together after the window, and also where the stream then pauses or ends."""
    assert await seen(Steps([1, 0.01, 0.01, 5, 0.01])) == [(1, 1), (1.04, 3), (6.02, 4), (6.03, 5)]


@in_virtual_time
async def test_slow_steps_are_passed_on_one_by_one() -> None:
    assert await seen(Steps([1, 1, 1])) == [(1, 1), (2, 2), (3, 3)]


@in_virtual_time
async def test_nothing_is_lost_before_an_error() -> None:
    """The reader gets the last steps, then the error."""
    steps, told = Steps([1, 0.01], ValueError("broken")), 0
    with pytest.raises(ValueError, match="broken"):
        async for _ in gather_chunks(steps.run(), WINDOW_S):
            told = steps.taken
    assert told == 2


@in_virtual_time
async def test_a_reader_that_leaves_ends_the_stream() -> None:
    """The step that is awaited is cancelled, and the source closed, before the reader goes on."""
    steps = Steps([0.01, 3600])
    async with aclosing(gather_chunks(steps.run(), WINDOW_S)) as reads:
        await anext(reads)
    assert steps.is_closed


@in_virtual_time
async def test_all_steps_are_taken_by_one_task() -> None:
    """A stream has hundreds of them, and a task for each costs more than to read it."""
    steps = Steps([0.01] * 100)
    await seen(steps)
    assert len(steps.tasks) == 1


@in_virtual_time
async def test_a_busy_reader_holds_the_stream_up() -> None:
    """What it did not take is not read from the network: one further step is."""
    steps = Steps([0.01] * 100)
    async with aclosing(gather_chunks(steps.run(), WINDOW_S)) as reads:
        await anext(reads)
        await asyncio.sleep(10)
        assert steps.taken == 2
        await anext(reads)
        assert steps.taken > 2


@in_virtual_time
async def test_a_fast_stream_is_gathered_in_pieces() -> None:
    """A service that sends without end fills no memory within the window: what was gathered is passed on when it is large."""
    chunk = b"." * (MAX_GATHERED_BYTES // 4)

    async def endless() -> AsyncGenerator[bytes]:
        while True:
            await asyncio.sleep(0)
            yield chunk

    async with aclosing(gather_chunks(endless(), WINDOW_S)) as reads:
        sizes = [len(await anext(reads)) for _ in range(4)]
    assert max(sizes) <= MAX_GATHERED_BYTES + len(chunk)
