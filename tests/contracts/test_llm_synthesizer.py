"""A writer with a model fulfils the contract of the port, with and without its cache."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from tests.fakes.synthesizer import SynthesizerContract

from modules.llm_platform.application.research.write.llm_synthesizer import LLMSynthesizer
from modules.llm_platform.application.research.write.shared_synthesizer import SharedSynthesizer
from modules.llm_platform.domain.dtos.answer_dtos import Synthesis
from modules.llm_platform.domain.ports.synthesizer import ISynthesizer
from modules.llm_platform.infrastructure.cache.memory import MemoryCache
from modules.llm_platform.testing.llm import FakeLLM

ANSWER = "A token stays valid for thirty minutes [1]. Only the owner may renew it [2]."
LONG_S = 30.0


def over(llm: FakeLLM) -> LLMSynthesizer:
    return LLMSynthesizer(llm)


def behind_cache(llm: FakeLLM) -> ISynthesizer:
    cache: MemoryCache[Synthesis] = MemoryCache(10)
    return SharedSynthesizer(over(llm), cache, ttl_s=60, version="1")


@pytest.mark.parametrize("wrap", [over, behind_cache])
class TestLLMSynthesizer(SynthesizerContract):
    @pytest.fixture
    def writer(self, wrap: Callable[[FakeLLM], ISynthesizer]) -> ISynthesizer:
        return wrap(FakeLLM([ANSWER]))

    @pytest.fixture
    def slow(self, wrap: Callable[[FakeLLM], ISynthesizer]) -> Callable[[], Awaitable[Synthesis]]:
        writer = wrap(FakeLLM([ANSWER], delay_s=LONG_S))
        return lambda: writer.synthesize(self.request())
