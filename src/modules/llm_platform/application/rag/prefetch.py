"""Compute the next value of a generator while the current one is in use."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import TypeVar

from modules.llm_platform.domain.concurrency.task_group import cancel_and_wait

Value = TypeVar("Value")


async def prefetch(source: AsyncGenerator[Value, None]) -> AsyncGenerator[Value, None]:
    """Yield the values of the source; each is computed while the one before is in use. Closing this closes the source."""
    pending: asyncio.Task[Value] | None = None
    try:
        pending = _start_next(source)
        while True:
            try:
                value = await pending
            except StopAsyncIteration:
                pending = None
                return
            pending = _start_next(source)
            yield value
    finally:
        if pending is not None:
            await cancel_and_wait(pending)
        await source.aclose()


def _start_next(source: AsyncIterator[Value]) -> asyncio.Task[Value]:
    async def step() -> Value:
        return await anext(source)

    return asyncio.create_task(step())
