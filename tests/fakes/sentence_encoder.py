"""A fake sentence encoder, and the contract of `ISentenceEncoder`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from modules.llm_platform.domain.ports.sentence_encoder import ISentenceEncoder
from modules.llm_platform.testing.waiting import error_of
from shared.exceptions import AppException


class FakeSentenceEncoder(ISentenceEncoder):
    """Returns `closeness(question, sentence)` for each sentence.

    `error` is raised instead, and `asked` records the questions. The vocabulary has all words but the `misspelled` ones.
    """

    name = "sentences"

    def __init__(
        self,
        closeness: Callable[[str, str], float] = lambda question, sentence: 0.5,
        *,
        error: AppException | None = None,
        misspelled: Sequence[str] = (),
    ) -> None:
        self.asked: list[str] = []
        self._misspelled = misspelled
        self.is_loading = False
        self._closeness = closeness
        self._error = error

    def begin_loading(self, *, is_english: bool = False) -> None:
        self.is_loading = True

    async def measure_closeness(
        self, question: str, sentences: Sequence[str], *, is_english: bool = False
    ) -> list[float]:
        self.asked.append(question)
        if self._error is not None:
            raise self._error
        return [self._closeness(question, sentence) for sentence in sentences]

    async def list_unknown_words(self, words: Sequence[str]) -> list[str]:
        return [word for word in words if word in self._misspelled]


class SentenceEncoderContract:
    """Subclass it and add the fixtures `encoder` and `broken`, whose `measure_closeness` raises an error."""

    QUESTION = "How long does a session token stay valid?"
    SENTENCES: Sequence[str] = ("The session token expires after one hour.", "The bakery opens at six.")

    async def test_the_sentence_about_the_question_is_closer(self, encoder: ISentenceEncoder) -> None:
        near, far = await encoder.measure_closeness(self.QUESTION, self.SENTENCES)
        assert -1 <= far < near <= 1.001
        turned = await encoder.measure_closeness(self.QUESTION, self.SENTENCES[::-1])
        assert turned == pytest.approx([far, near], abs=1e-4)

    async def test_no_sentences_have_no_closeness(self, encoder: ISentenceEncoder) -> None:
        assert await encoder.measure_closeness(self.QUESTION, []) == []

    async def test_hostile_texts_have_a_closeness(self, encoder: ISentenceEncoder) -> None:
        texts = [
            "",
            "\x00\ud800",
            "a" * 300_000,
            "\u202e" * 300,
            "▁▁▁",
            "鹿" * 5000,
            "word " * 100_000,
            "…",
            "🙂" * 900,
        ]
        for question in (self.QUESTION, "", "\ud800?"):
            found = await encoder.measure_closeness(question, texts)
            assert len(found) == len(texts)
            assert all(isinstance(one, float) and abs(one) <= 1.001 for one in found)

    async def test_calls_at_the_same_time_do_not_mix(self, encoder: ISentenceEncoder) -> None:
        alone = await encoder.measure_closeness(self.QUESTION, self.SENTENCES)
        together = await asyncio.gather(*(encoder.measure_closeness(self.QUESTION, self.SENTENCES) for _ in range(3)))
        assert together == [pytest.approx(alone, abs=1e-4)] * 3

    async def test_misspelled_words_are_unknown(self, encoder: ISentenceEncoder) -> None:
        assert await encoder.list_unknown_words(["committee", "comittee", "price"]) == ["comittee"]
        assert await encoder.list_unknown_words([]) == []

    async def test_loading_may_begin_often(self, encoder: ISentenceEncoder) -> None:
        encoder.begin_loading()
        encoder.begin_loading()
        assert len(await encoder.measure_closeness(self.QUESTION, self.SENTENCES)) == 2

    async def test_a_failure_is_an_error_of_the_platform(self, broken: ISentenceEncoder) -> None:
        broken.begin_loading()
        await error_of(broken.measure_closeness(self.QUESTION, self.SENTENCES), AppException)
