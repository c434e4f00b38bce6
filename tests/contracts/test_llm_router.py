"""The router is a language model like any other: it keeps the promises of the port."""

from __future__ import annotations

import pytest

from modules.llm_platform.application.services.llm_service import LLMRegistry
from modules.llm_platform.domain.exceptions import LLMConnectionError
from modules.llm_platform.infrastructure.policies.llm_router import LLMRouter
from modules.llm_platform.testing.llm import Death, FakeLLM, LLMProviderContract

LONG_S = 30.0


def _router(*models: FakeLLM) -> LLMRouter:
    return LLMRouter(LLMRegistry(models))


class TestRouterWithOne(LLMProviderContract):
    @pytest.fixture
    def provider(self) -> LLMRouter:
        return _router(FakeLLM())

    @pytest.fixture
    def failing(self) -> LLMRouter:
        return _router(FakeLLM([LLMConnectionError()]))

    @pytest.fixture
    def slow(self) -> LLMRouter:
        return _router(FakeLLM(delay_s=LONG_S))

    @pytest.fixture
    def dying(self) -> LLMRouter:
        return _router(FakeLLM([Death("half an ans")]))


class TestRouterWithTwo(TestRouterWithOne):
    @pytest.fixture
    def provider(self) -> LLMRouter:
        return _router(FakeLLM(name="first"), FakeLLM(name="second"))

    @pytest.fixture
    def failing(self) -> LLMRouter:
        return _router(FakeLLM([LLMConnectionError()], name="first"), FakeLLM([LLMConnectionError()], name="second"))

    @pytest.fixture
    def dying(self) -> LLMRouter:
        return _router(FakeLLM([Death("half an ans")], name="first"), FakeLLM(["a whole answer"], name="second"))
