"""Share the model calls, dollars and seconds of a report among its stages, so that an answer is always written."""

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Literal

from modules.llm_platform.domain.dtos.llm_dtos import NOTHING_SPENT, Spending
from modules.llm_platform.domain.dtos.report_dtos import LLMStage
from modules.llm_platform.domain.exceptions import LLMBudgetError, PriceUnknownError

log = logging.getLogger(__name__)

Phase = LLMStage | Literal["search", "read", "collect_summaries", "rank_summaries"]
Price = Callable[[int, int], float]  # returns the cost of a call in US dollars from its prompt and completion tokens

PRIORITY: Final[tuple[LLMStage, ...]] = (
    "write",
    "output",
    "plan",
    "rank",
    "queries",
    "summarize",
    "judge",
)  # highest first
# The calls that each stage needs, until the pipeline reports its own counts.
DEFAULT_EXPECTED_CALLS: Final[Mapping[LLMStage, int]] = {"write": 1, "rank": 1}
MAX_EXTRA_TRIES: Final = 2  # retries and failovers of one call
MAX_RESERVED_SHARE: Final = 0.6  # share of the dollars for one stage: even an expensive text needs the others
ANSWER_SHARE: Final = 0.5  # share of a call's dollars for an answer that must be shortened; the prompt gets the rest
PRICED_TOKENS: Final = 1_000_000

# The tokens that the prompt and the longest answer of one call are assumed to have.
CALL_TOKENS: Final[Mapping[LLMStage, tuple[int, int]]] = {
    "plan": (300, 1024),
    "queries": (300, 1024),
    "rank": (1800, 2048),
    "summarize": (5000, 1024),
    "write": (16_000, 4096),
    "judge": (6000, 2048),
    "output": (6000, 4096),
}

# The shares of the time that are kept for the writing, and for the extractive text if the model is late.
WRITING_SHARE: Final = 0.2
WRITING_MAX_S: Final = 180.0
FALLBACK_SHARE: Final = 0.1
FALLBACK_MAX_S: Final = 3.0
# The ends of the phases, as shares of the time before the writing.
PHASE_ENDS: Final[Mapping[Phase, float]] = {
    "plan": 0.2,
    "queries": 0.35,
    "search": 0.5,
    "rank": 0.625,  # half of the whole time
    "read": 0.8125,  # 65 % of the whole time
    "collect_summaries": 0.9,
    "summarize": 1.0,
    "rank_summaries": 1.0,
}

# Degraded.is_timeout looks for "max_seconds"
OUT_OF_TIME = "no time is left for {stage}: raise max_seconds or RESEARCH_TIMEOUT_S"
OUT_OF_CALLS = "max_llm_calls ({limit}) leaves no call for {stage}: raise it"
OUT_OF_MONEY = "max_cost_usd ({limit:g}) is too low for {stage}: raise it"


def compute_phase_end(phase: Phase, began: float, deadline: float) -> float:
    """Return the time by which a phase must end, on the clock of `began` and `deadline`, in seconds.

    Writing and judging end early enough for the fallback writer to answer before the deadline. The output is the last phase,
    and may take all of the time.
    """
    allowed = max(0.0, deadline - began)
    if phase == "output":
        return began + allowed
    if phase in ("write", "judge"):
        return began + allowed - min(allowed * FALLBACK_SHARE, FALLBACK_MAX_S)
    return began + (allowed - min(allowed * WRITING_SHARE, WRITING_MAX_S)) * PHASE_ENDS[phase]


@dataclass(frozen=True, slots=True, eq=False)
class Reservation:
    """A call that may be made. `tries` is the maximum number of its tries, and `usd` the dollars reserved for all of them."""

    stage: LLMStage
    tries: int
    usd: float


class Budget:
    """The calls, dollars and seconds of one report.

    A call reserves its maximum before it starts, and afterwards settles what it used, so that concurrent calls never exceed a
    limit together. A stage only gets what the stages of higher priority do not need.
    """

    def __init__(
        self,
        *,
        max_llm_calls: int | None,
        max_cost_usd: float | None,
        deadline: float,
        price: Price | None,
        stages: Collection[LLMStage] = PRIORITY,
        clock: Callable[[], float] | None = None,
    ) -> None:
        """Create the budget of a report that begins now.

        - `max_llm_calls` and `max_cost_usd` are its limits; None means no limit.
        - `deadline` is event loop time, or the time of `clock`.
        - `price` is the price of the most expensive model that may serve.
        - `stages` are the stages that have a model. No calls are reserved for other stages.

        Raises PriceUnknownError for a limit in dollars without a price.
        """
        if max_cost_usd is not None and price is None:
            raise PriceUnknownError
        self.spent = NOTHING_SPENT
        self._max_calls = math.inf if max_llm_calls is None else max_llm_calls
        self._max_usd = math.inf if max_cost_usd is None else max_cost_usd
        self._price = price
        self._clock = clock or asyncio.get_running_loop().time
        self._began = self._clock()
        self._deadline = deadline
        self._spent_usd = 0.0  # more than in `spent` after an interrupted call, which counts with its whole reservation
        self._reservations: set[Reservation] = set()
        self._stages = stages
        self._expected_calls = {stage: calls for stage, calls in DEFAULT_EXPECTED_CALLS.items() if stage in stages}
        self._set_aside: dict[LLMStage, float] = {}  # the dollars for the next call of each stage
        self._refused_calls: Counter[LLMStage] = Counter()
        self._settled = asyncio.Event()

    @property
    def refused_calls(self) -> Mapping[LLMStage, int]:
        """The number of refused calls of each stage."""
        return dict(self._refused_calls)

    @property
    def is_limited(self) -> bool:
        """True if calls or dollars are limited. If they are, the tries of each call are counted too."""
        return self._max_calls < math.inf or self.is_priced

    @property
    def is_priced(self) -> bool:
        """True if dollars are limited. If they are, each call must limit its tokens."""
        return self._max_usd < math.inf

    def compute_phase_end(self, phase: Phase) -> float:
        """Return the event loop time by which a phase must end."""
        return compute_phase_end(phase, self._began, self._deadline)

    def compute_cost(self, prompt_tokens: int, completion_tokens: int) -> float | None:
        """Return the cost of a call in US dollars at the highest price; None without a price."""
        return self._price(prompt_tokens, completion_tokens) if self._price else None

    def expect_calls(self, stage: LLMStage, calls: int) -> None:
        """Keep what this many further calls of `stage` need from the stages of lower priority.

        If there are none, the dollars that were set aside for the stage are free again.
        """
        self._expected_calls[stage] = calls if stage in self._stages else 0
        if not calls:
            self._set_aside.pop(stage, None)

    def limit_answer_tokens(self, stage: LLMStage, max_tokens: int) -> int:
        """Return `max_tokens`, or fewer so that the next answer of `stage` costs at most ANSWER_SHARE of its dollars."""
        if not self.is_priced:
            return max_tokens
        usd_per_token = self._price_try(0, PRICED_TOKENS) / PRICED_TOKENS
        affordable = self.count_usd_left(stage) * ANSWER_SHARE / usd_per_token if usd_per_token > 0 else max_tokens
        return max(1, min(max_tokens, int(affordable)))

    def set_aside_prompt_tokens(self, stage: LLMStage, max_tokens: int) -> int | None:
        """Set all dollars that are left for `stage` aside for its next call, and return the tokens that its prompt may have.

        `max_tokens` limits the answer of that call. The result is None if the prompt has no limit.
        """
        if not self.is_priced:
            return None
        self._set_aside[stage] = self.count_usd_left(stage)
        left = self._set_aside[stage] - self._price_try(0, max_tokens)
        usd_per_token = self._price_try(PRICED_TOKENS, 0) / PRICED_TOKENS
        if left < 0:
            return 0
        return int(left / usd_per_token) if usd_per_token > 0 else None

    def count_usd_left(self, stage: LLMStage) -> float:
        """Return the US dollars for `stage` that the stages of higher priority do not need."""
        return self._count_unreserved_usd() - sum(map(self._count_expected_usd, _list_higher_stages(stage)))

    def can_afford(self, stage: LLMStage, prompt_tokens: int, max_tokens: int) -> bool:
        """Return whether a call of `stage` fits, now or later, into what higher-priority stages leave."""
        usd = self._price_try(prompt_tokens, max_tokens)
        fits = self._count_calls_left(stage) >= 1 and self.count_usd_left(stage) >= usd
        return fits or self._may_fit_later(stage, usd)

    async def reserve(
        self, stage: LLMStage, prompt_tokens: int = 0, max_tokens: int = 0, phase: Phase | None = None
    ) -> Reservation:
        """Reserve the maximum of a call that must end with `phase`, by default the phase of its stage.

        Waits as long as calls in progress may release enough. Raises LLMBudgetError, whose message names the limit.
        """
        phase = phase or stage
        usd = self._price_try(prompt_tokens, max_tokens)
        while self._measure_time_left(phase) > 0:
            if reservation := self.try_reserve(stage, usd):
                return reservation
            if not self._may_fit_later(stage, usd):
                break
            with suppress(TimeoutError):
                async with asyncio.timeout(self._measure_time_left(phase)):
                    await self._settled.wait()
        raise self._explain_refusal(stage, phase)

    def try_reserve(self, stage: LLMStage, usd: float) -> Reservation | None:
        """Reserve a call of `usd` dollars a try; return None if it exceeds a limit now.

        Extra tries only take what no expected call needs.
        """
        if self._count_calls_left(stage) < 1 or self.count_usd_left(stage) < usd:
            return None
        self._expected_calls[stage] = max(0, self._expected_calls.get(stage, 0) - 1)
        self._set_aside.pop(stage, None)
        spare = min(MAX_EXTRA_TRIES, self._count_calls_left() - 1 - sum(self._expected_calls.values()))
        if usd > 0:
            spare = min(spare, (self._count_unreserved_usd() - sum(map(self._count_expected_usd, PRIORITY))) / usd - 1)
        tries = 1 + max(0, int(spare))
        reservation = Reservation(stage, tries, usd * tries)
        self._reservations.add(reservation)
        return reservation

    def settle(self, reservation: Reservation, spent: Spending, *, interrupted: bool = False) -> None:
        """Release what a call did not use. The cost of an interrupted call is unknown, so its whole reservation counts."""
        self._reservations.remove(reservation)
        before = self._spent_usd
        self.add_spending(spent)
        if interrupted:
            self._spent_usd = max(self._spent_usd, before + reservation.usd)
        self._settled.set()
        self._settled = asyncio.Event()

    def add_spending(self, spent: Spending) -> None:
        """Count the tokens, calls and dollars of a call. An unknown cost counts at the highest price."""
        self.spent = self.spent + spent
        known = spent.cost_usd
        self._spent_usd += self._price_try(spent.prompt_tokens, spent.completion_tokens) if known is None else known

    def _price_try(self, prompt_tokens: int, max_tokens: int) -> float:
        """Return the maximum cost of one try, in US dollars; 0 if dollars are not limited."""
        return self._price(prompt_tokens, max_tokens) if self._price and self.is_priced else 0.0

    def _count_calls_left(self, stage: LLMStage | None = None) -> float:
        """Return the calls that are neither made nor reserved; for a `stage`, less those that higher priorities expect."""
        left = self._max_calls - self.spent.calls - sum(reservation.tries for reservation in self._reservations)
        return left - sum(self._expected_calls.get(other, 0) for other in _list_higher_stages(stage)) if stage else left

    def _count_unreserved_usd(self) -> float:
        return self._max_usd - self._spent_usd - sum(reservation.usd for reservation in self._reservations)

    def _count_expected_usd(self, stage: LLMStage) -> float:
        """Return the US dollars that the expected calls of a stage need, or that are set aside for its next call."""
        if stage in self._set_aside:
            return self._set_aside[stage]
        calls = self._expected_calls.get(stage, 0)
        return min(calls * self._price_try(*CALL_TOKENS[stage]), MAX_RESERVED_SHARE * self._max_usd) if calls else 0.0

    def _may_fit_later(self, stage: LLMStage, usd: float) -> bool:
        """Return whether the call fits if each call in progress takes one try and costs nothing."""
        tries = sum(reservation.tries - 1 for reservation in self._reservations)
        dollars = sum(reservation.usd for reservation in self._reservations)
        fits = self._count_calls_left(stage) + tries >= 1 and self.count_usd_left(stage) + dollars >= usd
        return bool(self._reservations) and fits

    def _measure_time_left(self, phase: Phase) -> float:
        return self.compute_phase_end(phase) - self._clock()

    def _explain_refusal(self, stage: LLMStage, phase: Phase) -> LLMBudgetError:
        self._refused_calls[stage] += 1
        log.info("call of a model left out", extra={"stage": stage})
        if self._measure_time_left(phase) <= 0:
            return LLMBudgetError(OUT_OF_TIME.format(stage=stage))
        if self._count_calls_left(stage) < 1:
            return LLMBudgetError(OUT_OF_CALLS.format(stage=stage, limit=self._max_calls))
        return LLMBudgetError(OUT_OF_MONEY.format(stage=stage, limit=self._max_usd))


def _list_higher_stages(stage: LLMStage) -> tuple[LLMStage, ...]:
    return PRIORITY[: PRIORITY.index(stage)]


class ExpectedCalls:
    """Tells a budget how many calls an exploration will still make.

    A batch of results without ranks needs one call. A question without queries needs one, and one for each query's results.
    """

    def __init__(self, budget: Budget, queries_per_question: int) -> None:
        self._budget = budget
        self._queries_per_question = queries_per_question
        self._questions = 0
        self._batches = 0

    def add_questions(self, count: int) -> None:
        """Add sub-questions that wait for their queries; a negative count removes them."""
        self._questions += count
        self._report()

    def add_batches(self, count: int) -> None:
        """Add batches of results that wait for their ranks; a negative count removes them."""
        self._batches += count
        self._report()

    def clear(self) -> None:
        """Tell the budget to expect no further calls."""
        self._questions = self._batches = 0
        self._report()

    def _report(self) -> None:
        self._budget.expect_calls("queries", self._questions)
        self._budget.expect_calls("rank", self._batches + self._questions * self._queries_per_question)
