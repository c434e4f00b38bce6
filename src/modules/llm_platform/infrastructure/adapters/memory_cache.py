"""An in-process cache: entries expire, and the least recently used one is evicted first."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Generic

from cachetools import TLRUCache

from modules.llm_platform.domain.ports.cache import ICache, Value


class MemoryCache(ICache[Value], Generic[Value]):
    """Stores up to `max_entries` (at least 1). Values are frozen, so they are not copied. `clock`: seconds."""

    def __init__(self, max_entries: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._entries: TLRUCache[str, tuple[Value, float]] = TLRUCache(max_entries, _expires_at, clock)

    async def get(self, key: str) -> Value | None:
        try:
            return self._entries[key][0]  # `get` would look twice
        except KeyError:
            return None

    async def set(self, key: str, value: Value, ttl_s: float) -> None:
        self._entries[key] = (value, ttl_s)  # a TTL of 0 removes the entry


def _expires_at(key: str, entry: tuple[Value, float], now: float) -> float:
    return now + entry[1]
