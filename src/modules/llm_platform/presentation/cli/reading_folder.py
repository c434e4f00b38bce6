"""How far the reading of a named folder is, for a person who waits for an answer from it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from modules.llm_platform.application.platform import LLMPlatform
from modules.llm_platform.presentation.cli.console import Console

EVERY_S: Final = 2.0  # a folder that is read sooner is not worth a line


@asynccontextmanager
async def told_of_reading(console: Console, platform: LLMPlatform, every_s: float = EVERY_S) -> AsyncIterator[None]:
    """While the block runs, a line now and then as long as documents are being read."""
    if not console.watched:
        yield
        return
    telling = asyncio.create_task(_tell(console, platform, every_s))
    try:
        yield
    finally:
        telling.cancel()
        await asyncio.wait([telling])


async def _tell(console: Console, platform: LLMPlatform, every_s: float) -> None:
    while True:
        await asyncio.sleep(every_s)
        if now := platform.reading:
            share = f" ({now.done_bytes / now.total_bytes:.0%})" if now.total_bytes else ""
            console.step(f"reading the documents: {now.documents:,} so far{share} …")
