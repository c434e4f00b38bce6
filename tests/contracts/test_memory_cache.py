"""The in-process cache fulfils the contract of the port, also as a store of local copies."""

from __future__ import annotations

import weakref

import pytest
from tests.fakes.cache import CacheContract
from tests.support.clock import Clock

from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchResponse
from modules.llm_platform.infrastructure.cache.memory import SWEEP_S, MemoryCache
from modules.llm_platform.infrastructure.cache.redis import LOCAL_TTL_S, LocalCopies


class TestMemoryCache(CacheContract):
    @pytest.fixture
    def cache(self, clock: Clock) -> MemoryCache[WebSearchResponse]:
        return MemoryCache(10, clock)

    async def test_the_least_recently_used_entry_is_evicted(self, clock: Clock) -> None:
        """The cache never exceeds its limit."""
        cache: MemoryCache[WebSearchResponse] = MemoryCache(2, clock)
        for key in ("a", "b"):
            await cache.set(key, WebSearchResponse(query=key), 60)
        assert await cache.get("a")
        await cache.set("c", WebSearchResponse(query="c"), 60)
        assert [key for key in "abc" if await cache.get(key)] == ["a", "c"]

    async def test_expired_entries_are_removed(self, clock: Clock) -> None:
        """Expired entries are removed within a minute, even if they are not requested."""
        cache: MemoryCache[WebSearchResponse] = MemoryCache(10, clock)
        text = WebSearchResponse(query="private")
        await cache.set("a", text, 1)
        is_gone = weakref.ref(text, lambda _: None)
        del text
        await clock.elapse(SWEEP_S + 1)
        await cache.set("b", WebSearchResponse(query="b"), 1)
        assert is_gone() is None

    async def test_a_hit_is_the_stored_object(self, cache: MemoryCache[WebSearchResponse]) -> None:
        """Values are frozen, so no copy is needed."""
        entry = WebSearchResponse(query="q")
        await cache.set("a", entry, 60)
        assert await cache.get("a") is entry


class TestLocalCopies(CacheContract):
    @pytest.fixture
    def shared(self, clock: Clock) -> MemoryCache[WebSearchResponse]:
        return MemoryCache(10, clock)

    @pytest.fixture
    def cache(self, clock: Clock, shared: MemoryCache[WebSearchResponse]) -> LocalCopies[WebSearchResponse]:
        return LocalCopies(shared, MemoryCache(10, clock))

    async def test_a_copy_expires_at_most_one_lifetime_after_its_entry(
        self,
        cache: LocalCopies[WebSearchResponse],
        shared: MemoryCache[WebSearchResponse],
        clock: Clock,
    ) -> None:
        """After LOCAL_TTL_S the entry is requested again, whether this process set it or read it."""
        await cache.set("own", WebSearchResponse(query="own"), 3600)
        await shared.set("other", WebSearchResponse(query="other"), 3600)
        assert await cache.get("other")
        for key in ("own", "other"):
            await shared.set(key, WebSearchResponse(query=key), 0)
        await clock.elapse(LOCAL_TTL_S - 1)
        assert [bool(await cache.get(key)) for key in ("own", "other")] == [True, True]
        await clock.elapse(2)
        assert [await cache.get(key) for key in ("own", "other")] == [None, None]
