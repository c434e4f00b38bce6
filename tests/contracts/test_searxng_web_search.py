"""SearXNG keeps the promises of the port, over recordings and, on demand, over a live instance (SEARXNG_TEST_URL)."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

import pytest
from tests.contracts.search_row_contract import SearchRowContract
from tests.loopback_upstream import by_query, recorded, serving, silence

from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from modules.llm_platform.infrastructure.adapters.searxng.web_search import SearXNGWebSearchAdapter
from modules.llm_platform.infrastructure.http.client import make_client
from modules.llm_platform.testing.web_search import SearchCase, SlowSearch, WebSearchProviderContract

NOBODY_LISTENS = "http://127.0.0.1:9"  # the discard port


class SearXNGContract(WebSearchProviderContract):
    """What recordings and a live instance share: where nobody listens, and an instance that does not answer."""

    @pytest.fixture
    async def unreachable(self) -> AsyncIterator[SearchCase]:
        async with make_client(NOBODY_LISTENS) as client:
            yield SearchCase(SearXNGWebSearchAdapter(NOBODY_LISTENS, client=client), WebSearchRequest(query="anything"))

    @pytest.fixture
    async def slow(self) -> AsyncIterator[SlowSearch]:
        async with serving(silence) as upstream, make_client(upstream.url) as client:
            yield SlowSearch(SearXNGWebSearchAdapter(upstream.url, client=client), lambda: upstream.busy)


class TestSearXNG(SearXNGContract, SearchRowContract):
    @pytest.fixture
    def findable(self) -> WebSearchRequest:
        return WebSearchRequest(query="unicode encoding")

    @pytest.fixture
    async def provider(self) -> AsyncIterator[IWebSearchProvider]:
        answers = {
            "unicode encoding": recorded("searxng/07_engines_list"),
            "zzqxvjk wqqzzt": recorded("searxng/10_empty_result"),
        }
        async with serving(by_query(answers)) as upstream, make_client(upstream.url) as client:
            yield SearXNGWebSearchAdapter(upstream.url, client=client)

    @pytest.fixture
    def nothing_to_find(self, provider: IWebSearchProvider) -> SearchCase:
        return SearchCase(provider, WebSearchRequest(query="zzqxvjk wqqzzt"))


@pytest.mark.live
@pytest.mark.live_searxng
class TestLiveSearXNG(SearXNGContract):
    @pytest.fixture
    def findable(self) -> WebSearchRequest:
        return WebSearchRequest(query=os.environ.get("SEARXNG_TEST_QUERY", "python"))

    @pytest.fixture
    async def provider(self) -> AsyncIterator[IWebSearchProvider]:
        url = os.environ["SEARXNG_TEST_URL"]
        async with make_client(url) as client:
            yield SearXNGWebSearchAdapter(url, client=client)

    @pytest.fixture
    def nothing_to_find(self, provider: IWebSearchProvider) -> SearchCase:
        return SearchCase(provider, WebSearchRequest(query="zzqxvjk wqqzzt vxqqjzk"))

    async def test_count_limits_the_results_and_keeps_the_best(
        self, provider: IWebSearchProvider, findable: WebSearchRequest
    ) -> None:
        """There are at most `count` results. The order of a live instance may change between searches."""
        assert len((await provider.search(findable.with_(count=3))).results) <= 3

    async def test_a_live_instance_is_reachable(self, provider: SearXNGWebSearchAdapter) -> None:
        """By its ping."""
        assert await provider.ping() == "reachable"
