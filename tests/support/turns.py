"""Turns of the event loop: for "nothing more happens" without a sleep, which proves nothing on a busy machine."""

from __future__ import annotations

import asyncio

TURNS = 100  # longer than any chain of tasks that wake each other in our tests


async def run_ready_tasks() -> None:
    """Let every task go on until it waits for time, a file or a socket."""
    for _ in range(TURNS):
        await asyncio.sleep(0)
