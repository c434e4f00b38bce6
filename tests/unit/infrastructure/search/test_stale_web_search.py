"""Old results are better than an error, and say how old they are."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from tests.support.guards import search_chain

from modules.llm_platform.domain.dtos.web_search_dtos import (
    DOCUMENTS,
    WebSearchRequest,
    WebSearchResponse,
    WebSearchResultItem,
)
from modules.llm_platform.domain.exceptions import WebSearchConnectionError, WebSearchRequestError
from modules.llm_platform.domain.search.fresh_searches import search_afresh
from modules.llm_platform.infrastructure.cache.memory import MemoryCache
from modules.llm_platform.infrastructure.search.web_search_chain import STALE_TTL_S, SearchCaches, StoredSearch
from modules.llm_platform.testing import FakeWebSearch, result_item
from shared.exceptions import AppException

REQUEST = WebSearchRequest(query="lighthouses")
TTL_S = 60.0


class Provider(FakeWebSearch):
    """A provider whose outcome the test changes."""

    def __init__(self, outcome: list[WebSearchResultItem] | AppException, name: str) -> None:
        super().__init__(name=name)
        self.outcome = outcome

    async def search(self, request: WebSearchRequest) -> WebSearchResponse:
        self.requests.append(request)
        return self._answer(request, self.outcome)


class World:
    """Two providers with the policies, and a manual clock."""

    def __init__(self, name: str = "first", max_entries: int = 10) -> None:
        self.now = 0.0
        self.first = Provider([result_item(1)], name)
        self.second = Provider(WebSearchConnectionError("second is down", retry_after_s=60), "second")
        stored: MemoryCache[StoredSearch] = MemoryCache(max_entries, self.clock)
        self.search = search_chain(
            self.first,
            self.second,
            caches=SearchCaches(TTL_S, MemoryCache(10, self.clock), stored),
            now=lambda: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.now),
        ).search

    def clock(self) -> float:
        return self.now

    def fail(self, error: AppException | None = None) -> None:
        self.first.outcome = error or WebSearchConnectionError("first is down")


async def test_a_task_that_searches_afresh_gets_no_old_results() -> None:
    world = World()
    await world.search(REQUEST)
    world.fail()
    world.now = TTL_S + 1

    async def afresh() -> WebSearchResponse:
        search_afresh()
        return await world.search(REQUEST)

    with pytest.raises(WebSearchConnectionError):
        await asyncio.create_task(afresh())
    assert (await world.search(REQUEST)).cached


async def test_old_results_are_served_when_every_provider_fails() -> None:
    """They are marked as cached; `degraded` names the failure, their age, and when to try again."""
    world = World()
    fresh = await world.search(REQUEST)
    world.fail()
    world.now = 74 * 60
    stale = await world.search(REQUEST)
    assert stale.results == fresh.results
    assert stale.cached
    (entry,) = stale.degraded
    assert entry.component == "first,second"
    assert "1 h 14 min old" in entry.reason
    assert "web_search_connection" in entry.reason
    assert entry.until is not None


async def test_a_cached_response_does_not_look_younger() -> None:
    """The age counts from the answer of the provider, not from the last hit."""
    world = World()
    await world.search(REQUEST)
    world.now = TTL_S / 2
    assert (await world.search(REQUEST)).cached
    world.fail()
    world.now = 600
    assert "10 min old" in (await world.search(REQUEST)).degraded[0].reason


async def test_a_provider_that_works_is_asked_again() -> None:
    """Old results are never served while a provider answers."""
    world = World()
    await world.search(REQUEST)
    world.now = 600
    answer = await world.search(REQUEST)
    assert (answer.cached, answer.degraded) == (False, ())
    assert len(world.first.requests) == 2


async def test_other_questions_fail() -> None:
    """Only the same request has old results."""
    world = World()
    await world.search(REQUEST)
    world.fail()
    with pytest.raises(WebSearchConnectionError, match="second is down"):
        await world.search(REQUEST.with_(page=2))


async def test_results_become_too_old() -> None:
    """After some hours the error is the better answer."""
    world = World()
    await world.search(REQUEST)
    world.fail()
    world.now = STALE_TTL_S + 1
    with pytest.raises(WebSearchConnectionError):
        await world.search(REQUEST)


async def test_the_callers_mistake_is_raised() -> None:
    """A wrong request has no old answer."""
    world = World()
    await world.search(REQUEST)
    world.fail(WebSearchRequestError())
    world.now = 600
    with pytest.raises(WebSearchRequestError):
        await world.search(REQUEST)


@pytest.mark.parametrize("case", ["nothing found", "documents"])
async def test_what_is_not_stored(case: str) -> None:
    """Empty answers are not stored, nor answers from documents, whose files may have been deleted."""
    world = World(DOCUMENTS if case == "documents" else "first")
    if case == "nothing found":
        world.first.outcome = []
    await world.search(REQUEST)
    world.fail()
    world.now = 3600
    with pytest.raises(WebSearchConnectionError):
        await world.search(REQUEST)


async def test_the_store_is_bounded() -> None:
    """The oldest requests are forgotten first."""
    world = World(max_entries=2)
    pages = [REQUEST.with_(page=page) for page in (1, 2, 3)]
    for page in pages:
        await world.search(page)
    world.fail()
    world.now = 3600
    with pytest.raises(WebSearchConnectionError):
        await world.search(pages[0])
    assert (await world.search(pages[2])).results
