"""The scripted writer keeps the promises of the port, and the script."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from modules.llm_platform.domain.dtos.research_dtos import Synthesis, SynthesisToken
from modules.llm_platform.domain.exceptions import LLMConnectionError
from modules.llm_platform.testing.synthesizer import FakeSynthesizer, QuotingSynthesizerContract, WriterCall

LONG_S = 30.0


class TestFakeSynthesizer(QuotingSynthesizerContract):
    @pytest.fixture
    def writer(self) -> FakeSynthesizer:
        return FakeSynthesizer()

    @pytest.fixture
    def slow(self) -> Callable[[], Awaitable[Synthesis]]:
        return lambda: FakeSynthesizer(delay_s=LONG_S).synthesize(self.QUESTION, self.SOURCES, self.LANGUAGE)

    async def test_it_keeps_what_it_was_asked(self) -> None:
        """A test can look at the order that reached the writer."""
        fake = FakeSynthesizer()
        await fake.synthesize("Q?", self.SOURCES, "en", max_tokens=5, instructions="x")
        assert fake.calls == [WriterCall("Q?", self.SOURCES, "en", 5, "x")]

    @pytest.mark.parametrize("fail_after", [0, 1, 99])
    async def test_it_dies_where_the_script_says(self, fail_after: int) -> None:
        """After so many words of a stream, or at the end of it; a whole answer only fails."""
        fake = FakeSynthesizer("one two", error=LLMConnectionError(), fail_after=fail_after)
        tokens = []
        with pytest.raises(LLMConnectionError):
            async for part in fake.stream("Q?", self.SOURCES, "en"):
                tokens.append(part)  # noqa: PERF401  a comprehension would lose what came before the error
        assert tokens == [SynthesisToken(text="one "), SynthesisToken(text="two")][:fail_after]
        with pytest.raises(LLMConnectionError):
            await fake.synthesize("Q?", self.SOURCES, "en")
