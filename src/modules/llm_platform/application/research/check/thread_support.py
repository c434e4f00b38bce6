"""Ask a support model from a thread that compares the sentences of a text with its sources."""

import asyncio
import concurrent.futures
from collections.abc import Callable, Sequence
from typing import Final

from modules.llm_platform.application.research.check.support_reader import (
    LATE,
    PAIR_BATCH_SIZE,
    PairBudget,
    score_claims,
)
from modules.llm_platform.domain.citations.checker import CitationChecker
from modules.llm_platform.domain.citations.compare.undecided_claims import UndecidedClaim
from modules.llm_platform.domain.concurrency.stoppable import StopSignal
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.ports.support_model import ISupportModel
from shared.exceptions import AppException

MAX_PAIRS: Final = 800  # of one text: 14 to 20 seconds of one core
MAX_WAIT_S: Final = 10.0  # for a few pairs, after the pairs of other callers
TOO_MANY: Final = (
    f"the support model reads {MAX_PAIRS} sentences of a text; "
    "the remaining sentences keep the result of the word comparison"
)


# Returns, for each claim, the log-odds that each of its passages supports it. If the result is shorter, the rest was not read.
ReadSupport = Callable[[Sequence[UndecidedClaim]], Sequence[Sequence[float]]]


def settle_undecided(checker: CitationChecker, read_support: ReadSupport | None) -> bool:
    """Let the support model decide what the word comparison leaves undecided. Return whether a verdict may have changed."""
    has_read = False
    while read_support is not None and (claims := checker.undecided.list_first(PAIR_BATCH_SIZE)):
        scores = read_support(claims)
        for claim, log_odds in zip(claims, scores, strict=False):
            checker.record_log_odds(claim, log_odds)
        has_read = has_read or bool(scores)
        if len(scores) < len(claims):
            checker.undecided.clear()
    return has_read


class ThreadSupport:
    """Waits in a thread for the scores of a model that works on the event loop.

    Create it on the event loop. After `signal`, a failure or MAX_PAIRS pairs there are no more scores.
    """

    def __init__(self, model: ISupportModel, signal: StopSignal) -> None:
        self._model, self._signal = model, signal
        self._loop = asyncio.get_running_loop()
        self._budget = PairBudget(model, MAX_PAIRS)

    @property
    def degraded(self) -> tuple[Degraded, ...]:
        """Why some claims were not read."""
        return self._budget.degraded

    def __call__(self, claims: Sequence[UndecidedClaim]) -> Sequence[Sequence[float]]:
        if self._signal.is_set or self._budget.left <= 0:
            return self._stop(LATE if self._signal.is_set else TOO_MANY)
        self._budget.spend(claims)
        asked = asyncio.run_coroutine_threadsafe(score_claims(self._model, claims), self._loop)
        try:
            return asked.result(min(MAX_WAIT_S, self._signal.left_s))
        except concurrent.futures.TimeoutError:
            asked.cancel()
            return self._stop(LATE)
        except AppException as error:
            return self._stop(f"{error.code}: {error.message}")

    def _stop(self, reason: str) -> Sequence[Sequence[float]]:
        self._budget.stop(reason)
        return ()
