"""SearXNG fulfils the contract of the port with recordings, and with a live instance if SEARXNG_TEST_URL is set."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

import httpx2
import pytest
from tests.contracts.search_row_contract import AnsweredSearchContract, HttpSearchContract
from tests.support.loopback_upstream import recorded

from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from modules.llm_platform.infrastructure.http.client import make_client
from modules.llm_platform.infrastructure.search.searxng.web_search import SearXNGWebSearchAdapter


class Adapter:
    def adapter(self, url: str, client: httpx2.AsyncClient) -> SearXNGWebSearchAdapter:
        return SearXNGWebSearchAdapter(url, client=client)


class TestSearXNG(Adapter, AnsweredSearchContract):
    found = "unicode encoding"
    answers = (recorded("searxng/07_engines_list"), recorded("searxng/10_empty_result"))


@pytest.mark.live
@pytest.mark.live_searxng
class TestLiveSearXNG(Adapter, HttpSearchContract):
    found = os.environ.get("SEARXNG_TEST_QUERY", "python")
    not_found = "zzqxvjk wqqzzt vxqqjzk"

    @pytest.fixture
    async def provider(self) -> AsyncIterator[IWebSearchProvider]:
        url = os.environ["SEARXNG_TEST_URL"]
        async with make_client(url) as client:
            yield self.adapter(url, client)

    async def test_count_limits_the_results_and_keeps_the_best(
        self, provider: IWebSearchProvider, findable: WebSearchRequest
    ) -> None:
        """There are at most `count` results. The order of a live instance may change between searches."""
        assert len((await provider.search(findable.with_(count=3))).results) <= 3

    async def test_a_live_instance_is_reachable(self, provider: SearXNGWebSearchAdapter) -> None:
        """By its ping."""
        assert await provider.ping() == "reachable"
