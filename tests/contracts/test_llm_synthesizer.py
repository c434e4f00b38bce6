"""A writer over a model, bare and behind both policies, keeps the promises of the port."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from tests.fakes.synthesizer import SynthesizerContract

from modules.llm_platform.application.research.writers.extractive_synthesizer import ExtractiveSynthesizer
from modules.llm_platform.application.research.writers.fallback_synthesizer import FallbackSynthesizer
from modules.llm_platform.application.research.writers.llm_synthesizer import LLMSynthesizer
from modules.llm_platform.application.research.writers.shared_synthesizer import SharedSynthesizer
from modules.llm_platform.domain.dtos.research_dtos import Synthesis
from modules.llm_platform.domain.exceptions import LLMConnectionError
from modules.llm_platform.domain.ports.synthesizer import ISynthesizer
from modules.llm_platform.infrastructure.cache.memory import MemoryCache
from modules.llm_platform.testing.llm import BrokenStream, FakeLLM

ANSWER = "A token stays valid for thirty minutes [1]. Only the owner may renew it [2]."
LONG_S = 30.0


def over(llm: FakeLLM) -> LLMSynthesizer:
    return LLMSynthesizer(llm)


def behind_policies(llm: FakeLLM) -> ISynthesizer:
    cache: MemoryCache[Synthesis] = MemoryCache(10)
    return FallbackSynthesizer([SharedSynthesizer(over(llm), cache, ttl_s=60, version="1"), ExtractiveSynthesizer()])


@pytest.mark.parametrize("wrap", [over, behind_policies])
class TestLLMSynthesizer(SynthesizerContract):
    @pytest.fixture
    def writer(self, wrap: Callable[[FakeLLM], ISynthesizer]) -> ISynthesizer:
        return wrap(FakeLLM([ANSWER]))

    @pytest.fixture
    def slow(self, wrap: Callable[[FakeLLM], ISynthesizer]) -> Callable[[], Awaitable[Synthesis]]:
        writer = wrap(FakeLLM([ANSWER], delay_s=LONG_S))
        return lambda: writer.synthesize(self.request())


@pytest.mark.parametrize("failure", [LLMConnectionError(), BrokenStream("A token stays")])
class TestFallbackToQuotes(SynthesizerContract):
    """The model fails, before or within its stream, and quotes take its place."""

    @pytest.fixture
    def writer(self, failure: LLMConnectionError | BrokenStream) -> ISynthesizer:
        return behind_policies(FakeLLM([failure]))

    @pytest.fixture
    def slow(self, failure: LLMConnectionError | BrokenStream) -> Callable[[], Awaitable[Synthesis]]:
        writer = behind_policies(FakeLLM([failure], delay_s=LONG_S))
        return lambda: writer.synthesize(self.request())

    async def test_the_answer_lists_the_failed_model(self, writer: ISynthesizer) -> None:
        """Written by the extractive synthesizer."""
        written = await writer.synthesize(self.request())
        assert written.synthesizer == "extractive"
        assert [entry.component for entry in written.degraded] == ["llm"]
        assert written.spent.calls == 1
