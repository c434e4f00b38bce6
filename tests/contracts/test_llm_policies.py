"""Each policy around a language model fulfils the contract of the port."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from tests.fakes.llm_contract import LLMProviderContract
from tests.fakes.metrics import MemoryMetrics
from tests.support.guards import guarded_model, retried_model, router

from modules.llm_platform.application.research.budget import Budget
from modules.llm_platform.application.research.budgeted_llm import BudgetedLLM
from modules.llm_platform.domain.exceptions import LLMConnectionError
from modules.llm_platform.domain.ports.llm import ILLMProvider
from modules.llm_platform.infrastructure.limits.upstream_limits import CircuitBreaker, RateLimiter
from modules.llm_platform.infrastructure.models.llm_router import LLMRouter
from modules.llm_platform.infrastructure.models.single_flight import SingleFlightLLM
from modules.llm_platform.testing.llm import BrokenStream, FakeLLM

LONG_S = 30.0

Wrap = Callable[[ILLMProvider], ILLMProvider]


def rate_limited(llm: ILLMProvider) -> ILLMProvider:
    return guarded_model(llm, RateLimiter(1000, max_concurrent=8))


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
    "with a circuit": lambda llm: guarded_model(llm, circuit=CircuitBreaker(llm.name)),
    "single flight": SingleFlightLLM,
    "budgeted": budgeted,
    "measured": lambda llm: guarded_model(llm, metrics=MemoryMetrics()),
    "retried": lambda llm: retried_model(llm, sleep=no_pause),
    "routed": lambda llm: router(llm),
    "as in a report": lambda llm: budgeted(router(rate_limited(llm)).prefer(llm.name)),
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
    return router(
        *(FakeLLM(script, name=f"model {position}", delay_s=delay_s) for position, script in enumerate(scripts))
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
