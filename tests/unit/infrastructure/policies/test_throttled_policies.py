"""Searches and calls of models at the pace of their service."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

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
from modules.llm_platform.domain.ports.llm import ILLMProvider, IWarmUp
from modules.llm_platform.infrastructure.policies.rate_limits import (
    MINUTE_S,
    RateLimiter,
    ThrottledLLM,
    ThrottledWebSearch,
)
from modules.llm_platform.infrastructure.policies.retries import RetriedLLM
from modules.llm_platform.testing import FakeLLM, FakeWebSearch, result_item
from modules.llm_platform.testing.llm import Death, collect, question
from shared.exceptions import AppException

REQUEST = WebSearchRequest(query="lighthouses")
FOUND = [result_item(1)]


class Time:
    """A clock that sleeping moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(round(seconds, 3))
        self.now += seconds


@pytest.fixture
def time() -> Time:
    return Time()


def paced(time: Time, rate: float | None, per_s: float = 1.0, at_once: int = 4) -> RateLimiter:
    return RateLimiter(rate, per_s, at_once=at_once, clock=time.clock, sleep=time.sleep)


class TestSearches:
    async def test_ten_a_minute(self, time: Time) -> None:
        """The eleventh search of a minute waits for its end, and has its answer then."""
        provider = ThrottledWebSearch(FakeWebSearch(FOUND), paced(time, 10, MINUTE_S), longest_wait_s=100)
        answers = [await provider.search(REQUEST) for _ in range(11)]
        assert time.slept == [60.0]
        assert all(answer.results for answer in answers)
        assert provider.name == "fake"

    async def test_who_would_wait_too_long_is_sent_away(self, time: Time) -> None:
        """At once, as an error that failover understands, which says how long and what could be set; nothing was asked."""
        fake = FakeWebSearch(FOUND)
        provider = ThrottledWebSearch(fake, paced(time, 1, MINUTE_S))
        await provider.search(REQUEST)
        with pytest.raises(WebSearchBlockedError, match=r"fake .*60 s.*SEARXNG_RPM") as caught:
            await provider.search(REQUEST)
        assert caught.value.retry_after_s == 60.0
        assert len(fake.requests) == 1
        assert time.slept == []

    @pytest.mark.parametrize("error", [WebSearchBlockedError, WebSearchConnectionError, WebSearchError])
    async def test_being_asked_to_wait_holds_for_all(self, time: Time, error: type[AppException]) -> None:
        """Whoever was told, and through whichever chain the next one comes: one pace, one closing."""
        pace = paced(time, None)
        told = ThrottledWebSearch(FakeWebSearch(error(retry_after_s=40.0)), pace)
        others = FakeWebSearch(FOUND)
        with pytest.raises(error):
            await told.search(REQUEST)
        with pytest.raises(WebSearchBlockedError, match="40 s"):
            await ThrottledWebSearch(others, pace, longest_wait_s=39).search(REQUEST)
        assert others.requests == []
        assert (await ThrottledWebSearch(others, pace, longest_wait_s=41).search(REQUEST)).results
        assert time.slept == [40.0]

    async def test_engines_that_rest_close_nothing(self, time: Time) -> None:
        """Who asked for engines that refuse does not keep others from asking the service for others."""
        tired = FakeWebSearch(WebSearchBlockedError(retry_after_s=180.0, engines_only=True))
        pace = paced(time, None)
        with pytest.raises(WebSearchBlockedError):
            await ThrottledWebSearch(tired, pace).search(REQUEST)
        assert (await ThrottledWebSearch(FakeWebSearch(FOUND), pace).search(REQUEST)).results
        assert time.slept == []

    async def test_four_at_once(self, time: Time) -> None:
        """A service is not asked by more at once, over all chains that share its pace."""
        fake = FakeWebSearch(FOUND, delay_s=0.1)
        pace = paced(time, None)
        chains = [ThrottledWebSearch(fake, pace), ThrottledWebSearch(fake, pace)]
        searches = [asyncio.create_task(chains[number % 2].search(REQUEST)) for number in range(10)]
        most = 0
        while not all(search.done() for search in searches):
            most = max(most, fake.running)
            await asyncio.sleep(0)
        assert most == 4
        assert len(await asyncio.gather(*searches)) == 10


async def whole(llm: ILLMProvider, streamed: bool) -> LLMResponse:
    if not streamed:
        return await llm.generate(question())
    answer = (await collect(llm, question()))[-1]
    assert isinstance(answer, LLMResponse)
    return answer


@pytest.mark.parametrize("streamed", [False, True])
class TestModels:
    async def test_two_a_second(self, time: Time, streamed: bool) -> None:
        """Plain or streamed, the third call waits for the next second."""
        llm = ThrottledLLM(FakeLLM(), paced(time, 2))
        answers = [await whole(llm, streamed) for _ in range(5)]
        assert time.slept == [1.0, 1.0]
        assert all(answer.content for answer in answers)

    async def test_who_would_wait_too_long_is_sent_away(self, time: Time, streamed: bool) -> None:
        """At once, at no cost, as an error on which a router asks the next model."""
        fake = FakeLLM()
        llm = ThrottledLLM(fake, paced(time, 0.01), longest_wait_s=30)
        await whole(llm, streamed)
        with pytest.raises(LLMBlockedError, match=r"fake .*100 s.*LLM_RPS") as caught:
            await whole(llm, streamed)
        assert caught.value.retry_after_s == 100.0
        assert caught.value.spent == Spending()
        assert len(fake.requests) == 1

    @pytest.mark.parametrize("error", [LLMBlockedError, LLMUnavailableError, LLMConnectionError])
    async def test_being_asked_to_wait_holds_for_all(self, time: Time, error: Any, streamed: bool) -> None:
        """A Retry-After that one stage was told is heeded by every other."""
        fake = FakeLLM([error(retry_after_s=7.0), "fine"])
        pace = paced(time, None)
        with pytest.raises(error):
            await whole(ThrottledLLM(fake, pace), streamed)
        assert (await whole(ThrottledLLM(fake, pace), streamed)).content == "fine"
        assert time.slept == [7.0]

    async def test_a_second_try_is_a_call_too(self, time: Time, streamed: bool) -> None:
        """Retrying stands outside: each try takes a turn."""
        fake = FakeLLM([LLMConnectionError(), "fine"])
        llm = RetriedLLM(ThrottledLLM(fake, paced(time, 1)), sleep=time.sleep)
        assert (await whole(llm, streamed)).spent.calls == 2
        assert time.slept == [0.5, 0.5]  # the pause of the retry, and the rest of the second


async def test_a_stream_keeps_its_place_until_its_end(time: Time) -> None:
    """An answer under way is a call under way; a reader who leaves frees the place."""
    pace = paced(time, None, at_once=1)
    llm = ThrottledLLM(FakeLLM(["a long answer, in pieces"]), pace)
    async with aclosing(llm.stream(question())) as parts:  # type: ignore[type-var]
        await anext(parts)
        waiting = asyncio.create_task(llm.generate(question()))
        await asyncio.sleep(0.01)
        assert not waiting.done()
    assert (await waiting).content


async def test_a_stream_that_dies_frees_its_place(time: Time) -> None:
    """And what it says about waiting is heeded."""
    fake = FakeLLM([Death("some words", LLMConnectionError(retry_after_s=3.0)), "fine"])
    llm = ThrottledLLM(fake, paced(time, None, at_once=1))
    with pytest.raises(LLMConnectionError):
        await collect(llm, question())
    assert (await llm.generate(question())).content == "fine"
    assert time.slept == [3.0]


async def test_getting_ready_takes_no_turn(time: Time) -> None:
    """Warming up is passed on, where the model knows it."""

    class Warm(FakeLLM):
        warmed = 0

        async def warm_up(self) -> None:
            self.warmed += 1

    warm = Warm()
    llm = ThrottledLLM(warm, paced(time, 1))
    assert isinstance(llm, IWarmUp)
    for _ in range(3):
        await llm.warm_up()
    await ThrottledLLM(FakeLLM(), paced(time, 1)).warm_up()
    assert warm.warmed == 3
    assert time.slept == []


def test_it_goes_by_the_name_of_the_model_behind_it(time: Time) -> None:
    """A request that asks for it by name or model finds it."""
    llm = ThrottledLLM(FakeLLM(name="kimi", model="kimi-for-coding"), paced(time, 1))
    assert (llm.name, llm.model) == ("kimi", "kimi-for-coding")
