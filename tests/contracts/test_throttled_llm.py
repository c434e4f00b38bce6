"""A model at a pace, and one within a budget, keep the promises of the port."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from modules.llm_platform.application.research.budget import Budget, BudgetedLLM
from modules.llm_platform.application.services.llm_service import LLMRegistry
from modules.llm_platform.domain.exceptions import LLMConnectionError
from modules.llm_platform.domain.ports.llm import ILLMProvider
from modules.llm_platform.infrastructure.policies.llm_router import LLMRouter
from modules.llm_platform.infrastructure.policies.rate_limits import RateLimiter, ThrottledLLM
from modules.llm_platform.testing.llm import Death, FakeLLM, LLMProviderContract

LONG_S = 30.0

Wrap = Callable[[ILLMProvider], ILLMProvider]


def throttled(llm: ILLMProvider) -> ILLMProvider:
    return ThrottledLLM(llm, RateLimiter(1000, at_once=8))


def budgeted(llm: ILLMProvider) -> ILLMProvider:
    deadline = asyncio.get_running_loop().time() + LONG_S
    budget = Budget(max_llm_calls=100, max_cost_usd=100.0, deadline=deadline, price=lambda asked, written: 0.001)
    return BudgetedLLM(llm, budget, "write")


WRAPPED: dict[str, Wrap] = {
    "throttled": throttled,
    "budgeted": budgeted,
    "as in a report": lambda llm: budgeted(LLMRouter(LLMRegistry([throttled(llm)])).preferring(llm.name)),
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
        return wrap(FakeLLM([Death("half an ans")]))
