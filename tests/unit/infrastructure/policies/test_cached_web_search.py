"""What is kept, for how long, and under which key."""

from __future__ import annotations

from typing import Any

import pytest

from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.web_search_dtos import (
    VerbatimWebSearchRequest,
    WebSearchRequest,
    WebSearchResponse,
)
from modules.llm_platform.domain.exceptions import WebSearchError
from modules.llm_platform.infrastructure.adapters.memory_cache import MemoryCache
from modules.llm_platform.infrastructure.policies.caching import CachedWebSearch, key_of
from modules.llm_platform.testing.web_search import FakeWebSearch, Outcome, result_item

HOUR_S = 3600.0
REQUEST = WebSearchRequest(query="lighthouses")
FOUND = WebSearchResponse(query="lighthouses", results=(result_item(1),), provider="fake", raw={"a": 1})
DEGRADED = FOUND.with_degraded([Degraded(component="fake/one", reason="timeout")])
EMPTY = WebSearchResponse(query="lighthouses", provider="fake")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def cached(outcome: Outcome, *, name: str = "fake", ttl_s: float = HOUR_S) -> tuple[CachedWebSearch, FakeWebSearch, Clock]:
    clock, fake = Clock(), FakeWebSearch(outcome, name=name)
    return CachedWebSearch(fake, MemoryCache(10, clock), ttl_s), fake, clock


async def test_a_hit_spends_nothing_and_says_so() -> None:
    """The same search is asked once; the second answer is equal but for `cached`."""
    policy, fake, _ = cached(FOUND)
    first, second = await policy.search(REQUEST), await policy.search(REQUEST)
    assert len(fake.requests) == 1
    assert (first.cached, second.cached) == (False, True)
    assert second == first.model_copy(update={"cached": True})
    assert second.results is first.results


@pytest.mark.parametrize(
    ("outcome", "ttl_s", "lives_s"),
    [(FOUND, HOUR_S, HOUR_S), (DEGRADED, HOUR_S, 60), (EMPTY, HOUR_S, 300), (DEGRADED, 10, 10), (EMPTY, 10, 10)],
)
async def test_how_long_an_answer_lives(outcome: WebSearchResponse, ttl_s: float, lives_s: float) -> None:
    """Whole answers their full time, degraded ones a minute, empty ones five, never longer than the setting."""
    policy, fake, clock = cached(outcome, ttl_s=ttl_s)
    await policy.search(REQUEST)
    clock.now = lives_s - 0.1
    await policy.search(REQUEST)
    assert len(fake.requests) == 1
    clock.now = lives_s + 0.1
    await policy.search(REQUEST)
    assert len(fake.requests) == 2


async def test_failures_are_not_kept() -> None:
    """The next one asks again."""
    policy, fake, _ = cached(WebSearchError())
    for _ in range(2):
        with pytest.raises(WebSearchError):
            await policy.search(REQUEST)
    assert len(fake.requests) == 2


@pytest.mark.parametrize("name", ["documents", "fused"])
async def test_documents_are_not_kept(name: str) -> None:
    """Files change: neither their provider nor an answer of theirs is cached."""
    policy, fake, _ = cached(FOUND.model_copy(update={"provider": "documents"}), name=name)
    for _ in range(2):
        assert not (await policy.search(REQUEST)).cached
    assert len(fake.requests) == 2


async def test_no_time_no_cache() -> None:
    """A time to live of 0 keeps nothing."""
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


@pytest.mark.parametrize("field", list(WebSearchRequest.model_fields))
def test_every_field_changes_the_key(field: str) -> None:
    """A field that a later version adds must be listed here, and then changes the key too."""
    assert key_of("fake", REQUEST.with_(**{field: OTHER[field]})) != key_of("fake", REQUEST)


def test_who_is_asked_and_how_changes_the_key() -> None:
    """Another provider, or a query that is passed on as written, is another search."""
    verbatim = VerbatimWebSearchRequest(query="lighthouses")
    assert len({key_of("fake", REQUEST), key_of("other", REQUEST), key_of("fake", verbatim)}) == 3


def test_what_changes_nothing_keeps_the_key() -> None:
    """The order of sets does not matter, and a key is short whatever the query."""
    one = WebSearchRequest(query="x" * 500, sources=("web", "news"), engines=("a", "b"), domains=("a.org", "-b.org"))
    two = one.with_(sources=("news", "web", "web"), engines=("b", "a"), domains=("-b.org", "a.org"))
    assert key_of("fake", one) == key_of("fake", two)
    assert len(key_of("fake", one)) == 64
