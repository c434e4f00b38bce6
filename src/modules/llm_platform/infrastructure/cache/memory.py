"""An in-process cache: entries expire, and the least recently used one is evicted first."""

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Generic

from modules.llm_platform.domain.ports.cache import ICache, Value

SWEEP_S: Final = 60.0  # expired entries that nobody asks for are removed this often


class MemoryCache(ICache[Value], Generic[Value]):
    """Stores up to `max_entries` (at least 1). Values are frozen, so they are not copied. `clock` returns seconds."""

    def __init__(self, max_entries: int, clock: Callable[[], float] = time.monotonic) -> None:
        # cachetools' TLRUCache does the same with a heap of the times of expiry; setting an entry takes ten times as long.
        self._entries: OrderedDict[str, tuple[Value, float]] = OrderedDict()  # value and time of expiry, oldest first
        self._max_entries = max_entries
        self._clock = clock
        self._next_sweep = clock() + SWEEP_S

    async def get(self, key: str) -> Value | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        if entry[1] <= self._clock():
            del self._entries[key]
            return None
        self._entries.move_to_end(key)
        return entry[0]

    async def set(self, key: str, value: Value, ttl_s: float) -> None:
        now = self._clock()
        self._entries[key] = (value, now + ttl_s)
        self._entries.move_to_end(key)
        if now >= self._next_sweep:
            self._next_sweep = now + SWEEP_S
            for expired in [key for key, (_, expires) in self._entries.items() if expires <= now]:
                del self._entries[expired]
        if len(self._entries) > self._max_entries:
            self._entries.popitem(last=False)
