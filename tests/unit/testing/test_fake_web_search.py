"""FakeWebSearch follows its script, and the contract detects a provider that violates it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.cases import for_each

from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest, WebSearchResponse
from modules.llm_platform.domain.exceptions import WebSearchError
from modules.llm_platform.testing.web_search import (
    FakeWebSearch,
    Outcome,
    SearchCase,
    SlowSearch,
    WebSearchProviderContract,
    result_item,
)

REQUEST = WebSearchRequest(query="q")
FOUND = [result_item(number) for number in range(1, 5)]


@for_each(
    ("script", "expected"),
    [((), []), (FOUND, FOUND), ({"q": FOUND[:1]}, FOUND[:1]), ({"other": FOUND}, [])],
)
async def test_scripted_results_are_returned(script: Any, expected: list[Any]) -> None:
    """One outcome for all queries, or one per query; the requests are recorded."""
    fake = FakeWebSearch(script)
    assert list((await fake.search(REQUEST)).results) == expected
    assert fake.requests == [REQUEST]


@pytest.mark.parametrize("outcome", [WebSearchError("down"), {"q": WebSearchError("down")}])
async def test_scripted_error_is_raised(outcome: Outcome) -> None:
    """An error is raised for its query."""
    fake = FakeWebSearch(outcome, otherwise=FOUND)
    with pytest.raises(WebSearchError, match="down"):
        await fake.search(REQUEST)


async def test_scripted_response_is_returned_unchanged() -> None:
    """A response can be scripted instead of results."""
    response = WebSearchResponse(query="q", correction="k", provider="else")
    assert await FakeWebSearch(response).search(REQUEST) is response


async def test_delay_can_be_cancelled() -> None:
    """The delay is per query, and a cancelled search ends."""
    fake = FakeWebSearch(FOUND, delay_s={"slow": 60})
    assert (await fake.search(REQUEST)).results
    slow = asyncio.create_task(fake.search(WebSearchRequest(query="slow")))
    await asyncio.sleep(0)
    assert fake.running == 1
    slow.cancel()
    await asyncio.wait([slow])
    assert fake.running == 0


Change = Callable[[WebSearchResponse], WebSearchResponse]


class InvalidProvider(FakeWebSearch):
    """Violates the contract: ignores `count` and freshness, and changes the response."""

    def __init__(self, change: Change = lambda answer: answer) -> None:
        super().__init__(FOUND * 3)
        self.change = change

    async def search(self, request: WebSearchRequest) -> WebSearchResponse:
        answer = await super().search(request.with_(count=50, freshness=None))
        return self.change(answer)


class UncancellableProvider(FakeWebSearch):
    """Does not end promptly when it is cancelled."""

    async def search(self, request: WebSearchRequest) -> WebSearchResponse:
        self.running = 1
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(0.3)
        return WebSearchResponse(query=request.query)


def with_changes(**changes: Any) -> InvalidProvider:
    return InvalidProvider(lambda answer: answer.model_copy(update=changes))


CONTRACT = WebSearchProviderContract()
BAD_ADDRESS = tuple(item.model_copy(update={"url": "https://example.org/a b"}) for item in FOUND)
VIOLATIONS: dict[str, Callable[[], Any]] = {
    "finds too little": lambda: CONTRACT.test_response_has_results_provider_and_query(
        with_changes(results=()), REQUEST
    ),
    "hides its name": lambda: CONTRACT.test_response_has_results_provider_and_query(with_changes(provider=""), REQUEST),
    "invents results": lambda: CONTRACT.test_no_results_is_a_response(SearchCase(InvalidProvider(), REQUEST)),
    "swallows failures": lambda: CONTRACT.test_failed_search_is_an_error(SearchCase(FakeWebSearch(), REQUEST)),
    "ignores count": lambda: CONTRACT.test_count_limits_the_results_and_keeps_the_best(InvalidProvider(), REQUEST),
    "bad addresses": lambda: CONTRACT.test_result_urls_can_be_opened(with_changes(results=BAD_ADDRESS), REQUEST),
    "leaves no trace of a query": lambda: CONTRACT.test_egress_log_has_each_query(FakeWebSearch(FOUND), REQUEST),
    "mixes answers": lambda: CONTRACT.test_searches_can_run_concurrently(
        with_changes(query="other"), REQUEST, SearchCase(InvalidProvider(), REQUEST)
    ),
    "any freshness": lambda: CONTRACT.test_invalid_freshness_is_a_request_error(InvalidProvider(), REQUEST),
    "cannot be cancelled": lambda: CONTRACT.test_cancelled_search_closes_its_connection(
        SlowSearch(provider := UncancellableProvider(), lambda: provider.running), REQUEST
    ),
}


@for_each("violation", list(VIOLATIONS))
async def test_contract_detects_violations(violation: str) -> None:
    """Each violation fails its contract test."""
    with pytest.raises(AssertionError):
        await VIOLATIONS[violation]()
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
        await asyncio.wait([task])
