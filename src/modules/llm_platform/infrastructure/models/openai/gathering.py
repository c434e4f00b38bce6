"""Gather the bytes of a stream that follow each other closely, so that few of them pass the layers above."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Final

from modules.llm_platform.domain.concurrency.task_group import cancel_and_wait

MAX_GATHERED_BYTES: Final = 1 << 16  # a service may send faster than a model writes


async def gather_chunks(chunks: AsyncIterator[bytes], seconds: float) -> AsyncGenerator[bytes]:
    """Yield a chunk at once after a pause, or else all chunks of `seconds` together. Close `chunks` if it is a generator.

    Chunks before an error are yielded before the error is raised. One task reads all chunks. While the caller is busy with
    those that were yielded, the task reads one more.
    """
    loop = asyncio.get_running_loop()
    last, size, gathered = float("-inf"), 0, list[bytes]()  # event loop time of the last yield, and what came since
    is_awake, is_due, is_free = asyncio.Event(), asyncio.Event(), asyncio.Event()
    is_free.set()

    async def take_chunks() -> None:
        nonlocal size
        async for chunk in chunks:
            gathered.append(chunk)
            size += len(chunk)
            is_awake.set()
            if size >= MAX_GATHERED_BYTES:
                is_due.set()
                is_free.clear()
            if not is_free.is_set():
                await is_free.wait()

    def end(_: object) -> None:
        is_awake.set()
        is_due.set()

    task = asyncio.create_task(take_chunks())
    task.add_done_callback(end)
    try:
        while await is_awake.wait() and gathered:
            left_s = last + seconds - loop.time()
            if left_s > 0:
                timer = loop.call_later(left_s, is_due.set)
                try:
                    await is_due.wait()
                finally:
                    timer.cancel()
            data = b"".join(gathered)
            gathered.clear()
            size = 0
            if not task.done():
                is_awake.clear()
                is_due.clear()
            is_free.clear()
            yield data
            last = loop.time()
            is_free.set()
        task.result()
    finally:
        await cancel_and_wait(task)
        if isinstance(chunks, AsyncGenerator):
            await chunks.aclose()
