"""The calls and dollars of one report, and who may have the next: pure arithmetic, no clock and no model."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from modules.llm_platform.domain.dtos.llm_dtos import NOTHING_SPENT, Spending
from modules.llm_platform.domain.dtos.report_dtos import LLMStage

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
class Grant:
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
        self._held: set[Grant] = set()
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

    def hold(self, stage: LLMStage, usd: float) -> Grant:
        """Take what fits. Further tries are granted where nobody, known to come, needs them."""
        self._to_come[stage] = max(0, self._to_come.get(stage, 0) - 1)
        self._promised.pop(stage, None)
        tries = 1 + self._extra_tries(usd)
        grant = Grant(stage, tries, usd * tries)
        self._held.add(grant)
        return grant

    def settle(self, grant: Grant, spent: Spending, *, broken_off: bool) -> None:
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
