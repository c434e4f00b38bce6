"""All indexes of named folders that lie below the data folder."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from modules.llm_platform.infrastructure.folders.home import DAY_S, remove_unused

ALL: Final = -DAY_S  # older than tomorrow


class KeptFolders:
    """Removes indexes; what is being written stays, and who reads one goes on. `clock`: seconds since 1970."""

    def __init__(self, base: Path, ttl_days: float, clock: Callable[[], float] = time.time) -> None:
        self._base = base
        self._ttl_s = ttl_days * DAY_S
        self._clock = clock

    async def clean(self) -> int:
        """Remove those that nobody used for STORE_TTL_DAYS; how many they were."""
        return await self._remove(self._ttl_s)

    async def clear(self) -> int:
        """Remove all; how many they were."""
        return await self._remove(ALL)

    async def _remove(self, ttl_s: float) -> int:
        return await asyncio.to_thread(remove_unused, self._base, ttl_s, self._clock())
