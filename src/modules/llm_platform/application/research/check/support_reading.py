"""Let a support model decide the citations that the comparison of words leaves in doubt.

It reads while the answer is written, and the rest at the end.
"""

import asyncio
from collections.abc import Sequence
from itertools import islice

from modules.llm_platform.domain.citations.checker import CitationChecker
from modules.llm_platform.domain.citations.compare.meaning import Doubt
from modules.llm_platform.domain.concurrency.deadline import deadline_at
from modules.llm_platform.domain.concurrency.task_group import cancel_and_wait
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.ports.support_model import ISupportModel
from shared.exceptions import AppException

PAIRS_AT_ONCE = 8  # small batches, so that the first verdicts come early
MAX_PAIRS = 400  # for one answer, about 5 seconds of one core in English, 10 in other languages
LATE = "timeout: the support model did not read all sentences; the others keep the verdicts of their words"
TOO_MANY = f"the support model reads {MAX_PAIRS} sentences of an answer; the others keep the verdicts of their words"


async def score_doubts(model: ISupportModel, doubts: Sequence[Doubt]) -> list[list[float]]:
    """Return the log-odds that each passage of each doubt supports its claim. English is read apart from other languages."""
    scores: list[list[float]] = [[] for _ in doubts]
    for is_english in (True, False):
        alike = [(doubt, found) for doubt, found in zip(doubts, scores, strict=True) if doubt.is_english is is_english]
        pairs = [(doubt.claim, reading.passage) for doubt, _ in alike for reading in doubt.readings]
        if pairs:
            read = iter(await model.score(pairs, is_english=is_english))
            for doubt, found in alike:
                found += islice(read, len(doubt.readings))
    return scores


def count_pairs(doubts: Sequence[Doubt]) -> int:
    return sum(len(doubt.readings) for doubt in doubts)


class SupportReading:
    """Lets the model read the doubts of one checker. Meanwhile, no other thread may use the checker.

    `degraded` says why some sentences were not read.
    """

    def __init__(self, model: ISupportModel, checker: CitationChecker) -> None:
        self._model, self._doubts = model, checker.doubts
        self._task: asyncio.Task[None] | None = None
        self._left = MAX_PAIRS
        self.degraded: tuple[Degraded, ...] = ()

    def begin(self) -> None:
        """Read the doubts of the sentences that have been checked, in the background."""
        if (self._task is None or self._task.done()) and self._doubts.has_open:
            self._task = asyncio.create_task(self._read())

    async def settle(self) -> None:
        """Wait until nothing is read in the background."""
        if self._task is not None:
            await self._task

    async def finish(self, deadline: float) -> bool:
        """Read what is still in doubt. Return whether a verdict may have changed since the last check."""
        was_busy = self._doubts.has_open or (self._task is not None and not self._task.done())
        if not was_busy:
            return False
        try:
            async with deadline_at(deadline):
                await self.settle()
                await self._read()
        except TimeoutError:
            self._give_up(LATE)
        return True

    async def aclose(self) -> None:
        task, self._task = self._task, None
        if task is not None and not task.done():
            await cancel_and_wait(task)

    async def _read(self) -> None:
        while self._doubts.has_open:
            if self._left <= 0:
                self._give_up(TOO_MANY)
                return
            doubts = self._doubts.list_open(min(PAIRS_AT_ONCE, self._left))
            self._left -= count_pairs(doubts)
            try:
                scores = await score_doubts(self._model, doubts)
            except AppException as error:
                self._give_up(f"{error.code}: {error.message}")
                return
            for doubt, log_odds in zip(doubts, scores, strict=True):
                self._doubts.record_log_odds(doubt, log_odds)

    def _give_up(self, reason: str) -> None:
        """Keep the verdicts of the words for all other sentences, and note the reason."""
        self._left = 0
        self._doubts.drop()
        if not self.degraded:
            self.degraded = (Degraded(component=self._model.name, reason=reason),)
