"""What one report may take: calls, dollars and seconds, shared out so that an answer is still written.

`Budget` is the account; `BudgetedLLM` is a model as a stage may use it.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from typing import Final, Literal

from modules.llm_platform.application.research.stream_deadline import StreamDeadline
from modules.llm_platform.domain.dtos.llm_dtos import (
    NOTHING_SPENT,
    LLMRequest,
    LLMResponse,
    LLMStreamPart,
    LLMToken,
    Spending,
)
from modules.llm_platform.domain.dtos.report_dtos import LLMStage
from modules.llm_platform.domain.exceptions import LLMBudgetError, LLMException, LLMTimeoutError, PriceUnknownError
from modules.llm_platform.domain.ports.llm import ILLMProvider, IWarmUp
from modules.llm_platform.domain.text.tokens import count_tokens

# The calls and dollars of one report, and who may have the next: pure arithmetic, no clock and no model.


Price = Callable[[int, int], float]

PRIORITY: Final[tuple[LLMStage, ...]] = ("write", "plan", "rank", "queries", "summarize", "judge")  # who is kept first
KEPT_UNTOLD: Final[Mapping[LLMStage, int]] = {"write": 1, "rank": 1}  # calls, until the pipeline tells how many
EXTRA_TRIES: Final = 2  # of one call, retries and failover, where nobody else needs them
KEPT_SHARE_MAX: Final = 0.6  # of the dollars, for one stage: the dearest text needs something to be written from

# Tokens of one call, of its prompt and its longest answer, until the pipeline knows better.
USUAL_TOKENS: Final[Mapping[LLMStage, tuple[int, int]]] = {
    "plan": (300, 1024),
    "queries": (300, 1024),
    "rank": (1800, 2048),
    "summarize": (5000, 1024),
    "write": (16_000, 4096),
    "judge": (6000, 2048),
}


@dataclass(frozen=True, slots=True, eq=False)
class CallGrant:
    """A call that may be made: how many tries it may take in all, and the dollars held back for them."""

    stage: LLMStage
    tries: int
    usd: float


class Allowance:
    """What is spent and what is held back for calls under way never passes a limit together. Where one is near, a stage
    gets only what the more important ones (PRIORITY) do not need any more.
    """

    def __init__(self, max_calls: float, max_usd: float, price: Price) -> None:
        """`price` gives US dollars for tokens of a prompt and of its answer; math.inf: no limit."""
        self.max_calls = max_calls
        self.max_usd = max_usd
        self.spent = NOTHING_SPENT
        self._price = price
        self._gone_usd = 0.0  # with what calls that were broken off may have cost beyond what is known
        self._held: set[CallGrant] = set()
        self._to_come: dict[LLMStage, int] = dict(KEPT_UNTOLD)
        self._tokens: dict[LLMStage, tuple[int, int]] = dict(USUAL_TOKENS)
        self._promised: dict[LLMStage, float] = {}  # dollars

    @property
    def is_limited(self) -> bool:
        """Whether calls or dollars are."""
        return self.max_calls < math.inf or self.is_priced

    @property
    def is_priced(self) -> bool:
        """Whether dollars are limited."""
        return self.max_usd < math.inf

    def expect(self, stage: LLMStage, calls: int, tokens: tuple[int, int] | None) -> None:
        """So many calls of `stage` are still to come, one of which takes these tokens."""
        self._to_come[stage] = calls
        if tokens is not None:
            self._tokens[stage] = tokens

    def price(self, prompt_tokens: int, max_tokens: int) -> float:
        """What one try takes at most; 0 where dollars are not limited."""
        return self._price(prompt_tokens, max_tokens) if self.is_priced else 0.0

    def has_calls(self, stage: LLMStage, given_back: int = 0) -> bool:
        """Whether one more call fits, when so many tries are given back."""
        return self._calls_left() + given_back - sum(self._to_come.get(other, 0) for other in _before(stage)) >= 1

    def has_usd(self, stage: LLMStage, usd: float, given_back: float = 0.0) -> bool:
        """The same for dollars."""
        return self.usd_left(stage) + given_back >= usd

    def fits(self, stage: LLMStage, usd: float) -> bool:
        return self.has_calls(stage) and self.has_usd(stage, usd)

    def may_fit(self, stage: LLMStage, usd: float) -> bool:
        """Whether it would fit if the calls under way took one try each and cost nothing."""
        tries, dollars = sum(each.tries - 1 for each in self._held), sum(each.usd for each in self._held)
        return bool(self._held) and self.has_calls(stage, tries) and self.has_usd(stage, usd, dollars)

    def usd_left(self, stage: LLMStage) -> float:
        """What is left for `stage` when the more important ones keep theirs."""
        return self._usd_left() - sum(map(self._kept_usd, _before(stage)))

    def promise(self, stage: LLMStage) -> float:
        """All that is left for the next call of `stage` is its own from now on: how many dollars that are."""
        self._promised[stage] = left = self.usd_left(stage)
        return left

    def hold(self, stage: LLMStage, usd: float) -> CallGrant:
        """Take what fits. Further tries are granted where nobody, known to come, needs them."""
        self._to_come[stage] = max(0, self._to_come.get(stage, 0) - 1)
        self._promised.pop(stage, None)
        tries = 1 + self._extra_tries(usd)
        grant = CallGrant(stage, tries, usd * tries)
        self._held.add(grant)
        return grant

    def settle(self, grant: CallGrant, spent: Spending, *, broken_off: bool) -> None:
        """Give back what the call did not take. Of one that was broken off nobody knows: all its dollars count as gone."""
        self._held.remove(grant)
        before = self._gone_usd
        self.add(spent)
        if broken_off:
            self._gone_usd = max(self._gone_usd, before + grant.usd)

    def add(self, spent: Spending) -> None:
        """Count it; where its dollars are not known, they are taken to be those of the dearest model."""
        self.spent = self.spent + spent
        known = spent.cost_usd
        self._gone_usd += self.price(spent.prompt_tokens, spent.completion_tokens) if known is None else known

    def _extra_tries(self, usd: float) -> int:
        spare = min(EXTRA_TRIES, self._calls_left() - 1 - sum(self._to_come.values()))
        if usd > 0:
            spare = min(spare, (self._usd_left() - sum(map(self._kept_usd, PRIORITY))) / usd - 1)
        return max(0, int(spare))

    def _calls_left(self) -> float:
        return self.max_calls - self.spent.calls - sum(each.tries for each in self._held)

    def _usd_left(self) -> float:
        return self.max_usd - self._gone_usd - sum(each.usd for each in self._held)

    def _kept_usd(self, stage: LLMStage) -> float:
        if stage in self._promised:
            return self._promised[stage]
        calls = self._to_come.get(stage, 0)
        return min(calls * self.price(*self._tokens[stage]), KEPT_SHARE_MAX * self.max_usd) if calls else 0.0


def _before(stage: LLMStage) -> tuple[LLMStage, ...]:
    """The stages that are more important."""
    return PRIORITY[: PRIORITY.index(stage)]


# When each phase of a report must end, so that the later ones have time and an answer is still written.


Phase = LLMStage | Literal["search", "read", "collect_summaries", "rank_summaries"]

WRITING_SHARE: Final = 0.2  # of the time, kept for the writing
WRITING_MAX_S: Final = 180.0  # no text takes longer
LAST_RESORT_SHARE: Final = 0.1  # of the time, kept for the extractive text where the model's is late
LAST_RESORT_MAX_S: Final = 3.0
ENDS: Final[Mapping[Phase, float]] = {  # shares of the time before the writing
    "plan": 0.2,
    "queries": 0.35,
    "search": 0.5,
    "rank": 0.625,  # half of the whole
    "read": 0.8125,  # 65 % of the whole
    "collect_summaries": 0.9,  # which are ranked, where more pages are read than written from
    "summarize": 1.0,
    "rank_summaries": 1.0,
}


def end_of(phase: Phase, began: float, deadline: float) -> float:
    """The time by which a phase must end, on the clock of the other two; after the writing, and the judging of it, the last
    resort has its time.
    """
    allowed = max(0.0, deadline - began)
    if phase in ("write", "judge"):
        return began + allowed - min(allowed * LAST_RESORT_SHARE, LAST_RESORT_MAX_S)
    return began + (allowed - min(allowed * WRITING_SHARE, WRITING_MAX_S)) * ENDS[phase]


log = logging.getLogger(__name__)

UNSAID_MAX_TOKENS: Final = 4096  # of an answer, where dollars are limited and the stage names no bound
MESSAGE_TOKENS: Final = 8  # that a service adds to each message
ANSWER_SHARE: Final = 0.5  # of the dollars of a call whose answer has to be shortened
PRICED_TOKENS: Final = 1_000_000
LATE = "not finished in the time that max_seconds leaves for {stage}"
OUT_OF_TIME = "max_seconds leaves no time for {stage}: raise it, or RESEARCH_TIMEOUT_S"
OUT_OF_CALLS = "max_llm_calls of {limit} leaves none for {stage}: raise it for more of the model's work"
OUT_OF_MONEY = "max_cost_usd of {limit:g} does not reach for {stage}: raise it for more of the model's work"


class Budget:
    """The account of one report. A call reserves what it may take at most and settles what it took, so that calls side by
    side pass no limit either.
    """

    def __init__(
        self,
        *,
        max_llm_calls: int | None,
        max_cost_usd: float | None,
        deadline: float,
        price: Price | None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        """`deadline` is the event loop time at which the report is to be there; `price` gives US dollars for tokens of a
        prompt and of its answer, at the most expensive of the models that may serve. Raises PriceUnknownError when a limit
        in dollars could not be kept.
        """
        if max_cost_usd is not None and price is None:
            raise PriceUnknownError
        self._price = price
        self._allowance = Allowance(
            max_calls=math.inf if max_llm_calls is None else max_llm_calls,
            max_usd=math.inf if max_cost_usd is None else max_cost_usd,
            price=price or _nothing,
        )
        self._clock = clock or asyncio.get_running_loop().time
        self._began = self._clock()
        self._deadline = deadline
        self._refused: Counter[LLMStage] = Counter()
        self._settled = asyncio.Event()

    @property
    def spent(self) -> Spending:
        """What all calls so far cost."""
        return self._allowance.spent

    @property
    def left_out(self) -> Mapping[LLMStage, int]:
        """The calls that were refused, by stage."""
        return dict(self._refused)

    @property
    def is_limited(self) -> bool:
        """Whether calls or dollars are limited, so that the tries of a call are counted too."""
        return self._allowance.is_limited

    @property
    def is_priced(self) -> bool:
        """Whether dollars are limited, so that a call has to say how many tokens it may take."""
        return self._allowance.is_priced

    def add(self, spending: Spending) -> None:
        """Count what was spent elsewhere."""
        self._allowance.add(spending)

    def expect(self, stage: LLMStage, calls: int, tokens: tuple[int, int] | None = None) -> None:
        """So many calls of `stage` are still to come: less important stages leave them what they need. `tokens`, of the
        prompt and of the longest answer of one, where they are known.
        """
        self._allowance.expect(stage, calls, tokens)

    def until(self, phase: Phase) -> float:
        """Event loop time by which a phase must end so that the later ones, and a last resort, have time."""
        return end_of(phase, self._began, self._deadline)

    def answer_tokens(self, stage: LLMStage, max_tokens: int) -> int:
        """How long the next answer of `stage` may be, at most `max_tokens`, so that half of the dollars are its prompt's."""
        if not self.is_priced:
            return max_tokens
        each = self._allowance.price(0, PRICED_TOKENS) / PRICED_TOKENS
        affordable = self._allowance.usd_left(stage) * ANSWER_SHARE / each if each > 0 else max_tokens
        return max(1, min(max_tokens, int(affordable)))

    def room(self, stage: LLMStage, max_tokens: int) -> int | None:
        """Tokens that the next prompt of `stage` may have where the answer has at most `max_tokens`; None: no limit.

        They are kept for it from then on.
        """
        if not self.is_priced:
            return None
        left = self._allowance.promise(stage) - self._allowance.price(0, max_tokens)
        each = self._allowance.price(PRICED_TOKENS, 0) / PRICED_TOKENS
        if left < 0:
            return 0
        return int(left / each) if each > 0 else None

    def cost_of(self, prompt_tokens: int, completion_tokens: int) -> float | None:
        """US dollars at the highest price; None where it is not known."""
        return self._price(prompt_tokens, completion_tokens) if self._price else None

    async def reserve(
        self, stage: LLMStage, prompt_tokens: int = 0, max_tokens: int = 0, phase: Phase | None = None
    ) -> CallGrant:
        """Hold back what a call may take, which must end with `phase` (by default its stage's). Where others under way may
        give back enough, it waits for them.

        Raises LLMBudgetError, which names the limit.
        """
        ends = phase or stage
        usd = self._allowance.price(prompt_tokens, max_tokens)
        while not (self._allowance.fits(stage, usd) and self._left(ends) > 0):
            if self._left(ends) <= 0 or not self._allowance.may_fit(stage, usd):
                raise self._refusal(stage, ends)
            await self._something_settled(ends)
        return self._allowance.hold(stage, usd)

    def settle(self, grant: CallGrant, spent: Spending, *, broken_off: bool = False) -> None:
        """Give back what the call did not take; of one that was broken off its dollars count as gone."""
        self._allowance.settle(grant, spent, broken_off=broken_off)
        self._settled.set()
        self._settled = asyncio.Event()

    async def _something_settled(self, phase: Phase) -> None:
        settled = self._settled
        try:
            async with asyncio.timeout(self._left(phase)):
                await settled.wait()
        except TimeoutError:
            return  # the time of the phase is over: that is looked at next

    def _left(self, phase: Phase) -> float:
        return self.until(phase) - self._clock()

    def _refusal(self, stage: LLMStage, phase: Phase) -> LLMBudgetError:
        self._refused[stage] += 1
        log.info("call of a model left out", extra={"stage": stage})
        allowed = self._allowance
        if self._left(phase) <= 0:
            return LLMBudgetError(OUT_OF_TIME.format(stage=stage))
        if not allowed.has_calls(stage):
            return LLMBudgetError(OUT_OF_CALLS.format(stage=stage, limit=allowed.max_calls))
        return LLMBudgetError(OUT_OF_MONEY.format(stage=stage, limit=allowed.max_usd))


class BudgetedLLM(ILLMProvider):
    """`llm` as one stage of a report may use it: each call asks the budget first, ends with the time of `phase` (by
    default that of the stage), and is settled whatever becomes of it. A refused call raises LLMBudgetError and has cost
    nothing.
    """

    def __init__(self, llm: ILLMProvider, budget: Budget, stage: LLMStage, phase: Phase | None = None) -> None:
        self.name = llm.name
        self.model = llm.model
        self._llm = llm
        self._budget = budget
        self._stage = stage
        self._phase: Phase = phase or stage

    async def generate(self, request: LLMRequest) -> LLMResponse:
        request, grant = await self._admitted(request)
        with self._billed(grant, request) as bill:
            async with asyncio.timeout_at(self._budget.until(self._phase)):
                answer = await self._llm.generate(request)
            bill.add(answer)
        return answer

    async def stream(self, request: LLMRequest) -> AsyncIterator[LLMStreamPart]:
        request, grant = await self._admitted(request)
        with self._billed(grant, request) as bill:
            async with aclosing(self._llm.stream(request)) as parts:  # type: ignore[type-var]  # an async generator
                with StreamDeadline(self._budget.until(self._phase)) as alarm:
                    while (part := await alarm.next_of(parts)) is not None:
                        bill.add(part)
                        yield part

    async def warm_up(self) -> None:
        if isinstance(self._llm, IWarmUp):
            await self._llm.warm_up()

    async def _admitted(self, request: LLMRequest) -> tuple[LLMRequest, CallGrant]:
        """The request with the bounds that the budget sets to it."""
        bounds: dict[str, int] = {}
        prompt_tokens = 0
        if self._budget.is_priced:
            prompt_tokens = _prompt_tokens(request)
            bounds["max_tokens"] = request.max_tokens or UNSAID_MAX_TOKENS
        grant = await self._budget.reserve(self._stage, prompt_tokens, bounds.get("max_tokens", 0), self._phase)
        if self._budget.is_limited:
            bounds["max_tries"] = min(grant.tries, request.max_tries or grant.tries)
        return request.model_copy(update=bounds) if bounds else request, grant

    @contextmanager
    def _billed(self, grant: CallGrant, request: LLMRequest) -> Iterator[_Bill]:
        bill = _Bill(self._budget, request)
        try:
            yield bill
        except TimeoutError:
            raise LLMTimeoutError(LATE.format(stage=self._stage), spent=bill.lost()) from None
        except LLMException as error:
            bill.spent = error.spent
            raise
        finally:
            self._budget.settle(grant, bill.spent or bill.lost(), broken_off=bill.spent is None)


@dataclass(slots=True)
class _Bill:
    """What one call is known to have cost, or must be taken to have cost where it was broken off."""

    budget: Budget
    request: LLMRequest
    spent: Spending | None = None
    written: list[str] = field(default_factory=list)

    def add(self, part: LLMStreamPart) -> None:
        if isinstance(part, LLMToken):
            self.written.append(part.text)
        elif isinstance(part, LLMResponse):
            # A model of somebody's own may count nothing: its call was one all the same.
            told = part.usage
            self.spent = part.spent if part.spent.calls else self._one(told.prompt_tokens, told.completion_tokens)

    def lost(self) -> Spending:
        """One call with its prompt and the words that came."""
        return self._one(_prompt_tokens(self.request), count_tokens("".join(self.written)))

    def _one(self, asked: int, written: int) -> Spending:
        cost = self.budget.cost_of(asked, written)
        return Spending(calls=1, prompt_tokens=asked, completion_tokens=written, cost_usd=cost)


def _prompt_tokens(request: LLMRequest) -> int:
    return sum(count_tokens(message.content) + MESSAGE_TOKENS for message in request.messages)


def _nothing(prompt_tokens: int, max_tokens: int) -> float:
    """The price where it is not known and not needed."""
    return 0.0


# How many calls are still to come, so that the budget keeps what the more important ones need.


class ExpectedCalls:
    """Counts what an exploration knows of its own future: sub-questions without queries, batches without ranks."""

    def __init__(self, budget: Budget, queries_each: int) -> None:
        self._budget = budget
        self._queries_each = queries_each
        self._questions = 0
        self._batches = 0

    def questions(self, change: int) -> None:
        """So many more sub-questions (or fewer) wait for their queries."""
        self._questions += change
        self._tell()

    def batches(self, change: int) -> None:
        """So many more batches of results (or fewer) wait for their ranks."""
        self._batches += change
        self._tell()

    def nothing(self) -> None:
        """The exploration is over, whatever it had still in mind."""
        self._questions = self._batches = 0
        self._tell()

    def _tell(self) -> None:
        self._budget.expect("queries", self._questions)
        self._budget.expect("rank", self._batches + self._questions * self._queries_each)
