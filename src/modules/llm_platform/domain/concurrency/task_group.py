"""Concurrent steps that end together, and the end of tasks."""

import asyncio
from collections.abc import Awaitable, Iterable
from typing import Any


async def gather_all(steps: Iterable[Awaitable[None]]) -> None:
    """Run all steps concurrently. After an error the others are cancelled and awaited, then it is raised."""
    tasks = [asyncio.ensure_future(step) for step in steps]
    try:
        await asyncio.gather(*tasks)
    finally:
        await cancel_and_wait(*tasks)


async def cancel_and_wait(*tasks: asyncio.Future[Any]) -> None:
    """Cancel the tasks that still run, and wait for their end: they may have connections to close. Drops their errors."""
    running = [task for task in tasks if not task.done()]
    for task in running:
        task.cancel()
    if running:
        await asyncio.wait(running)
    for task in tasks:
        if not task.cancelled():
            task.exception()  # retrieved, so that asyncio logs nothing
