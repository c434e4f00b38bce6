"""A cache in this process: the least recently used entry goes first, and each lives for its time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Generic

from cachetools import TLRUCache

from modules.llm_platform.domain.ports.cache import ICache, Value


class MemoryCache(ICache[Value], Generic[Value]):
    """Holds `max_entries` (1 at least). Values are frozen, so they are kept and given as they are. `clock`: seconds."""

    def __init__(self, max_entries: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._entries: TLRUCache[str, tuple[Value, float]] = TLRUCache(max_entries, _expires_at, clock)

    async def get(self, key: str) -> Value | None:
        entry = self._entries.get(key)
        return entry[0] if entry else None

    async def set(self, key: str, value: Value, ttl_s: float) -> None:
        self._entries[key] = (value, ttl_s)  # a time of 0 removes what was there


def _expires_at(key: str, entry: tuple[Value, float], now: float) -> float:
    return now + entry[1]
