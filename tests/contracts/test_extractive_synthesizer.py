"""The extractive writer fulfils the contract of the port."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from tests.fakes.synthesizer import QuotingSynthesizerContract

from modules.llm_platform.application.research.write.extractive_synthesizer import ExtractiveSynthesizer
from modules.llm_platform.domain.dtos.answer_dtos import Synthesis
from modules.llm_platform.domain.dtos.source_dtos import Source

SENTENCE = "A session token of client {n} stays valid for {n} minutes and the owner may renew it in the settings. "


class TestExtractiveSynthesizer(QuotingSynthesizerContract):
    @pytest.fixture
    def writer(self) -> ExtractiveSynthesizer:
        return ExtractiveSynthesizer()

    @pytest.fixture
    def slow(self) -> Callable[[], Awaitable[Synthesis]]:
        text = "\n\n".join(SENTENCE.format(n=n) * 4 for n in range(900))
        many = [Source(index=n, title="Sessions", url=f"https://example.org/{n}", text=text) for n in range(1, 41)]
        return lambda: ExtractiveSynthesizer().synthesize(self.request(many))
