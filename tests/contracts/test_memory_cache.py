"""The cache in this process keeps the promises of the port."""

from __future__ import annotations

import pytest

from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchResponse
from modules.llm_platform.infrastructure.adapters.memory_cache import MemoryCache
from modules.llm_platform.testing.cache import CacheContract, Elapse


class Clock:
    """A clock that stands still until it is pushed."""

    now = 0.0

    def __call__(self) -> float:
        return self.now

    async def elapse(self, seconds: float) -> None:
        self.now += seconds


class TestMemoryCache(CacheContract):
    @pytest.fixture
    def clock(self) -> Clock:
        return Clock()

    @pytest.fixture
    def cache(self, clock: Clock) -> MemoryCache[WebSearchResponse]:
        return MemoryCache(10, clock)

    @pytest.fixture
    def elapse(self, clock: Clock) -> Elapse:
        return clock.elapse

    async def test_the_least_recently_used_goes_first(self, clock: Clock) -> None:
        """A full cache forgets what was read or written longest ago, and never holds more than its limit."""
        cache: MemoryCache[WebSearchResponse] = MemoryCache(2, clock)
        for key in ("a", "b"):
            await cache.set(key, WebSearchResponse(query=key), 60)
        assert await cache.get("a")
        await cache.set("c", WebSearchResponse(query="c"), 60)
        assert [key for key in "abc" if await cache.get(key)] == ["a", "c"]

    async def test_a_hit_is_the_very_object(self, cache: MemoryCache[WebSearchResponse]) -> None:
        """Values are frozen: handing one out costs no copy."""
        kept = WebSearchResponse(query="q")
        await cache.set("a", kept, 60)
        assert await cache.get("a") is kept
