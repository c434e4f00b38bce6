"""The fake and each policy around it fulfil the contract of the port."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.fakes.metrics import MemoryMetrics
from tests.support.guards import cached_search, guarded_search, search_chain

from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest
from modules.llm_platform.domain.exceptions import WebSearchConnectionError
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from modules.llm_platform.infrastructure.cache.memory import MemoryCache
from modules.llm_platform.infrastructure.limits.upstream_limits import CircuitBreaker, RateLimiter, RetryBudget
from modules.llm_platform.infrastructure.search.web_search_chain import SearchCaches
from modules.llm_platform.testing.web_search import (
    FakeWebSearch,
    SearchCase,
    SlowSearch,
    WebSearchProviderContract,
    result_item,
)

Wrap = Callable[[IWebSearchProvider], IWebSearchProvider]
WRAPPED: dict[str, Wrap] = {
    "bare": lambda provider: provider,
    "guarded": guarded_search,
    "cached": lambda provider: cached_search(provider, MemoryCache(10), 60),
    "retried": lambda provider: guarded_search(provider, retries=RetryBudget()),
    "measured": lambda provider: guarded_search(provider, metrics=MemoryMetrics()),
    "rate limited": lambda provider: guarded_search(provider, RateLimiter(1000, max_concurrent=4)),
    "with a circuit": lambda provider: guarded_search(provider, circuit=CircuitBreaker(provider.name)),
    "stale while error": lambda provider: guarded_search(
        provider, caches=SearchCaches(60, MemoryCache(10), MemoryCache(10))
    ),
    "as documents": lambda provider: search_chain(documents=provider),
}


class TestPolicies(WebSearchProviderContract):
    is_remote = False

    @pytest.fixture(params=list(WRAPPED))
    def wrap(self, request: pytest.FixtureRequest) -> Wrap:
        return WRAPPED[request.param]

    @pytest.fixture
    def findable(self) -> WebSearchRequest:
        return WebSearchRequest(query="lighthouses")

    @pytest.fixture
    def provider(self, wrap: Wrap) -> IWebSearchProvider:
        return wrap(FakeWebSearch({"lighthouses": [result_item(number, "lighthouses") for number in range(9)]}))

    @pytest.fixture
    def nothing_to_find(self, provider: IWebSearchProvider) -> SearchCase:
        return SearchCase(provider, WebSearchRequest(query="unwritten"))

    @pytest.fixture
    def unreachable(self, wrap: Wrap) -> SearchCase:
        return SearchCase(wrap(FakeWebSearch(WebSearchConnectionError())), WebSearchRequest(query="anything"))

    @pytest.fixture
    def slow(self, wrap: Wrap) -> SlowSearch:
        fake = FakeWebSearch(delay_s=60)
        return SlowSearch(wrap(fake), lambda: fake.running)
