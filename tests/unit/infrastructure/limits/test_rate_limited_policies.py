"""Searches and calls of models within the rate limit of their service."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest
from tests.fakes.llm_contract import collect, question
from tests.support.clock import Clock
from tests.support.guards import guarded_model, guarded_search, retried_model
from tests.support.turns import run_ready_tasks

from modules.llm_platform.domain.concurrency.deadline import deadline_in
from modules.llm_platform.domain.dtos.llm_dtos import LLMResponse, Spending
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest
from modules.llm_platform.domain.exceptions import (
    LLMBlockedError,
    LLMConnectionError,
    LLMUnavailableError,
    WebSearchBlockedError,
    WebSearchConnectionError,
    WebSearchError,
)
from modules.llm_platform.domain.ports.llm import ILLMProvider
from modules.llm_platform.infrastructure.limits.upstream_limits import MINUTE_S, CircuitBreaker, RateLimiter
from modules.llm_platform.testing import FakeLLM, FakeWebSearch, result_item
from modules.llm_platform.testing.llm import BrokenStream
from shared.exceptions import AppException

REQUEST = WebSearchRequest(query="lighthouses")
FOUND = [result_item(1)]


def limiter_of(clock: Clock, rate: float | None, per_s: float = 1.0, max_concurrent: int = 4) -> RateLimiter:
    return RateLimiter(rate, per_s, max_concurrent=max_concurrent, clock=clock, sleep=clock.sleep)


class TestSearches:
    async def test_a_wait_that_is_too_long_is_an_error(self, clock: Clock) -> None:
        """Raised at once, without a call; the error names the wait and the setting."""
        fake = FakeWebSearch(FOUND)
        provider = guarded_search(fake, limiter_of(clock, 1, MINUTE_S), setting="FAKE_RPM")
        await provider.search(REQUEST)
        with pytest.raises(
            WebSearchBlockedError, match=r"fake has reached its rate limit .*60 s.* raise FAKE_RPM"
        ) as caught:
            await provider.search(REQUEST)
        assert caught.value.retry_after_s == 60.0
        assert len(fake.requests) == 1
        assert clock.slept == []

    @pytest.mark.parametrize("error", [WebSearchBlockedError, WebSearchConnectionError, WebSearchError])
    async def test_a_retry_after_closes_the_service_for_all(self, clock: Clock, error: type[AppException]) -> None:
        """Guards that share a circuit share its closed time."""
        shared: Any = {"limiter": limiter_of(clock, None), "circuit": CircuitBreaker("fake", clock=clock)}
        blocked = guarded_search(FakeWebSearch(error(retry_after_s=40.0)), **shared)
        others = FakeWebSearch(FOUND)
        with pytest.raises(error):
            await blocked.search(REQUEST)
        with pytest.raises(WebSearchBlockedError, match=r"asked not to be called for the next 40 s: try again later$"):
            await guarded_search(others, **shared, max_wait_s=39).search(REQUEST)
        assert others.requests == []
        assert (await guarded_search(others, **shared, max_wait_s=41).search(REQUEST)).results
        assert clock.slept == [40.0]

    async def test_no_search_waits_past_the_deadline(self, clock: Clock) -> None:
        """A search that must wait 3 s with only 2 s left is refused at once, with the wait as reason."""
        fake = FakeWebSearch(FOUND)
        provider = guarded_search(fake, limiter_of(clock, 1, 3.0))
        await provider.search(REQUEST)
        async with deadline_in(2.0):
            with pytest.raises(WebSearchBlockedError, match="3 s"):
                await provider.search(REQUEST)
        assert (len(fake.requests), clock.slept) == (1, [])
        async with deadline_in(4.0):
            assert (await provider.search(REQUEST)).results

    async def test_blocked_engines_do_not_close_the_service(self, clock: Clock) -> None:
        """Other callers may use other engines of the service."""
        suspended = FakeWebSearch(WebSearchBlockedError(retry_after_s=180.0, engines_only=True))
        shared: Any = {"limiter": limiter_of(clock, None), "circuit": CircuitBreaker("fake", clock=clock)}
        with pytest.raises(WebSearchBlockedError):
            await guarded_search(suspended, **shared).search(REQUEST)
        assert (await guarded_search(FakeWebSearch(FOUND), **shared).search(REQUEST)).results
        assert clock.slept == []


async def call(llm: ILLMProvider, streamed: bool) -> LLMResponse:
    if not streamed:
        return await llm.generate(question())
    answer = (await collect(llm, question()))[-1]
    assert isinstance(answer, LLMResponse)
    return answer


@pytest.mark.parametrize("streamed", [False, True])
class TestModels:
    async def test_two_a_second(self, clock: Clock, streamed: bool) -> None:
        """The third call waits for the next second."""
        llm = guarded_model(FakeLLM(), limiter_of(clock, 2))
        answers = [await call(llm, streamed) for _ in range(5)]
        assert clock.slept == [1.0, 1.0]
        assert all(answer.content for answer in answers)

    async def test_a_wait_that_is_too_long_is_an_error(self, clock: Clock, streamed: bool) -> None:
        """Raised at once, at no cost; a router then calls the next model."""
        fake = FakeLLM()
        llm = guarded_model(fake, limiter_of(clock, 0.01), max_wait_s=30, setting="LLM_RPS")
        await call(llm, streamed)
        with pytest.raises(LLMBlockedError, match=r"fake .*100 s.*LLM_RPS") as caught:
            await call(llm, streamed)
        assert caught.value.retry_after_s == 100.0
        assert caught.value.spent == Spending()
        assert len(fake.requests) == 1

    @pytest.mark.parametrize("error", [LLMBlockedError, LLMUnavailableError, LLMConnectionError])
    async def test_a_retry_after_closes_the_service_for_all(self, clock: Clock, error: Any, streamed: bool) -> None:
        """A Retry-After that one caller gets applies to every other."""
        fake = FakeLLM([error(retry_after_s=7.0), "fine"])
        shared: Any = {"limiter": limiter_of(clock, None), "circuit": CircuitBreaker("fake", clock=clock)}
        with pytest.raises(error):
            await call(guarded_model(fake, **shared), streamed)
        assert (await call(guarded_model(fake, **shared), streamed)).content == "fine"
        assert clock.slept == [7.0]

    async def test_a_retry_counts_as_a_call(self, clock: Clock, streamed: bool) -> None:
        """Each try takes a slot."""
        fake = FakeLLM([LLMConnectionError(), "fine"])
        llm = retried_model(fake, limiter=limiter_of(clock, 1), sleep=clock.sleep, jitter=lambda: 0.5)
        assert (await call(llm, streamed)).spent.calls == 2
        assert clock.slept == [0.5, 0.5]  # the pause of the retry, and the rest of the second


async def test_a_stream_occupies_its_slot_until_its_end(clock: Clock) -> None:
    """A closed stream frees its slot."""
    limiter = limiter_of(clock, None, max_concurrent=1)
    llm = guarded_model(FakeLLM(["a long answer, in pieces"]), limiter)
    async with aclosing(llm.stream(question())) as parts:  # type: ignore[type-var]
        await anext(parts)
        waiting = asyncio.create_task(llm.generate(question()))
        await run_ready_tasks()
        assert not waiting.done()
    assert (await waiting).content


async def test_a_failed_stream_frees_its_slot(clock: Clock) -> None:
    """Its Retry-After closes the service."""
    fake = FakeLLM([BrokenStream("some words", LLMConnectionError(retry_after_s=3.0)), "fine"])
    circuit = CircuitBreaker("fake", clock=clock)
    llm = guarded_model(fake, limiter_of(clock, None, max_concurrent=1), circuit=circuit)
    with pytest.raises(LLMConnectionError):
        await collect(llm, question())
    assert (await llm.generate(question())).content == "fine"
    assert clock.slept == [3.0]


def test_name_and_model_are_those_of_the_provider(clock: Clock) -> None:
    """A request can name either."""
    llm = guarded_model(FakeLLM(name="kimi", model="kimi-for-coding"), limiter_of(clock, 1))
    assert (llm.name, llm.model) == ("kimi", "kimi-for-coding")
