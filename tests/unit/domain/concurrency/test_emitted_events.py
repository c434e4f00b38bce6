"""The events of a task, as an iterator."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing

import pytest

from modules.llm_platform.domain.concurrency.emitted_events import emitted_events


async def test_events_come_before_the_error_of_the_run() -> None:
    """What a run emitted before it failed is yielded, then its error is raised."""

    async def run(emit: Callable[[int], None]) -> None:
        emit(1)
        emit(2)
        raise LookupError

    events = emitted_events(run)
    assert [await anext(events), await anext(events)] == [1, 2]
    with pytest.raises(LookupError):
        await anext(events)


async def test_a_run_does_not_wait_for_its_reader() -> None:
    """A run ends although none but its first event was taken."""
    ended = asyncio.Event()

    async def run(emit: Callable[[int], None]) -> None:
        for number in range(100):
            emit(number)
            await asyncio.sleep(0)
        ended.set()

    async with aclosing(emitted_events(run)) as events:
        await anext(events)
        await ended.wait()


async def test_closing_the_iterator_waits_for_the_end_of_the_run() -> None:
    """A reader that leaves cancels the run, whose connections are closed when the reader continues."""
    closed = False

    async def run(emit: Callable[[int], None]) -> None:
        nonlocal closed
        try:
            emit(1)
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            closed = True

    async with aclosing(emitted_events(run)) as events:
        await anext(events)
    assert closed
