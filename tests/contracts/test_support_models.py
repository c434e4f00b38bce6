"""Every support model fulfils the contract of the port: the fake, and the one of the package."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from statistics import fmean

import pytest
from tests.fakes.support_model import FakeSupportModel, SupportModelContract

from modules.llm_platform.domain.exceptions import SupportModelError
from modules.llm_platform.domain.ports.support_model import ClaimToRead
from modules.llm_platform.infrastructure.models.support import onnx_support_model
from modules.llm_platform.infrastructure.models.support.onnx_support_model import (
    ENGLISH_CLAIMS,
    ENGLISH_QUESTIONS,
    MEAN_IS_OPEN,
    OTHER_CLAIMS,
    OTHER_QUESTIONS,
    QUOTE_IS_OPEN,
    OnnxSupportModel,
    Release,
)

GERMAN = "Sonntags bleibt die Waschküche geschlossen. Schäden meldet man dem Hausmeister, Herrn Kowalski."
FRENCH = "La buanderie reste fermée le dimanche. Les dégâts sont à signaler au concierge, M. Kowalski."
RUSSIAN = "По воскресеньям прачечная закрыта. О поломках следует сообщать дворнику, господину Ковальскому."
# Larger than the differences of eight-bit arithmetic between processors.
SURE_BY = 0.5
READ_IN_OTHER_LANGUAGES = [
    ("Am letzten Tag der Woche kann niemand dort Wäsche waschen.", "Die Waschküche ist nur sonntags geöffnet.", GERMAN),
    ("The laundry room cannot be used on Sundays.", "The laundry room is only open on Sundays.", GERMAN),
    ("Le dimanche, personne ne peut y laver son linge.", "Le concierge est absent le dimanche.", FRENCH),
    ("Если что-то сломалось, нужно сказать об этом дворнику.", "Дворник закрыт по воскресеньям.", RUSSIAN),
    ("洗衣房星期天关闭。", "洗衣房星期天开放。", GERMAN),
]


class TestFakeSupportModel(SupportModelContract):
    @pytest.fixture
    def model(self) -> FakeSupportModel:
        return FakeSupportModel(lambda claim, passage: float("session" in claim))

    @pytest.fixture
    def broken(self) -> FakeSupportModel:
        return FakeSupportModel(error=SupportModelError("broken"))


class TestOnnxSupportModel(SupportModelContract):
    @pytest.fixture
    async def model(self) -> AsyncIterator[OnnxSupportModel]:
        model = OnnxSupportModel()
        yield model
        await model.aclose()

    @pytest.fixture
    async def broken(self, tmp_path: Path) -> AsyncIterator[OnnxSupportModel]:
        model = OnnxSupportModel(tmp_path)
        yield model
        await model.aclose()

    @pytest.mark.parametrize("release", [ENGLISH_CLAIMS, ENGLISH_QUESTIONS, OTHER_CLAIMS, OTHER_QUESTIONS])
    @pytest.mark.parametrize("content", [b"", b"\x08\x08\x12\x07pytorch"])
    def test_damaged_weights_say_how_to_mend_them(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, release: Release
    ) -> None:
        """The weights are part of the package and must be unchanged."""
        monkeypatch.setattr(onnx_support_model, "__file__", str(tmp_path / "onnx_support_model.py"))
        (tmp_path / release.weights).write_bytes(content)
        with pytest.raises(SupportModelError, match="pip install --force-reinstall llm-platform"):
            onnx_support_model._load(tmp_path, release)

    @pytest.mark.parametrize("content", [None, b"other vectors"])
    def test_damaged_word_vectors_say_how_to_mend_them(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None
    ) -> None:
        monkeypatch.setattr(onnx_support_model, "__file__", str(tmp_path / "onnx_support_model.py"))
        if content is not None:
            (tmp_path / "words_languages.bin").write_bytes(content)
        with pytest.raises(SupportModelError, match="pip install --force-reinstall llm-platform"):
            onnx_support_model._load(tmp_path, OTHER_QUESTIONS)

    async def test_other_weights_without_their_word_vectors_are_an_error_of_ours(self, tmp_path: Path) -> None:
        folder = Path(onnx_support_model.__file__).parent
        for name in (OTHER_QUESTIONS.weights, OTHER_QUESTIONS.tokenizer):
            (tmp_path / name).symlink_to(folder / name)
        with pytest.raises(SupportModelError):
            await OnnxSupportModel(tmp_path).score_answers([("Wann?", "Um acht.")], is_english=False)

    async def test_the_model_finds_answers_across_languages(self, model: OnnxSupportModel) -> None:
        question = "How long may the children stay up on the class trip?"
        answer, other = await model.score_answers(
            [
                (question, "Um 22 Uhr liegen alle Kinder in ihren Betten (Klassenfahrt)."),
                (question, "Jedes Kind bringt höchstens 40 Euro mit (Klassenfahrt)."),
            ],
            is_english=False,
        )
        assert answer > other + SURE_BY

    def test_the_runtime_keeps_no_device_id_and_sends_no_telemetry(self, tmp_path: Path) -> None:
        """The runtime decides at its first import whether to write a device id, so the test uses a new process.

        It would upload what it writes here.
        """
        code = f"""
import asyncio
from {onnx_support_model.__name__} import OnnxSupportModel
asyncio.run(OnnxSupportModel().score_answers([("Is the mill old?", "The mill is from 1742.")]))
"""
        kept = {name: value for name, value in os.environ.items() if name in ("PATH", "SYSTEMROOT")}
        folders = {"HOME": str(tmp_path), "TMPDIR": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
        source = str(Path(onnx_support_model.__file__).parents[5])
        subprocess.run(
            [sys.executable, "-c", code], env={**kept, **folders, "PYTHONPATH": source}, check=True, timeout=120
        )
        assert list(tmp_path.rglob("*")) == []

    async def test_the_model_recognises_paraphrases(self, model: OnnxSupportModel) -> None:
        """The model distinguishes a paraphrase from a sentence on the same topic that the passage does not support."""
        passage = "Employees may work remotely on up to two days a week, provided that their manager agrees."
        said, unsaid = await model.score(
            [
                ClaimToRead(said, passage, passage)
                for said in (
                    "With the manager's consent, staff can do their jobs from elsewhere two days per week.",
                    "Employees must visit their manager on two days a week.",
                )
            ]
        )
        assert said > unsaid

    async def test_the_model_finds_answers_in_other_words(self, model: OnnxSupportModel) -> None:
        """A sentence that answers in other words scores higher than one that shares words with the question."""
        answer, other = await model.score_answers(
            [
                ("Who do I tell if I am away for three weeks?", "Please inform the porter of any longer absence."),
                ("Who do I tell if I am away for three weeks?", "The bins are emptied every three weeks."),
            ]
        )
        assert answer > other + SURE_BY

    async def test_a_claim_is_read_up_to_three_times(self, model: OnnxSupportModel) -> None:
        """The score is the mean of the English encoder beside quote and passage, and of the other encoder beside the passage.

        A claim that is clearly not in the quote is read once, and one that both clearly support, twice.
        """
        quote = "Employees may work remotely on up to two days a week, provided that their manager agrees."
        passage = f"{quote} Each team meets in the office on Mondays."
        unsaid, said, left_open = (
            ClaimToRead(claim, quote, passage)
            for claim in (
                "Managers must work remotely on two days a week.",
                "Remote work needs the consent of the manager.",
                "Each team agrees which days it spends in the office.",
            )
        )
        folder = Path(onnx_support_model.__file__).parent
        english, other = (onnx_support_model._load(folder, one) for one in (ENGLISH_CLAIMS, OTHER_CLAIMS))
        (clear,) = english.score(0, [(unsaid.claim, quote)])
        assert clear < QUOTE_IS_OPEN[0]
        twice, thrice = (english.score(0, [(one.claim, quote), (one.claim, passage)]) for one in (said, left_open))
        assert twice[0] < QUOTE_IS_OPEN[1]
        assert fmean(twice) > MEAN_IS_OPEN[1]
        thrice += other.score(0, [(left_open.claim, passage)])
        expected = [clear, pytest.approx(fmean(twice)), pytest.approx(fmean(thrice))]
        assert await model.score([unsaid, said, left_open]) == expected

    @pytest.mark.parametrize(("said", "unsaid", "passage"), READ_IN_OTHER_LANGUAGES)
    async def test_the_model_reads_other_languages(
        self, model: OnnxSupportModel, said: str, unsaid: str, passage: str
    ) -> None:
        """This covers a paraphrase and a sentence with the words of the passage, in one language and across two."""
        first, second = await model.score(
            [ClaimToRead(claim, passage, passage) for claim in (said, unsaid)], is_english=False
        )
        assert first > second + SURE_BY
