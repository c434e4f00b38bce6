"""The scripted writer fulfils the contract of the port, and follows its script."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from tests.fakes.synthesizer import FakeSynthesizer, QuotingSynthesizerContract

from modules.llm_platform.application.research.write.shared_synthesizer import SharedSynthesizer
from modules.llm_platform.domain.dtos.answer_dtos import Synthesis, SynthesisToken
from modules.llm_platform.domain.exceptions import LLMConnectionError
from modules.llm_platform.domain.ports.synthesizer import SynthesisRequest

LONG_S = 30.0


class TestFakeSynthesizer(QuotingSynthesizerContract):
    @pytest.fixture
    def writer(self) -> FakeSynthesizer:
        return FakeSynthesizer()

    @pytest.fixture
    def slow(self) -> Callable[[], Awaitable[Synthesis]]:
        return lambda: FakeSynthesizer(delay_s=LONG_S).synthesize(self.request())

    async def test_calls_are_recorded(self) -> None:
        """With all arguments."""
        fake, request = FakeSynthesizer(), self.request(max_tokens=5, instructions="x")
        await fake.synthesize(request)
        assert fake.calls == [request]

    @pytest.mark.parametrize("fail_after", [0, 1, 99])
    async def test_it_fails_after_the_scripted_number_of_tokens(self, fail_after: int) -> None:
        """A complete answer fails too."""
        fake = FakeSynthesizer("one two", error=LLMConnectionError(), fail_after=fail_after)
        tokens = []
        with pytest.raises(LLMConnectionError):
            async for part in fake.stream(SynthesisRequest("Q?", self.SOURCES, "en")):
                tokens.append(part)  # noqa: PERF401  a comprehension would lose the parts before the error
        assert tokens == [SynthesisToken(text="one "), SynthesisToken(text="two")][:fail_after]
        with pytest.raises(LLMConnectionError):
            await fake.synthesize(self.request())


class TestSingleFlight(QuotingSynthesizerContract):
    """Single flight around a writer fulfils the contract of the port."""

    @pytest.fixture
    def writer(self) -> SharedSynthesizer:
        return SharedSynthesizer(FakeSynthesizer())

    @pytest.fixture
    def slow(self) -> Callable[[], Awaitable[Synthesis]]:
        writer = SharedSynthesizer(FakeSynthesizer(delay_s=LONG_S))
        return lambda: writer.synthesize(self.request())
