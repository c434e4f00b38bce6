"""A fake support model, and the contract of `ISupportModel`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from modules.llm_platform.domain.ports.support_model import ISupportModel
from modules.llm_platform.testing.waiting import error_of
from shared.exceptions import AppException

Pair = tuple[str, str]


class FakeSupportModel(ISupportModel):
    """Gives every pair the same log-odds, or what `score(claim, passage)` returns.

    `error` is raised instead. While `may_score` is cleared, calls wait. `calls` records the pairs.
    """

    name = "encoder"

    def __init__(self, score: float | Callable[[str, str], float] = 10.0, *, error: AppException | None = None) -> None:
        self.calls: list[list[Pair]] = []
        self.is_loading = False
        self.may_score = asyncio.Event()
        self.may_score.set()
        self._score = score
        self._error = error

    def begin_loading(self) -> None:
        self.is_loading = True

    async def score(self, pairs: Sequence[Pair]) -> list[float]:
        self.calls.append(list(pairs))
        await self.may_score.wait()
        if self._error is not None:
            raise self._error
        return [self._score(*pair) if callable(self._score) else self._score for pair in pairs]


class SupportModelContract:
    """Subclass it and add the fixtures `model` and `broken`, whose `score` raises an error."""

    PAIRS: Sequence[Pair] = (
        ("The session token is valid for one hour.", "A session token stays valid for sixty minutes, then it expires."),
        ("The bakery opens at six.", "A session token stays valid for sixty minutes, then it expires."),
    )

    async def test_each_pair_has_a_number_in_its_place(self, model: ISupportModel) -> None:
        first, second = await model.score(self.PAIRS)
        assert first > second
        turned = await model.score([self.PAIRS[1], self.PAIRS[0], self.PAIRS[1]])
        assert turned == pytest.approx([second, first, second])

    async def test_nothing_is_asked_about_no_pairs(self, model: ISupportModel) -> None:
        assert await model.score([]) == []

    async def test_hostile_texts_have_a_number_too(self, model: ISupportModel) -> None:
        texts = ["", "\x00\ud800", "a" * 300_000, "\u202e" * 300, "[SEP] [CLS] [MASK]", "鹿" * 5000, "word " * 100_000]
        scores = await model.score([(text, other) for text in texts for other in (texts[0], text)])
        assert all(isinstance(score, float) and abs(score) < 1000 for score in scores)

    async def test_calls_at_the_same_time_do_not_mix(self, model: ISupportModel) -> None:
        alone = [await model.score([pair]) for pair in self.PAIRS]
        together = await asyncio.gather(*(model.score([pair]) for pair in (*self.PAIRS, *self.PAIRS)))
        assert together == [pytest.approx(score) for score in (*alone, *alone)]

    async def test_loading_may_begin_often(self, model: ISupportModel) -> None:
        model.begin_loading()
        model.begin_loading()
        assert len(await model.score(self.PAIRS)) == len(self.PAIRS)

    async def test_a_failure_is_an_error_of_the_platform(self, broken: ISupportModel) -> None:
        broken.begin_loading()
        await error_of(broken.score(self.PAIRS), AppException)
