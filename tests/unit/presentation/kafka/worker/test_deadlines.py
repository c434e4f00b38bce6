"""Deadlines that share one timer."""

from __future__ import annotations

import asyncio
import time

import pytest

from modules.llm_platform.presentation.kafka.worker.handler import Deadlines


async def hang(deadlines: Deadlines, log: list[str] | None = None) -> None:
    with deadlines.start():
        try:
            await asyncio.Event().wait()
        finally:
            if log is not None:
                log.append("ended")


async def test_each_deadline_expires_by_itself() -> None:
    """Later ones expire later, although they share one timer; blocks that end in time are not cancelled."""
    deadlines, ended = Deadlines(0.05), list[float]()

    async def one(after_s: float) -> None:
        await asyncio.sleep(after_s)
        begun = time.monotonic()
        with pytest.raises(TimeoutError):
            await hang(deadlines)
        ended.append(time.monotonic() - begun)

    async def quick() -> None:
        with deadlines.start():
            await asyncio.sleep(0.001)

    await asyncio.gather(*(one(number * 0.02) for number in range(5)), *(quick() for _ in range(20)))
    assert len(ended) == 5
    assert all(0.045 <= took <= 15 for took in ended)
    with pytest.raises(TimeoutError):  # the timer starts again after a pause
        await hang(deadlines)


async def test_cancellation_is_not_a_timeout() -> None:
    """Also when the deadline expires at the same moment."""
    deadlines = Deadlines(0.01)
    task = asyncio.create_task(hang(deadlines))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    both = asyncio.create_task(hang(deadlines))
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_later(0.01, both.cancel)
    time.sleep(0.05)  # both come with the same turn of the loop
    with pytest.raises(asyncio.CancelledError):
        await both


async def test_expired_deadline_leaves_the_task_uncancelled() -> None:
    """After the TimeoutError; other errors are raised unchanged."""
    deadlines = Deadlines(0.01)
    with pytest.raises(TimeoutError):
        await hang(deadlines)
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    with pytest.raises(KeyError), deadlines.start():
        raise KeyError
    with deadlines.start() as until:
        assert until > asyncio.get_running_loop().time()
    await asyncio.sleep(0.03)


async def test_swallowed_cancellation_raises_nothing() -> None:
    """The block keeps its result."""
    deadlines = Deadlines(0.01)
    with deadlines.start():
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            result = "kept"
    assert result == "kept"
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


def test_each_event_loop_has_its_timer() -> None:
    """A closed loop loses its timer."""
    deadlines = Deadlines(0.02)

    async def quick() -> None:
        with deadlines.start():
            await asyncio.sleep(0)

    asyncio.run(quick())
    log: list[str] = []
    with pytest.raises(TimeoutError):
        asyncio.run(hang(deadlines, log))
    assert log == ["ended"]
