"""Several steps at once, none of which outlives the others' failure."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable


async def gather_all(steps: Iterable[Awaitable[None]]) -> None:
    """Wait for all of them, done side by side; the first error is raised when none of them is under way any more."""
    tasks = [asyncio.ensure_future(step) for step in steps]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
