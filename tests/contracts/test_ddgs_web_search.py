"""ddgs fulfils the contract of a web search provider, with a scripted library."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
from ddgs.exceptions import DDGSException
from tests.contracts.search_row_contract import SearchRowContract

from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest
from modules.llm_platform.infrastructure.search.ddgs import DdgsWebSearchAdapter
from modules.llm_platform.testing.web_search import SearchCase, SlowSearch

FINDABLE = "python asyncio"


class ScriptedDdgs:
    """Finds pages for one query, nothing for others."""

    def text(self, query: str, *, max_results: int, **_: Any) -> list[dict[str, str]]:
        if query != FINDABLE:
            raise DDGSException("No results found.")
        rows = [{"title": f"Page {n}", "href": f"https://example.org/{n}", "body": "Words."} for n in range(20)]
        return rows[:max_results]

    news = text


class Unreachable:
    def text(self, query: str, **_: Any) -> list[dict[str, str]]:
        raise DDGSException("ConnectError: dns error")


class Silent:
    """Waits until it is stopped."""

    busy = 0

    def __init__(self) -> None:
        self._stopped = threading.Event()

    def text(self, query: str, **_: Any) -> list[dict[str, str]]:
        type(self).busy += 1
        self._stopped.wait(30)
        type(self).busy -= 1
        return []

    def stop(self) -> None:
        self._stopped.set()


class TestDdgs(SearchRowContract):
    @pytest.fixture
    async def provider(self) -> AsyncIterator[DdgsWebSearchAdapter]:
        adapter = DdgsWebSearchAdapter(engine=ScriptedDdgs)
        yield adapter
        await adapter.aclose()

    @pytest.fixture
    def findable(self) -> WebSearchRequest:
        return WebSearchRequest(query=FINDABLE)

    @pytest.fixture
    def nothing_to_find(self, provider: DdgsWebSearchAdapter) -> SearchCase:
        return SearchCase(provider, WebSearchRequest(query="nothing"))

    @pytest.fixture
    async def unreachable(self) -> AsyncIterator[SearchCase]:
        adapter = DdgsWebSearchAdapter(engine=Unreachable)
        yield SearchCase(adapter, WebSearchRequest(query=FINDABLE))
        await adapter.aclose()

    @pytest.fixture
    async def slow(self) -> AsyncIterator[SlowSearch]:
        adapter = DdgsWebSearchAdapter(engine=Silent)
        yield SlowSearch(adapter, lambda: Silent.busy)
        await adapter.aclose()
