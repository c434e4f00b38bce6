"""A policy wraps the port and is the port: the fake and each policy around it keep the same promises."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest
from modules.llm_platform.domain.exceptions import WebSearchConnectionError
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from modules.llm_platform.infrastructure.adapters.memory_cache import MemoryCache
from modules.llm_platform.infrastructure.policies.caching import CachedWebSearch
from modules.llm_platform.infrastructure.policies.failover import FailoverWebSearch
from modules.llm_platform.infrastructure.policies.rate_limits import RateLimiter, ThrottledWebSearch
from modules.llm_platform.infrastructure.policies.retries import RetriedWebSearch
from modules.llm_platform.infrastructure.policies.routing import BySourceWebSearch
from modules.llm_platform.testing.web_search import (
    FakeWebSearch,
    Looking,
    Slow,
    WebSearchProviderContract,
    result_item,
)

Wrap = Callable[[IWebSearchProvider], IWebSearchProvider]
WRAPPED: dict[str, Wrap] = {
    "bare": lambda provider: provider,
    "cached": lambda provider: CachedWebSearch(provider, MemoryCache(10), 60),
    "failover": lambda provider: FailoverWebSearch([provider]),
    "retried": RetriedWebSearch,
    "throttled": lambda provider: ThrottledWebSearch(provider, RateLimiter(1000, at_once=4)),
    "by source": lambda provider: BySourceWebSearch(provider, None),
    "as documents": lambda provider: BySourceWebSearch(None, provider),
    "all": lambda p: BySourceWebSearch(FailoverWebSearch([CachedWebSearch(RetriedWebSearch(p), MemoryCache(9), 9)]), None),
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
    def nothing_to_find(self, provider: IWebSearchProvider) -> Looking:
        return Looking(provider, WebSearchRequest(query="unwritten"))

    @pytest.fixture
    def unreachable(self, wrap: Wrap) -> Looking:
        return Looking(wrap(FakeWebSearch(WebSearchConnectionError())), WebSearchRequest(query="anything"))

    @pytest.fixture
    def slow(self, wrap: Wrap) -> Slow:
        fake = FakeWebSearch(delay_s=60)
        return Slow(wrap(fake), lambda: fake.running)
