"""Each policy around a language model fulfils the contract of the port."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from tests.fakes.metrics import MemoryMetrics

from modules.llm_platform.application.research.budget import Budget
from modules.llm_platform.application.research.budgeted_llm import BudgetedLLM
from modules.llm_platform.domain.exceptions import LLMConnectionError
from modules.llm_platform.domain.ports.llm import ILLMProvider, LLMRegistry
from modules.llm_platform.infrastructure.policies.circuit_breaker import CircuitBreaker
from modules.llm_platform.infrastructure.policies.llm_router import LLMRouter
from modules.llm_platform.infrastructure.policies.measured import MeasuredLLM
from modules.llm_platform.infrastructure.policies.rate_limits import RateLimitedLLM, RateLimiter
from modules.llm_platform.infrastructure.policies.retries import RetriedLLM
from modules.llm_platform.infrastructure.policies.single_flight import SingleFlightLLM
from modules.llm_platform.testing.llm import BrokenStream, FakeLLM, LLMProviderContract

LONG_S = 30.0

Wrap = Callable[[ILLMProvider], ILLMProvider]


def rate_limited(llm: ILLMProvider) -> ILLMProvider:
    return RateLimitedLLM(llm, RateLimiter(1000, max_concurrent=8))


async def no_pause(seconds: float) -> None:
    """Tests do not wait."""


def budgeted(llm: ILLMProvider) -> ILLMProvider:
    deadline = asyncio.get_running_loop().time() + LONG_S
    budget = Budget(
        max_llm_calls=100, max_cost_usd=100.0, deadline=deadline, price=lambda prompt_tokens, completion_tokens: 0.001
    )
    return BudgetedLLM(llm, budget, "write")


WRAPPED: dict[str, Wrap] = {
    "rate limited": rate_limited,
    "with a circuit": lambda llm: RateLimitedLLM(
        llm, RateLimiter(None, max_concurrent=8), circuit=CircuitBreaker(llm.name)
    ),
    "single flight": SingleFlightLLM,
    "budgeted": budgeted,
    "measured": lambda llm: MeasuredLLM(llm, MemoryMetrics()),
    "retried": lambda llm: RetriedLLM(llm, sleep=no_pause),
    "routed": lambda llm: LLMRouter(LLMRegistry([llm])),
    "as in a report": lambda llm: budgeted(LLMRouter(LLMRegistry([rate_limited(llm)])).preferring(llm.name)),
}


class TestWrapped(LLMProviderContract):
    @pytest.fixture(params=list(WRAPPED))
    async def wrap(self, request: pytest.FixtureRequest) -> Wrap:
        return WRAPPED[request.param]

    @pytest.fixture
    async def provider(self, wrap: Wrap) -> ILLMProvider:
        return wrap(FakeLLM())

    @pytest.fixture
    async def failing(self, wrap: Wrap) -> ILLMProvider:
        return wrap(FakeLLM([LLMConnectionError()]))

    @pytest.fixture
    async def slow(self, wrap: Wrap) -> ILLMProvider:
        return wrap(FakeLLM(delay_s=LONG_S))

    @pytest.fixture
    async def dying(self, wrap: Wrap) -> ILLMProvider:
        return wrap(FakeLLM([BrokenStream("half an ans")]))


def routed(*scripts: list[str | Exception | BrokenStream], delay_s: float = 0.0) -> LLMRouter:
    return LLMRouter(
        LLMRegistry([FakeLLM(each, name=f"model {place}", delay_s=delay_s) for place, each in enumerate(scripts)])
    )


class TestRouterWithTwo(LLMProviderContract):
    @pytest.fixture
    def provider(self) -> LLMRouter:
        return routed(["fine"], ["fine"])

    @pytest.fixture
    def failing(self) -> LLMRouter:
        return routed([LLMConnectionError()], [LLMConnectionError()])

    @pytest.fixture
    def slow(self) -> LLMRouter:
        return routed(["fine"], ["fine"], delay_s=LONG_S)

    @pytest.fixture
    def dying(self) -> LLMRouter:
        return routed([BrokenStream("half an ans")], ["a whole answer"])
