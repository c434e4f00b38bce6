"""The contract of `ICache`."""

from __future__ import annotations

import asyncio

from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchResponse
from modules.llm_platform.domain.ports.cache import ICache
from modules.llm_platform.testing.waiting import Elapse

_SHORT_S = 1.0
_LONG_S = 3600.0


class CacheContract:
    """Subclass it and add these fixtures.

    `cache`: an empty ICache of WebSearchResponse with room for ten entries · `elapse`: a coroutine function that advances
    the clock of the cache by seconds.
    """

    async def test_missing_key_is_none(self, cache: ICache[WebSearchResponse]) -> None:
        """A missing key is None, not an error."""
        assert await cache.get("never") is None

    async def test_value_is_returned_unchanged(self, cache: ICache[WebSearchResponse]) -> None:
        """A value keeps all fields, and keys are independent."""
        await cache.set("a", _response("first"), _LONG_S)
        await cache.set("b", _response("second"), _LONG_S)
        assert await cache.get("a") == _response("first")
        assert await cache.get("b") == _response("second")

    async def test_second_value_replaces_the_first(self, cache: ICache[WebSearchResponse]) -> None:
        """Setting a key again replaces its value and lifetime."""
        await cache.set("a", _response("old"), _LONG_S)
        await cache.set("a", _response("new"), _LONG_S)
        assert await cache.get("a") == _response("new")

    async def test_value_expires(self, cache: ICache[WebSearchResponse], elapse: Elapse) -> None:
        """A value is removed after its lifetime; one with a longer lifetime stays."""
        await cache.set("short", _response("short"), _SHORT_S)
        await cache.set("long", _response("long"), _LONG_S)
        await elapse(_SHORT_S * 1.5)
        assert await cache.get("short") is None
        assert await cache.get("long") == _response("long")

    async def test_zero_ttl_removes_the_value(self, cache: ICache[WebSearchResponse]) -> None:
        """A lifetime of zero or less stores nothing and removes an earlier value."""
        await cache.set("a", _response("stored"), _LONG_S)
        await cache.set("a", _response("not stored"), 0.0)
        await cache.set("b", _response("never"), -1.0)
        assert await cache.get("a") is None
        assert await cache.get("b") is None

    async def test_calls_can_run_concurrently(self, cache: ICache[WebSearchResponse]) -> None:
        """After concurrent calls each key has its own value."""
        keys = [f"key {number}" for number in range(8)]
        await asyncio.gather(*(cache.set(key, _response(key), _LONG_S) for key in keys))
        assert await asyncio.gather(*(cache.get(key) for key in keys)) == [_response(key) for key in keys]


def _response(query: str) -> WebSearchResponse:
    raw = {"deep": [1, None, "x"]}
    return WebSearchResponse(query=query, provider="fake", suggestions=("ünïcode", "日本語"), raw=raw)
