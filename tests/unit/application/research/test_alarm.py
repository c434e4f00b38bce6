"""One timer for all parts of a stream: it ends waiting, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from modules.llm_platform.application.research.stream_deadline import StreamDeadline

SOON_S = 0.05
LONG_S = 30.0


async def parts(*pauses: float) -> AsyncIterator[int]:
    """A part after each pause."""
    for number, pause in enumerate(pauses):
        await asyncio.sleep(pause)
        yield number


def soon(seconds: float = SOON_S) -> StreamDeadline:
    return StreamDeadline(asyncio.get_running_loop().time() + seconds)


def cancel_requests() -> int:
    task = asyncio.current_task()
    assert task is not None
    return task.cancelling()


async def read(alarm: StreamDeadline, stream: AsyncIterator[int]) -> list[int]:
    got: list[int] = []
    with alarm:
        while (part := await alarm.next_of(stream)) is not None:
            got.append(part)
    return got


async def test_what_comes_in_time_comes() -> None:
    """Every part, then the end; no timer is left behind that could cancel anybody."""
    assert await read(soon(), parts(0, 0, 0)) == [0, 1, 2]
    await asyncio.sleep(2 * SOON_S)


async def test_waiting_ends() -> None:
    """As a TimeoutError, and the task is as it was: the next thing it waits for is not cancelled."""
    with pytest.raises(TimeoutError):
        await read(soon(), parts(0, LONG_S))
    assert cancel_requests() == 0
    await asyncio.sleep(0)


async def test_what_the_reader_does_is_not_ended() -> None:
    """The alarm that rings meanwhile is heard when the next part is wanted."""
    stream = parts(0, 0)
    with soon() as alarm:
        assert await alarm.next_of(stream) == 0
        await asyncio.sleep(2 * SOON_S)
        with pytest.raises(TimeoutError):
            await alarm.next_of(stream)
    assert cancel_requests() == 0


async def test_a_cancelled_reader_is_cancelled() -> None:
    """By others, before the time or at the very same: it is no timeout."""
    for together in (False, True):
        alarm = soon(LONG_S)
        reading = asyncio.create_task(read(alarm, parts(LONG_S)))
        await asyncio.sleep(0.01)
        if together:
            alarm._ring()
        reading.cancel()
        (outcome,) = await asyncio.gather(reading, return_exceptions=True)
        assert isinstance(outcome, asyncio.CancelledError)
        assert reading.cancelled()


async def test_an_outer_timeout_stays_its_own() -> None:
    """It becomes a TimeoutError where it was set, not here."""
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(SOON_S):
            await read(soon(LONG_S), parts(LONG_S))
    assert cancel_requests() == 0


async def test_a_stream_that_fails_when_it_is_ended() -> None:
    """Its own error is the error, and nobody stays cancelled."""

    async def stubborn() -> AsyncIterator[int]:
        try:
            await asyncio.sleep(LONG_S)
        except asyncio.CancelledError:
            raise ConnectionError from None
        yield 0

    with pytest.raises(ConnectionError):
        await read(soon(), stubborn())
    assert cancel_requests() == 0


async def test_a_stream_that_answers_all_the_same() -> None:
    """A part that came in spite of it is given; the one after it is not waited for."""

    async def deaf() -> AsyncIterator[int]:
        try:
            await asyncio.sleep(LONG_S)
        except asyncio.CancelledError:
            yield 7

    stream = deaf()
    with soon() as alarm:
        assert await alarm.next_of(stream) == 7
        assert cancel_requests() == 0
        with pytest.raises(TimeoutError):
            await alarm.next_of(stream)
