"""The retry budget: an outage is not made worse by retries."""

from __future__ import annotations

import asyncio

import pytest
from tests.fakes.llm_contract import question
from tests.fakes.metrics import MemoryMetrics
from tests.support.clock import Clock
from tests.support.guards import guarded_search, retried_model

from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest
from modules.llm_platform.domain.exceptions import LLMConnectionError, WebSearchConnectionError
from modules.llm_platform.domain.telemetry.metrics import RETRIES
from modules.llm_platform.infrastructure.limits.upstream_guard import SEARCH
from modules.llm_platform.infrastructure.limits.upstream_limits import MIN_RETRIES, RECENT_S, RetryBudget
from modules.llm_platform.testing import FakeLLM, FakeWebSearch

REQUEST = WebSearchRequest(query="lighthouses")


async def no_pause(seconds: float) -> None:
    """Tests do not wait."""


@pytest.mark.parametrize("at_once", [True, False])
async def test_an_outage_costs_a_tenth_more_calls(at_once: bool) -> None:
    """100 searches that all fail make at most 110 calls, at the same time or one after another."""
    fake = FakeWebSearch(WebSearchConnectionError())
    policy = guarded_search(fake, retries=RetryBudget(Clock()), sleep=no_pause)
    if at_once:
        requests = [WebSearchRequest(query=f"lighthouse {number}") for number in range(100)]
        await asyncio.gather(*map(policy.search, requests), return_exceptions=True)
    else:
        for _ in range(100):
            with pytest.raises(WebSearchConnectionError):
                await policy.search(REQUEST)
    assert 100 < len(fake.requests) <= 110


async def test_models_have_the_same_budget() -> None:
    """Complete answers and streams count alike."""
    llm = FakeLLM([LLMConnectionError()] * 200)
    policy = retried_model(llm, RetryBudget(Clock()), sleep=no_pause)
    for _ in range(100):
        with pytest.raises(LLMConnectionError):
            await policy.generate(question())
    assert 100 < len(llm.requests) <= 110


def test_a_program_that_seldom_calls_may_retry() -> None:
    """A few retries are free, and free again after a while."""
    clock = Clock()
    budget = RetryBudget(clock)
    budget.record_call()
    assert [budget.try_spend() for _ in range(MIN_RETRIES + 1)] == [True] * MIN_RETRIES + [False]
    clock.now += 3 * RECENT_S
    budget.record_call()
    assert budget.try_spend()


def test_old_calls_allow_no_retries() -> None:
    """Only recent calls count: the traffic of an hour ago is no reserve for an outage."""
    clock = Clock()
    budget = RetryBudget(clock)
    for _ in range(10_000):
        budget.record_call()
    clock.now += 3600
    assert sum(budget.try_spend() for _ in range(100)) == MIN_RETRIES


async def test_pauses_have_full_jitter() -> None:
    """Retries of many callers are spread over the whole pause."""
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    budget = RetryBudget(Clock())
    for _ in range(1000):
        budget.record_call()
    policy = guarded_search(FakeWebSearch(WebSearchConnectionError()), retries=budget, sleep=sleep)
    for _ in range(80):
        with pytest.raises(WebSearchConnectionError):
            await policy.search(REQUEST)
    assert len(pauses) == 80
    assert 0 <= min(pauses) < 0.25 * SEARCH.pause_s
    assert 0.75 * SEARCH.pause_s < max(pauses) <= SEARCH.pause_s


def test_retries_are_counted_by_result() -> None:
    """A refused retry shows that the budget is spent."""
    metrics = MemoryMetrics()
    budget = RetryBudget(Clock(), name="searxng", metrics=metrics)
    for _ in range(MIN_RETRIES + 2):
        budget.try_spend()
    assert metrics.values[RETRIES.name, "searxng", "allowed"] == MIN_RETRIES
    assert metrics.values[RETRIES.name, "searxng", "refused"] == 2
