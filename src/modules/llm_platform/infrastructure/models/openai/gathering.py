"""Gather the bytes of a stream that follow each other closely, so that few of them pass the layers above."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress


async def gather_chunks(
    chunks: AsyncIterator[bytes], seconds: float, ended: asyncio.Event | None
) -> AsyncGenerator[bytes]:
    """Yield the first chunk after a pause at once, then what arrives within `seconds` as one chunk.

    During these seconds no coroutine waits for the stream: what arrives only joins the buffer of the connection, which has a
    limit. `ended` is set when the whole body has arrived, so that its end is not waited for. Without it, each chunk is yielded
    as it comes. `chunks` is closed at the end if it is a generator.
    """
    try:
        async for chunk in chunks:
            yield chunk
            if ended is not None:
                with suppress(TimeoutError):
                    async with asyncio.timeout(seconds):
                        await ended.wait()
    finally:
        if isinstance(chunks, AsyncGenerator):
            await chunks.aclose()
