"""Failover of search providers."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from tests.support.guards import search_chain

from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest, WebSearchResponse
from modules.llm_platform.domain.exceptions import (
    WebSearchBlockedError,
    WebSearchConfigError,
    WebSearchConnectionError,
    WebSearchError,
    WebSearchRequestError,
)
from modules.llm_platform.testing.web_search import FakeWebSearch, result_item

REQUEST = WebSearchRequest(query="q")
FOUND = [result_item(1)]


async def test_the_first_available_provider_answers() -> None:
    """Later ones are not called; earlier ones are listed with reason and time."""
    first = FakeWebSearch(WebSearchBlockedError("too many", retry_after_s=60), name="first")
    second = FakeWebSearch(FOUND, name="second")
    third = FakeWebSearch(FOUND, name="third")
    answer = await search_chain(first, second, third).search(REQUEST)
    assert (answer.provider, list(answer.results), third.requests) == ("second", FOUND, [])
    (entry,) = answer.degraded
    assert (entry.component, entry.reason) == ("first", "web_search_blocked: too many")
    assert entry.until is not None
    assert entry.until > datetime.now(UTC)


async def test_degraded_entries_of_the_answer_stay() -> None:
    """Entries of failed providers come first."""
    own = WebSearchResponse(query="q", provider="b", degraded=(Degraded(component="b/one", reason="timeout"),))
    answer = await search_chain(FakeWebSearch(WebSearchError(), name="a"), FakeWebSearch(own, name="b")).search(REQUEST)
    assert [entry.component for entry in answer.degraded] == ["a", "b/one"]


async def test_nothing_found_is_an_answer() -> None:
    """An empty answer leads to no failover."""
    second = FakeWebSearch(FOUND, name="second")
    answer = await search_chain(FakeWebSearch((), name="first"), second).search(REQUEST)
    assert (answer.results, answer.degraded, second.requests) == ((), (), [])


async def test_a_request_error_is_raised_at_once() -> None:
    """It is wrong for every provider."""
    second = FakeWebSearch(FOUND)
    with pytest.raises(WebSearchRequestError):
        await search_chain(FakeWebSearch(WebSearchRequestError()), second).search(REQUEST)
    assert second.requests == []


async def test_the_last_error_is_raised_when_all_fail() -> None:
    """The same error object."""
    last = WebSearchConnectionError("gone")
    with pytest.raises(WebSearchConnectionError) as caught:
        await search_chain(FakeWebSearch(WebSearchError()), FakeWebSearch(last)).search(REQUEST)
    assert caught.value is last


async def test_a_config_error_of_a_single_provider_is_raised() -> None:
    """It names the setting."""
    with pytest.raises(WebSearchConfigError, match="BOCHA_API_KEY"):
        await search_chain(FakeWebSearch(WebSearchConfigError("set BOCHA_API_KEY"))).search(REQUEST)


async def test_no_provider_is_a_config_error() -> None:
    """It names the settings."""
    with pytest.raises(WebSearchConfigError, match=r"SEARXNG_URL.*BRAVE_API_KEY.*DOCUMENTS_DIR"):
        await search_chain().search(REQUEST)


async def test_other_exceptions_are_raised() -> None:
    """A bug is not treated as an outage."""

    class Broken(FakeWebSearch):
        async def search(self, request: WebSearchRequest) -> WebSearchResponse:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await search_chain(Broken(), FakeWebSearch(FOUND)).search(REQUEST)


def test_the_name_lists_the_providers() -> None:
    """For logs."""
    assert search_chain(FakeWebSearch(name="a"), FakeWebSearch(name="b")).name == "a,b"
