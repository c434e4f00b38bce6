"""When a failed search is retried."""

from __future__ import annotations

import pytest
from tests.support.cases import for_each
from tests.support.guards import guarded_search

from modules.llm_platform.domain.concurrency.deadline import deadline_in
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest, WebSearchResponse
from modules.llm_platform.domain.exceptions import (
    WebSearchBlockedError,
    WebSearchConfigError,
    WebSearchConnectionError,
    WebSearchError,
    WebSearchRequestError,
    WebSearchTimeoutError,
)
from modules.llm_platform.infrastructure.limits.upstream_guard import SEARCH
from modules.llm_platform.infrastructure.limits.upstream_limits import RetryBudget
from modules.llm_platform.infrastructure.search.web_search_chain import WebSearchChain
from modules.llm_platform.testing.web_search import FakeWebSearch, result_item
from shared.exceptions import AppException

REQUEST = WebSearchRequest(query="q")


class Recovering(FakeWebSearch):
    """Fails `failures` times, then finds something."""

    def __init__(self, error: AppException, failures: int) -> None:
        super().__init__([result_item(1)])
        self.error, self.failures = error, failures

    async def search(self, request: WebSearchRequest) -> WebSearchResponse:
        if len(self.requests) < self.failures:
            self.requests.append(request)
            raise self.error
        return await super().search(request)


def retried(provider: FakeWebSearch) -> tuple[WebSearchChain, list[float]]:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    return guarded_search(provider, retries=RetryBudget(), sleep=sleep, jitter=lambda: 0.5), pauses


async def test_a_lost_connection_is_retried_once() -> None:
    """After a short pause."""
    provider = Recovering(WebSearchConnectionError(), failures=1)
    policy, pauses = retried(provider)
    assert (await policy.search(REQUEST)).results
    assert len(provider.requests) == 2
    assert len(pauses) == 1
    assert 0 < pauses[0] <= 0.2


async def test_no_pause_outlasts_the_deadline() -> None:
    """The first failure is the answer then."""
    provider = Recovering(WebSearchBlockedError(retry_after_s=0.9), failures=1)
    policy, pauses = retried(provider)
    async with deadline_in(0.9):
        with pytest.raises(WebSearchBlockedError):
            await policy.search(REQUEST)
    assert (len(provider.requests), pauses) == (1, [])


async def test_a_second_lost_connection_is_final() -> None:
    """There are two tries."""
    provider = Recovering(WebSearchConnectionError(), failures=9)
    policy, pauses = retried(provider)
    with pytest.raises(WebSearchConnectionError):
        await policy.search(REQUEST)
    assert (len(provider.requests), len(pauses)) == (2, 1)


@for_each(
    "error",
    [
        WebSearchTimeoutError(),
        WebSearchBlockedError(),
        WebSearchConfigError(),
        WebSearchError(),
        WebSearchRequestError(),
    ],
)
async def test_other_failures_are_final(error: AppException) -> None:
    """Timeouts, blocks and everything else."""
    provider = Recovering(error, failures=1)
    policy, pauses = retried(provider)
    with pytest.raises(type(error)):
        await policy.search(REQUEST)
    assert (len(provider.requests), pauses) == (1, [])


async def test_a_short_block_is_retried_after_its_wait() -> None:
    """A plan of one search a second refuses the second of two simultaneous searches."""
    provider = Recovering(WebSearchBlockedError(retry_after_s=1.0), failures=1)
    policy, pauses = retried(provider)
    assert (await policy.search(REQUEST)).results
    assert pauses == [1.0 + 0.5 * SEARCH.pause_s]


async def test_a_longer_block_is_final() -> None:
    """The error is raised at once."""
    provider = Recovering(WebSearchBlockedError(retry_after_s=60.0), failures=1)
    policy, pauses = retried(provider)
    with pytest.raises(WebSearchBlockedError):
        await policy.search(REQUEST)
    assert pauses == []
