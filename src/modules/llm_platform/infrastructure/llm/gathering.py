"""Gather the steps of a stream that follow each other closely."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from modules.llm_platform.domain.task_group import cancel_and_wait


async def gather_steps(steps: AsyncGenerator[None], seconds: float) -> AsyncGenerator[None]:
    """Yield at once after a pause, else once in `seconds` for all steps since. Closes `steps`.

    A step before an error is yielded before the error is raised.
    """
    loop = asyncio.get_running_loop()
    last = float("-inf")  # event loop time of the last yield
    step: asyncio.Task[bool] | None = None
    async with aclosing(steps):
        try:
            while await (step or _advance(steps)):
                step = asyncio.create_task(_advance(steps))
                while (left_s := last + seconds - loop.time()) > 0:
                    await asyncio.wait((step,), timeout=left_s)
                    if not step.done() or step.exception() is not None or not step.result():
                        break
                    step = asyncio.create_task(_advance(steps))
                yield
                last = loop.time()
        finally:
            if step is not None:
                await cancel_and_wait(step)


async def _advance(steps: AsyncGenerator[None]) -> bool:
    """Whether there was a further step."""
    try:
        await anext(steps)
    except StopAsyncIteration:
        return False
    return True
