"""Concurrent steps that end together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable


async def gather_all(steps: Iterable[Awaitable[None]]) -> None:
    """Run all steps concurrently. After an error the others are cancelled and awaited, then it is raised."""
    tasks = [asyncio.ensure_future(step) for step in steps]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
