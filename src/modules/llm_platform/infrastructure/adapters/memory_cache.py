"""A cache in this process: the least recently used entry goes first, and each lives for its time."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic

from modules.llm_platform.domain.ports.cache import ICache, Value


class MemoryCache(ICache[Value], Generic[Value]):
    """Holds `max_entries` at most. Values are frozen, so they are kept and given as they are. `clock`: seconds."""

    def __init__(self, max_entries: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._max_entries = max_entries
        self._clock = clock
        self._entries: OrderedDict[str, tuple[float, Value]] = OrderedDict()

    async def get(self, key: str) -> Value | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        expires, value = entry
        if self._clock() >= expires:
            del self._entries[key]
            return None
        self._entries.move_to_end(key)
        return value

    async def set(self, key: str, value: Value, ttl_s: float) -> None:
        self._entries.pop(key, None)
        if ttl_s <= 0:
            return
        self._entries[key] = (self._clock() + ttl_s, value)
        while len(self._entries) > self._max_entries:
            self._entries.popitem(last=False)
