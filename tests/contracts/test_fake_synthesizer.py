"""The scripted writer keeps the promises of the port, and the script."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from tests.fakes.synthesizer import FakeSynthesizer, QuotingSynthesizerContract

from modules.llm_platform.domain.dtos.research_dtos import Synthesis, SynthesisToken
from modules.llm_platform.domain.exceptions import LLMConnectionError
from modules.llm_platform.domain.ports.synthesizer import SynthesisRequest
from modules.llm_platform.infrastructure.policies.single_flight import SingleFlightSynthesizer

LONG_S = 30.0


class TestFakeSynthesizer(QuotingSynthesizerContract):
    @pytest.fixture
    def writer(self) -> FakeSynthesizer:
        return FakeSynthesizer()

    @pytest.fixture
    def slow(self) -> Callable[[], Awaitable[Synthesis]]:
        return lambda: FakeSynthesizer(delay_s=LONG_S).synthesize(self.QUESTION, self.SOURCES, self.LANGUAGE)

    async def test_calls_are_recorded(self) -> None:
        """With all arguments."""
        fake = FakeSynthesizer()
        await fake.synthesize("Q?", self.SOURCES, "en", max_tokens=5, instructions="x")
        assert fake.calls == [SynthesisRequest("Q?", self.SOURCES, "en", 5, "x")]

    @pytest.mark.parametrize("fail_after", [0, 1, 99])
    async def test_it_fails_after_the_scripted_number_of_tokens(self, fail_after: int) -> None:
        """A complete answer only fails."""
        fake = FakeSynthesizer("one two", error=LLMConnectionError(), fail_after=fail_after)
        tokens = []
        with pytest.raises(LLMConnectionError):
            async for part in fake.stream("Q?", self.SOURCES, "en"):
                tokens.append(part)  # noqa: PERF401  a comprehension would lose what came before the error
        assert tokens == [SynthesisToken(text="one "), SynthesisToken(text="two")][:fail_after]
        with pytest.raises(LLMConnectionError):
            await fake.synthesize("Q?", self.SOURCES, "en")


class TestSingleFlight(QuotingSynthesizerContract):
    """The policy around a writer keeps the promises of the port."""

    @pytest.fixture
    def writer(self) -> SingleFlightSynthesizer:
        return SingleFlightSynthesizer(FakeSynthesizer())

    @pytest.fixture
    def slow(self) -> Callable[[], Awaitable[Synthesis]]:
        writer = SingleFlightSynthesizer(FakeSynthesizer(delay_s=LONG_S))
        return lambda: writer.synthesize(self.QUESTION, self.SOURCES, self.LANGUAGE)
