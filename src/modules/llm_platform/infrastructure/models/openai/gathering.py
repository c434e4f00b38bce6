"""Gather the steps of a stream that follow each other closely."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from modules.llm_platform.domain.concurrency.task_group import cancel_and_wait


async def gather_steps(steps: AsyncGenerator[None], seconds: float) -> AsyncGenerator[None]:
    """Yield at once after a pause, else once in `seconds` for all steps since. Closes `steps`.

    A step before an error is yielded before the error is raised. One task takes all steps; while the caller is busy with
    what was yielded, it takes one further step.
    """
    loop = asyncio.get_running_loop()
    last = float("-inf")  # event loop time of the last yield
    has_new = False  # steps since the last yield
    is_awake, is_free = asyncio.Event(), asyncio.Event()
    is_free.set()

    async def take_steps() -> None:
        nonlocal has_new
        async for _ in steps:
            has_new = True
            is_awake.set()
            await is_free.wait()

    async with aclosing(steps):
        task = asyncio.create_task(take_steps())
        task.add_done_callback(lambda _: is_awake.set())
        try:
            while await is_awake.wait() and has_new:
                left_s = last + seconds - loop.time()
                if left_s > 0:
                    await asyncio.wait((task,), timeout=left_s)
                has_new = False
                if not task.done():
                    is_awake.clear()
                is_free.clear()
                yield
                last = loop.time()
                is_free.set()
            task.result()
        finally:
            await cancel_and_wait(task)
