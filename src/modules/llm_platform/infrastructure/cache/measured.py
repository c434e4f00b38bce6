"""Counts the hits and misses of a cache."""

from typing import Generic

from modules.llm_platform.domain.ports.cache import ICache
from modules.llm_platform.domain.ports.cache import Value as Entry
from modules.llm_platform.domain.ports.metrics import IMetrics
from modules.llm_platform.domain.telemetry.metrics import CACHE_REQUESTS


class MeasuredCache(ICache[Entry], Generic[Entry]):
    def __init__(self, cache: ICache[Entry], name: str, metrics: IMetrics) -> None:
        self._cache = cache
        self._name = name
        self._metrics = metrics

    async def get(self, key: str) -> Entry | None:
        value = await self._cache.get(key)
        self._metrics.count(CACHE_REQUESTS, self._name, "miss" if value is None else "hit")
        return value

    async def set(self, key: str, value: Entry, ttl_s: float) -> None:
        await self._cache.set(key, value, ttl_s)
