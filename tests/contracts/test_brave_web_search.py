"""Brave keeps the promises of the port, over answers made after its reference."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.loopback_upstream import Exchange, recorded, serving, silence

from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from modules.llm_platform.infrastructure.adapters.brave_web_search import BraveWebSearchAdapter
from modules.llm_platform.infrastructure.http.client import make_client
from modules.llm_platform.testing.web_search import Looking, Slow, WebSearchProviderContract

KEY = "BSA-0123456789"
NOBODY_LISTENS = "http://127.0.0.1:9"


async def brave(exchange: Exchange) -> None:
    await recorded("brave/nothing_found" if "zzqxvjk" in exchange.path else "brave/web")(exchange)


class TestBrave(WebSearchProviderContract):
    @pytest.fixture
    def findable(self) -> WebSearchRequest:
        return WebSearchRequest(query="python asyncio")

    @pytest.fixture
    async def provider(self) -> AsyncIterator[IWebSearchProvider]:
        async with serving(brave) as upstream, make_client(upstream.url) as client:
            yield BraveWebSearchAdapter(KEY, upstream.url, client=client)

    @pytest.fixture
    def nothing_to_find(self, provider: IWebSearchProvider) -> Looking:
        return Looking(provider, WebSearchRequest(query="zzqxvjk"))

    @pytest.fixture
    async def unreachable(self) -> AsyncIterator[Looking]:
        async with make_client(NOBODY_LISTENS) as client:
            yield Looking(BraveWebSearchAdapter(KEY, NOBODY_LISTENS, client=client), WebSearchRequest(query="any"))

    @pytest.fixture
    async def slow(self) -> AsyncIterator[Slow]:
        async with serving(silence) as upstream, make_client(upstream.url) as client:
            yield Slow(BraveWebSearchAdapter(KEY, upstream.url, client=client), lambda: upstream.busy)
