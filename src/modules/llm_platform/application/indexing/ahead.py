"""Do the next step while the last one's result is being used."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import TypeVar

Value = TypeVar("Value")


async def ahead(source: AsyncGenerator[Value, None]) -> AsyncGenerator[Value, None]:
    """The same values; each is being made while the one before is in use. Whoever closes this closes the source."""
    making: asyncio.Task[Value] | None = None
    try:
        making = _next(source)
        while True:
            try:
                value = await making
            except StopAsyncIteration:
                making = None
                return
            making = _next(source)
            yield value
    finally:
        if making is not None:
            making.cancel()
            await asyncio.wait([making])
            if not making.cancelled():
                making.exception()  # nobody asks for it any more
        await source.aclose()


def _next(source: AsyncIterator[Value]) -> asyncio.Task[Value]:
    async def step() -> Value:
        return await anext(source)

    return asyncio.create_task(step())
