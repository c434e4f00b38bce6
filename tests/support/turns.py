"""Turns of the event loop, to check that nothing more happens without a sleep, which proves nothing on a busy machine."""

from __future__ import annotations

import asyncio

TURNS = 100  # longer than any chain of tasks in our tests that wake each other


async def run_ready_tasks() -> None:
    """Run every task until it waits for time, a file or a socket."""
    for _ in range(TURNS):
        await asyncio.sleep(0)
