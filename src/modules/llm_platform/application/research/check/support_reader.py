"""Let a support model decide the claims that the word comparison leaves undecided.

It reads while the answer is written, and the rest at the end.
"""

import asyncio
from collections.abc import Sequence
from itertools import islice

from modules.llm_platform.domain.citations.checker import CitationChecker
from modules.llm_platform.domain.citations.compare.undecided_claims import UndecidedClaim
from modules.llm_platform.domain.concurrency.deadline import deadline_at
from modules.llm_platform.domain.concurrency.task_group import cancel_and_wait
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.ports.support_model import ClaimToRead, ISupportModel
from shared.exceptions import AppException

PAIR_BATCH_SIZE = 8  # small batches, so that the first verdicts come early
MAX_PAIRS = 400  # for one answer, 7 to 10 seconds of one core
LATE = (
    "timeout: the support model did not read all sentences; "
    "the remaining sentences keep the result of the word comparison"
)
TOO_MANY = (
    f"the support model reads {MAX_PAIRS} sentences of an answer; "
    "the remaining sentences keep the result of the word comparison"
)


async def score_claims(model: ISupportModel, claims: Sequence[UndecidedClaim]) -> list[list[float]]:
    """Return, for each claim, the log-odds that each of its passages supports it.

    English claims and claims in other languages are scored in separate calls. Raises the errors of the model.
    """
    scores: list[list[float]] = [[] for _ in claims]
    for is_english in (True, False):
        alike = [(one, found) for one, found in zip(claims, scores, strict=True) if one.is_english is is_english]
        to_read = [
            ClaimToRead(one.claim, passage.quote_text, passage.text) for one, _ in alike for passage in one.passages
        ]
        if to_read:
            read = iter(await model.score(to_read, is_english=is_english))
            for one, found in alike:
                found += islice(read, len(one.passages))
    return scores


class PairBudget:
    """How many pairs of a claim and a passage a model may still read of one text, and why it stopped before it read all.

    `left` is at most 0 if it may read no more. `degraded` is empty unless it stopped.
    """

    def __init__(self, model: ISupportModel, max_pairs: int) -> None:
        self._model = model
        self.left = max_pairs
        self.degraded: tuple[Degraded, ...] = ()

    def spend(self, claims: Sequence[UndecidedClaim]) -> None:
        """Count the pairs of claims that the model reads now."""
        self.left -= sum(len(claim.passages) for claim in claims)

    def stop(self, reason: str) -> None:
        """Let the model read no more pairs. The first reason stays."""
        self.left = 0
        if not self.degraded:
            self.degraded = (Degraded(component=self._model.name, reason=reason),)


class SupportReader:
    """Lets the model read the undecided claims of one checker. Meanwhile, no other thread may use the checker."""

    def __init__(self, model: ISupportModel, checker: CitationChecker) -> None:
        self._model, self._checker = model, checker
        self._task: asyncio.Task[None] | None = None
        self._budget = PairBudget(model, MAX_PAIRS)

    @property
    def degraded(self) -> tuple[Degraded, ...]:
        """Why some sentences were not read."""
        return self._budget.degraded

    def begin(self) -> None:
        """Read the undecided claims of the sentences that have been checked, in the background."""
        if (self._task is None or self._task.done()) and self._checker.undecided.has_any:
            self._task = asyncio.create_task(self._read())

    async def settle(self) -> None:
        """Wait until nothing is read in the background."""
        if self._task is not None:
            await self._task

    async def finish(self, deadline: float) -> bool:
        """Read the claims that are still undecided. Return whether a verdict may have changed since the last check."""
        was_busy = self._checker.undecided.has_any or (self._task is not None and not self._task.done())
        if not was_busy:
            return False
        try:
            async with deadline_at(deadline):
                await self.settle()
                await self._read()
        except TimeoutError:
            self._stop(LATE)
        return True

    async def aclose(self) -> None:
        task, self._task = self._task, None
        if task is not None and not task.done():
            await cancel_and_wait(task)

    async def _read(self) -> None:
        while self._checker.undecided.has_any:
            if self._budget.left <= 0:
                self._stop(TOO_MANY)
                return
            claims = self._checker.undecided.list_first(min(PAIR_BATCH_SIZE, self._budget.left))
            self._budget.spend(claims)
            try:
                scores = await score_claims(self._model, claims)
            except AppException as error:
                self._stop(f"{error.code}: {error.message}")
                return
            for claim, log_odds in zip(claims, scores, strict=True):
                self._checker.record_log_odds(claim, log_odds)

    def _stop(self, reason: str) -> None:
        """Keep the lexical verdicts for all other sentences."""
        self._budget.stop(reason)
        self._checker.undecided.clear()
