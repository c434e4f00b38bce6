"""Chunks that follow each other closely are passed on together, and none of them late."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import pytest
from tests.support.virtual_time import in_virtual_time

from modules.llm_platform.infrastructure.models.openai.gathering import gather_chunks

WINDOW_S = 0.04


class Body:
    """A body whose bytes arrive after each of these pauses, whether it is read or not. A read takes all that has arrived.

    `wakes` is how often the reader was woken for bytes.
    """

    def __init__(self, pauses: Sequence[float], error: Exception | None = None) -> None:
        self._pauses, self._error = pauses, error
        self._arrived = 0
        self._has_news = asyncio.Event()
        self.ended = asyncio.Event()
        self.wakes = 0
        self.is_closed = False

    async def _arrive(self) -> None:
        for pause in self._pauses:
            await asyncio.sleep(pause)
            self._arrived += 1
            self._has_news.set()
        if self._error is None:
            self.ended.set()
        self._pauses = ()
        self._has_news.set()

    async def read(self) -> AsyncGenerator[bytes]:
        arriving = asyncio.create_task(self._arrive())
        try:
            while self._pauses or self._arrived:
                await self._has_news.wait()
                self.wakes += 1
                data, self._arrived = b"." * self._arrived, 0
                self._has_news.clear()
                if data:
                    yield data
                if not self._pauses and not self._arrived:
                    break
            if self._error is not None:
                raise self._error
        finally:
            self.is_closed = True
            arriving.cancel()


async def seen(body: Body) -> list[tuple[float, int]]:
    """Return when the reader is woken, and the bytes so far. The end of the stream is an entry with 0 bytes."""
    loop = asyncio.get_running_loop()
    began, told, count = loop.time(), list[tuple[float, int]](), 0
    async for data in gather_chunks(body.read(), WINDOW_S, body.ended):
        count += len(data)
        told.append((round(loop.time() - began, 3), count))
    return [*told, (round(loop.time() - began, 3), 0)]


@in_virtual_time
async def test_a_chunk_is_passed_on_within_the_window() -> None:
    """The first one at once, the next ones together after the window, and at once where the stream ends."""
    assert await seen(Body([1, 0.01, 0.01, 5, 0.01])) == [(1, 1), (1.04, 3), (6.02, 4), (6.03, 5), (6.03, 0)]


@in_virtual_time
async def test_slow_chunks_are_passed_on_one_by_one() -> None:
    assert await seen(Body([1, 1, 1])) == [(1, 1), (2, 2), (3, 3), (3, 0)]


@in_virtual_time
async def test_chunks_within_the_window_do_not_wake_the_reader() -> None:
    """A stream has hundreds of chunks, and waking the reader costs more than reading them."""
    body = Body([0.01] * 100)
    await seen(body)
    assert body.wakes <= 1 / WINDOW_S + 2


@in_virtual_time
async def test_nothing_is_lost_before_an_error() -> None:
    """The reader gets the last bytes, then the error."""
    body, count = Body([1, 0.01], ValueError("broken")), 0
    with pytest.raises(ValueError, match="broken"):
        async for data in gather_chunks(body.read(), WINDOW_S, body.ended):
            count += len(data)
    assert count == 2


@in_virtual_time
async def test_a_reader_that_leaves_ends_the_stream() -> None:
    """The source is closed before the reader continues."""
    body = Body([0.01, 3600])
    async with aclosing(gather_chunks(body.read(), WINDOW_S, body.ended)) as reads:
        await anext(reads)
    assert body.is_closed


@in_virtual_time
async def test_a_stream_without_a_known_end_is_not_delayed() -> None:
    """Its transport may deliver one chunk per read, so a pause after each chunk would slow it down."""

    async def chunks() -> AsyncGenerator[bytes]:
        for _ in range(100):
            yield b"."

    began = asyncio.get_running_loop().time()
    assert [data async for data in gather_chunks(chunks(), WINDOW_S, None)] == [b"."] * 100
    assert asyncio.get_running_loop().time() == began
