"""A fake support model, and the contract of `ISupportModel`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from modules.llm_platform.domain.ports.support_model import ClaimToRead, ISupportModel, Task
from modules.llm_platform.testing.waiting import error_of
from shared.exceptions import AppException

Pair = tuple[str, str]


class FakeSupportModel(ISupportModel):
    """Gives every pair the same log-odds, or what `score(claim, passage)` returns; `answers` does so for questions.

    `error` is raised instead. While `may_score` is cleared, calls wait. `calls` records the claims with their passages, `quotes`
    their quotes, `asked`
    the questions with their sentences, `foreign` those of both that are not in English, and `loading` the tasks to load.
    """

    name = "encoder"
    digest = "fake"

    def __init__(
        self,
        score: float | Callable[[str, str], float] = 10.0,
        *,
        answers: float | Callable[[str, str], float] = 10.0,
        error: AppException | None = None,
    ) -> None:
        self.calls: list[list[Pair]] = []
        self.quotes: list[list[str]] = []
        self.foreign: list[list[Pair]] = []
        self.asked: list[list[Pair]] = []
        self.loading: list[Task] = []
        self.may_score = asyncio.Event()
        self.may_score.set()
        self._score = score
        self._answers = answers
        self._error = error

    def begin_loading(self, task: Task = "support") -> None:
        self.loading.append(task)

    async def score(self, claims: Sequence[ClaimToRead], *, is_english: bool = True) -> list[float]:
        pairs = [(one.claim, one.passage) for one in claims]
        self.calls.append(pairs)
        self.quotes.append([one.quote for one in claims])
        if not is_english:
            self.foreign.append(pairs)
        return await self._read(self._score, pairs)

    async def score_answers(self, pairs: Sequence[Pair], *, is_english: bool = True) -> list[float]:
        self.asked.append(list(pairs))
        if not is_english:
            self.foreign.append(list(pairs))
        return await self._read(self._answers, pairs)

    async def _read(self, score: float | Callable[[str, str], float], pairs: Sequence[Pair]) -> list[float]:
        await self.may_score.wait()
        if self._error is not None:
            raise self._error
        return [score(*pair) if callable(score) else score for pair in pairs]


class SupportModelContract:
    """Subclass it and add the fixtures `model` and `broken`, whose `score` raises an error."""

    PAIRS: Sequence[Pair] = (
        ("The session token is valid for one hour.", "A session token stays valid for sixty minutes, then it expires."),
        ("The bakery opens at six.", "A session token stays valid for sixty minutes, then it expires."),
    )
    CLAIMS = tuple(ClaimToRead(claim, passage, f"{passage} Logging out ends it.") for claim, passage in PAIRS)

    @pytest.mark.parametrize("is_english", [True, False])
    async def test_each_pair_has_a_number_in_its_place(self, model: ISupportModel, is_english: bool) -> None:
        """English text may be scored with `is_english` false, if its language is unknown."""
        first, second = await model.score(self.CLAIMS, is_english=is_english)
        assert first > second
        turned = await model.score([self.CLAIMS[1], self.CLAIMS[0], self.CLAIMS[1]], is_english=is_english)
        assert turned == pytest.approx([second, first, second])

    @pytest.mark.parametrize("is_english", [True, False])
    async def test_the_two_questions_have_separate_scores(self, model: ISupportModel, is_english: bool) -> None:
        """The same pair can be scored for support and for an answer, in any order."""
        supports = await model.score(self.CLAIMS, is_english=is_english)
        answers = await model.score_answers(self.PAIRS, is_english=is_english)
        assert supports != pytest.approx(answers)
        assert await model.score(self.CLAIMS, is_english=is_english) == pytest.approx(supports)

    async def test_no_pairs_have_no_scores(self, model: ISupportModel) -> None:
        assert await model.score([]) == await model.score_answers([]) == await model.score([], is_english=False) == []

    @pytest.mark.parametrize("is_english", [True, False])
    async def test_hostile_texts_have_a_score(self, model: ISupportModel, is_english: bool) -> None:
        texts = ["", "\x00\ud800", "a" * 300_000, "\u202e" * 300, "[SEP] [CLS] [MASK]", "鹿" * 5000, "word " * 100_000]
        claims = [ClaimToRead(text, other, text) for text in texts for other in (texts[0], text)]
        scores = await model.score(claims, is_english=is_english)
        assert all(isinstance(score, float) and abs(score) < 1000 for score in scores)

    async def test_calls_at_the_same_time_do_not_mix(self, model: ISupportModel) -> None:
        alone = [await model.score([claim]) for claim in self.CLAIMS]
        together = await asyncio.gather(*(model.score([claim]) for claim in (*self.CLAIMS, *self.CLAIMS)))
        assert together == [pytest.approx(score) for score in (*alone, *alone)]

    async def test_loading_may_begin_often(self, model: ISupportModel) -> None:
        model.begin_loading()
        model.begin_loading("answer")
        model.begin_loading("answer")
        assert len(await model.score(self.CLAIMS)) == len(self.CLAIMS)

    async def test_a_failure_is_an_error_of_the_platform(self, broken: ISupportModel) -> None:
        broken.begin_loading()
        await error_of(broken.score(self.CLAIMS), AppException)
