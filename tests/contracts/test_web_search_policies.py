"""The fake and each policy around it fulfil the contract of the port."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.fakes.metrics import MemoryMetrics

from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest
from modules.llm_platform.domain.exceptions import WebSearchConnectionError
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from modules.llm_platform.infrastructure.adapters.memory_cache import MemoryCache
from modules.llm_platform.infrastructure.policies.caching import CachedWebSearch, StaleWebSearch
from modules.llm_platform.infrastructure.policies.circuit_breaker import CircuitBreaker
from modules.llm_platform.infrastructure.policies.failover import FailoverWebSearch
from modules.llm_platform.infrastructure.policies.measured import MeasuredWebSearch
from modules.llm_platform.infrastructure.policies.rate_limits import RateLimitedWebSearch, RateLimiter
from modules.llm_platform.infrastructure.policies.retries import RetriedWebSearch
from modules.llm_platform.infrastructure.policies.routing import RoutedWebSearch
from modules.llm_platform.infrastructure.policies.single_flight import SingleFlightWebSearch
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
    "cached": lambda provider: CachedWebSearch(provider, MemoryCache(10), 60),
    "failover": lambda provider: FailoverWebSearch([provider]),
    "retried": RetriedWebSearch,
    "measured": lambda provider: MeasuredWebSearch(provider, MemoryMetrics()),
    "rate limited": lambda provider: RateLimitedWebSearch(provider, RateLimiter(1000, max_concurrent=4)),
    "with a circuit": lambda provider: RateLimitedWebSearch(
        provider, RateLimiter(None, max_concurrent=4), circuit=CircuitBreaker(provider.name)
    ),
    "single flight": SingleFlightWebSearch,
    "stale while error": lambda provider: StaleWebSearch(provider, MemoryCache(10)),
    "by source": lambda provider: RoutedWebSearch(provider, None),
    "as documents": lambda provider: RoutedWebSearch(None, provider),
    "all": lambda p: RoutedWebSearch(
        SingleFlightWebSearch(
            StaleWebSearch(FailoverWebSearch([CachedWebSearch(RetriedWebSearch(p), MemoryCache(9), 9)]), MemoryCache(9))
        ),
        None,
    ),
}


class TestPolicies(WebSearchProviderContract):
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
