"""The cache of searches: entries, TTL and keys."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.support.cases import for_each
from tests.support.clock import Clock
from tests.support.guards import cached_search

from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.web_search_dtos import (
    MAX_QUERY_CHARS,
    VerbatimWebSearchRequest,
    WebSearchRequest,
    WebSearchResponse,
)
from modules.llm_platform.domain.exceptions import WebSearchError
from modules.llm_platform.domain.search.fresh_searches import search_afresh
from modules.llm_platform.infrastructure.cache.memory import MemoryCache
from modules.llm_platform.infrastructure.search.web_search_chain import WebSearchChain, search_key
from modules.llm_platform.testing.web_search import FakeWebSearch, Outcome, result_item

HOUR_S = 3600.0
REQUEST = WebSearchRequest(query="lighthouses")
FOUND = WebSearchResponse(query="lighthouses", results=(result_item(1),), provider="fake", raw={"a": 1})
DEGRADED = FOUND.with_degraded([Degraded(component="fake/one", reason="timeout")])
EMPTY = WebSearchResponse(query="lighthouses", provider="fake")


def cached(
    outcome: Outcome, *, name: str = "fake", ttl_s: float = HOUR_S
) -> tuple[WebSearchChain, FakeWebSearch, Clock]:
    clock, fake = Clock(0.0), FakeWebSearch(outcome, name=name)
    return cached_search(fake, MemoryCache(10, clock), ttl_s), fake, clock


async def test_a_hit_is_marked_and_calls_no_provider() -> None:
    """The second answer equals the first one except for `cached`, and no provider is called."""
    policy, fake, _ = cached(FOUND)
    first, second = await policy.search(REQUEST), await policy.search(REQUEST)
    assert len(fake.requests) == 1
    assert (first.cached, second.cached) == (False, True)
    assert second == first.model_copy(update={"cached": True})
    assert second.results is first.results


@for_each(
    ("outcome", "ttl_s", "lives_s"),
    [(FOUND, HOUR_S, HOUR_S), (DEGRADED, HOUR_S, 60), (EMPTY, HOUR_S, 300), (DEGRADED, 10, 10), (EMPTY, 10, 10)],
)
async def test_degraded_and_empty_answers_expire_earlier(
    outcome: WebSearchResponse, ttl_s: float, lives_s: float
) -> None:
    """Complete answers live for the setting, degraded ones a minute, empty ones five, never longer than the setting."""
    policy, fake, clock = cached(outcome, ttl_s=ttl_s)
    await policy.search(REQUEST)
    clock.now = lives_s - 0.1
    await policy.search(REQUEST)
    assert len(fake.requests) == 1
    clock.now = lives_s + 0.1
    await policy.search(REQUEST)
    assert len(fake.requests) == 2


async def afresh(search: Callable[[WebSearchRequest], Awaitable[WebSearchResponse]]) -> WebSearchResponse:
    search_afresh()
    return await search(REQUEST)


async def test_a_task_that_searches_afresh_asks_the_provider() -> None:
    """What it finds is cached for others, and no other task is changed."""
    policy, fake, _ = cached(FOUND)
    await policy.search(REQUEST)
    answer = await asyncio.create_task(afresh(policy.search))
    assert (answer.cached, len(fake.requests)) == (False, 2)
    assert (await policy.search(REQUEST)).cached
    assert len(fake.requests) == 2


async def test_a_fresh_search_joins_none_that_a_cache_may_answer() -> None:
    policy, fake, _ = cached(FOUND)
    await policy.search(REQUEST)
    ordinary, fresh = asyncio.create_task(policy.search(REQUEST)), asyncio.create_task(afresh(policy.search))
    hit, answer = await ordinary, await fresh
    assert (hit.cached, answer.cached, len(fake.requests)) == (True, False, 2)


async def test_failures_are_not_cached() -> None:
    """The next search calls the provider again."""
    policy, fake, _ = cached(WebSearchError())
    for _ in range(2):
        with pytest.raises(WebSearchError):
            await policy.search(REQUEST)
    assert len(fake.requests) == 2


@pytest.mark.parametrize("name", ["documents", "fused"])
async def test_documents_are_not_cached(name: str) -> None:
    """Files may change at any time."""
    policy, fake, _ = cached(FOUND.model_copy(update={"provider": "documents"}), name=name)
    for _ in range(2):
        assert not (await policy.search(REQUEST)).cached
    assert len(fake.requests) == 2


async def test_a_ttl_of_zero_caches_nothing() -> None:
    """Every search calls the provider."""
    policy, fake, _ = cached(FOUND, ttl_s=0)
    for _ in range(2):
        await policy.search(REQUEST)
    assert len(fake.requests) == 2


OTHER: dict[str, Any] = {
    "query": "lighthouse",
    "freshness": "oneDay",
    "summary": False,
    "count": 11,
    "page": 2,
    "engines": ("google",),
    "sources": ("news",),
    "language": "de",
    "time_range": "day",
    "domains": ("python.org",),
}


@for_each("field", list(WebSearchRequest.model_fields))
def test_every_field_changes_the_key(field: str) -> None:
    """A new field must be listed here."""
    assert search_key("fake", REQUEST.with_(**{field: OTHER[field]})) != search_key("fake", REQUEST)


def test_provider_and_request_type_change_the_key() -> None:
    """A verbatim query is another search."""
    verbatim = VerbatimWebSearchRequest(query="lighthouses")
    assert len({search_key("fake", REQUEST), search_key("other", REQUEST), search_key("fake", verbatim)}) == 3


def test_the_order_of_lists_does_not_change_the_key() -> None:
    """A key has a fixed length."""
    one = WebSearchRequest(
        query="x" * MAX_QUERY_CHARS, sources=("web", "news"), engines=("a", "b"), domains=("a.org", "-b.org")
    )
    two = one.with_(sources=("news", "web", "web"), engines=("b", "a"), domains=("-b.org", "a.org"))
    assert search_key("fake", one) == search_key("fake", two)
    assert len(search_key("fake", one)) == 64
