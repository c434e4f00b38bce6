"""Brave keeps the promises of the port, over answers made after its reference."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.contracts.search_row_contract import SearchRowContract
from tests.loopback_upstream import by_query, recorded, serving, silence

from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from modules.llm_platform.infrastructure.adapters.brave_web_search import BraveWebSearchAdapter
from modules.llm_platform.infrastructure.http.client import make_client
from modules.llm_platform.testing.web_search import SearchCase, SlowSearch

KEY = "BSA-0123456789"
NOBODY_LISTENS = "http://127.0.0.1:9"


class TestBrave(SearchRowContract):
    @pytest.fixture
    def findable(self) -> WebSearchRequest:
        return WebSearchRequest(query="python asyncio")

    @pytest.fixture
    async def provider(self) -> AsyncIterator[IWebSearchProvider]:
        answers = {"python asyncio": recorded("brave/web"), "zzqxvjk": recorded("brave/nothing_found")}
        async with serving(by_query(answers)) as upstream, make_client(upstream.url) as client:
            yield BraveWebSearchAdapter(KEY, upstream.url, client=client)

    @pytest.fixture
    def nothing_to_find(self, provider: IWebSearchProvider) -> SearchCase:
        return SearchCase(provider, WebSearchRequest(query="zzqxvjk"))

    @pytest.fixture
    async def unreachable(self) -> AsyncIterator[SearchCase]:
        async with make_client(NOBODY_LISTENS) as client:
            yield SearchCase(BraveWebSearchAdapter(KEY, NOBODY_LISTENS, client=client), WebSearchRequest(query="any"))

    @pytest.fixture
    async def slow(self) -> AsyncIterator[SlowSearch]:
        async with serving(silence) as upstream, make_client(upstream.url) as client:
            yield SlowSearch(BraveWebSearchAdapter(KEY, upstream.url, client=client), lambda: upstream.busy)
