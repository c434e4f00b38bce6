"""The promises that every cache keeps, for those who write one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchResponse
from modules.llm_platform.domain.ports.cache import ICache

Elapse: TypeAlias = Callable[[float], Awaitable[None]]

_SHORT_S = 1.0
_LONG_S = 3600.0


class CacheContract:
    """Subclass and give two fixtures: `cache`, an empty ICache of WebSearchResponse with room for ten entries, and
    `elapse`, a coroutine function that lets that many seconds pass for the cache (a clock of one's own, or a sleep)."""

    async def test_what_was_never_set_is_none(self, cache: ICache[WebSearchResponse]) -> None:
        """Missing is None, not an error."""
        assert await cache.get("never") is None

    async def test_what_was_set_comes_back_equal(self, cache: ICache[WebSearchResponse]) -> None:
        """A value survives the trip with every field, and keys do not mix."""
        await cache.set("a", _answer("first"), _LONG_S)
        await cache.set("b", _answer("second"), _LONG_S)
        assert await cache.get("a") == _answer("first")
        assert await cache.get("b") == _answer("second")

    async def test_the_last_value_counts(self, cache: ICache[WebSearchResponse]) -> None:
        """Setting a key again replaces its value and its time."""
        await cache.set("a", _answer("old"), _LONG_S)
        await cache.set("a", _answer("new"), _LONG_S)
        assert await cache.get("a") == _answer("new")

    async def test_a_value_expires(self, cache: ICache[WebSearchResponse], elapse: Elapse) -> None:
        """After its time a value is gone, while one with more time stays."""
        await cache.set("short", _answer("short"), _SHORT_S)
        await cache.set("long", _answer("long"), _LONG_S)
        await elapse(_SHORT_S * 1.5)
        assert await cache.get("short") is None
        assert await cache.get("long") == _answer("long")

    async def test_no_time_to_live_keeps_nothing(self, cache: ICache[WebSearchResponse]) -> None:
        """Zero or fewer seconds keep nothing, and forget what was there before."""
        await cache.set("a", _answer("kept"), _LONG_S)
        await cache.set("a", _answer("not kept"), 0.0)
        await cache.set("b", _answer("never"), -1.0)
        assert await cache.get("a") is None
        assert await cache.get("b") is None

    async def test_callers_side_by_side(self, cache: ICache[WebSearchResponse]) -> None:
        """Reads and writes at the same time end with each key holding its own value."""
        keys = [f"key {number}" for number in range(8)]
        await asyncio.gather(*(cache.set(key, _answer(key), _LONG_S) for key in keys))
        assert await asyncio.gather(*(cache.get(key) for key in keys)) == [_answer(key) for key in keys]


def _answer(query: str) -> WebSearchResponse:
    raw = {"deep": [1, None, "x"]}
    return WebSearchResponse(query=query, provider="fake", suggestions=("ünïcode", "日本語"), raw=raw)
