"""application/rag/prefetch.py"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest
from tests.support.turns import run_ready_tasks

from modules.llm_platform.application.rag.prefetch import prefetch
from modules.llm_platform.testing.waiting import START_TIMEOUT_S, becomes_true


class Source:
    """Numbers that each take some time. `made` counts them, and `closed` says whether the source was closed."""

    def __init__(self, count: int, fails_at: int | None = None, each_s: float = 0.0) -> None:
        self.count, self.fails_at, self.each_s = count, fails_at, each_s
        self.made, self.closed = 0, False

    async def values(self) -> AsyncGenerator[int, None]:
        try:
            for number in range(self.count):
                await asyncio.sleep(self.each_s)
                if number == self.fails_at:
                    raise ValueError("it broke")
                self.made += 1
                yield number
        finally:
            self.closed = True


async def test_the_same_values_in_order() -> None:
    """Nothing is lost, and the source is closed at the end."""
    source = Source(5)
    assert [value async for value in prefetch(source.values())] == [0, 1, 2, 3, 4]
    assert source.closed
    assert [value async for value in prefetch(Source(0).values())] == []


async def test_one_is_made_while_one_is_used_and_no_more() -> None:
    """While the first is in use the second is made; the third waits."""
    source = Source(5)
    async with aclosing(prefetch(source.values())) as values:
        assert await anext(values) == 0
        assert await becomes_true(lambda: source.made == 2, START_TIMEOUT_S)
        await run_ready_tasks()
        assert source.made == 2


async def test_an_error_comes_where_it_happened() -> None:
    """After the values before it; the source is closed."""
    source = Source(5, fails_at=2)
    values = prefetch(source.values())
    assert [await anext(values), await anext(values)] == [0, 1]
    with pytest.raises(ValueError, match="it broke"):
        await anext(values)
    assert source.closed


@pytest.mark.parametrize("fails_at", [None, 1])
async def test_leaving_early_closes_the_source(fails_at: int | None) -> None:
    """Unfinished items are cancelled, and their errors are dropped."""
    source = Source(5, fails_at=fails_at)
    async with aclosing(prefetch(source.values())) as values:
        await anext(values)
        await run_ready_tasks()
    assert source.closed


async def test_cancelling_closes_the_source() -> None:
    """A consumer that is cancelled while it waits leaves nothing running."""
    source = Source(5, each_s=60)

    async def consume() -> None:
        async with aclosing(prefetch(source.values())) as values:
            await anext(values)

    task = asyncio.create_task(consume())
    await run_ready_tasks()
    task.cancel()
    await asyncio.wait([task], timeout=30)
    assert task.cancelled()
    assert source.closed
    assert asyncio.all_tasks() == {asyncio.current_task()}
