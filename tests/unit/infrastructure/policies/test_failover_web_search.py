"""Who answers when somebody cannot look."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest, WebSearchResponse
from modules.llm_platform.domain.exceptions import (
    WebSearchBlockedError,
    WebSearchConfigError,
    WebSearchConnectionError,
    WebSearchError,
    WebSearchRequestError,
)
from modules.llm_platform.infrastructure.policies.failover import FailoverWebSearch
from modules.llm_platform.testing.web_search import FakeWebSearch, result_item

REQUEST = WebSearchRequest(query="q")
FOUND = [result_item(1)]


async def test_the_first_that_can_look_answers() -> None:
    """Later ones are not asked, earlier ones are told with their reason and time."""
    first = FakeWebSearch(WebSearchBlockedError("too many", retry_after_s=60), name="first")
    second = FakeWebSearch(FOUND, name="second")
    third = FakeWebSearch(FOUND, name="third")
    answer = await FailoverWebSearch([first, second, third]).search(REQUEST)
    assert (answer.provider, list(answer.results), third.requests) == ("second", FOUND, [])
    (entry,) = answer.degraded
    assert (entry.component, entry.reason) == ("first", "web_search_blocked: too many")
    assert entry.until is not None
    assert entry.until > datetime.now(UTC)


async def test_what_the_answer_itself_tells_stays() -> None:
    """Degradations of the way come before those of the answer."""
    own = WebSearchResponse(query="q", provider="b", degraded=(Degraded(component="b/one", reason="timeout"),))
    answer = await FailoverWebSearch([FakeWebSearch(WebSearchError(), name="a"), FakeWebSearch(own, name="b")]).search(REQUEST)
    assert [entry.component for entry in answer.degraded] == ["a", "b/one"]


async def test_nothing_found_is_an_answer() -> None:
    """An empty answer is not failed over."""
    second = FakeWebSearch(FOUND, name="second")
    answer = await FailoverWebSearch([FakeWebSearch((), name="first"), second]).search(REQUEST)
    assert (answer.results, answer.degraded, second.requests) == ((), (), [])


async def test_the_callers_mistake_is_a_mistake_everywhere() -> None:
    """It is raised at once."""
    second = FakeWebSearch(FOUND)
    with pytest.raises(WebSearchRequestError):
        await FailoverWebSearch([FakeWebSearch(WebSearchRequestError()), second]).search(REQUEST)
    assert second.requests == []


async def test_all_fail() -> None:
    """The last error is raised, the very one."""
    last = WebSearchConnectionError("gone")
    with pytest.raises(WebSearchConnectionError) as caught:
        await FailoverWebSearch([FakeWebSearch(WebSearchError()), FakeWebSearch(last)]).search(REQUEST)
    assert caught.value is last


async def test_a_config_error_of_the_only_provider_surfaces() -> None:
    """It names what to set, so it must not be hidden."""
    with pytest.raises(WebSearchConfigError, match="BOCHA_API_KEY"):
        await FailoverWebSearch([FakeWebSearch(WebSearchConfigError("set BOCHA_API_KEY"))]).search(REQUEST)


async def test_no_provider_at_all() -> None:
    """The error names what could be set."""
    with pytest.raises(WebSearchConfigError, match=r"SEARXNG_URL.*BOCHA_API_KEY.*DOCUMENTS_DIR"):
        await FailoverWebSearch([]).search(REQUEST)


async def test_a_defect_is_not_failed_over() -> None:
    """What nobody decided upon is not treated as an upstream that is down."""

    class Broken(FakeWebSearch):
        async def search(self, request: WebSearchRequest) -> WebSearchResponse:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await FailoverWebSearch([Broken(), FakeWebSearch(FOUND)]).search(REQUEST)


def test_its_name_lists_whom_it_asks() -> None:
    """For logs."""
    assert FailoverWebSearch([FakeWebSearch(name="a"), FakeWebSearch(name="b")]).name == "a,b"
