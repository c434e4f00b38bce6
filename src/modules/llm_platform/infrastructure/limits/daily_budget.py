"""A budget in US dollars for each day (UTC): of the whole platform, and of each API key."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from modules.llm_platform.application.research.budget import Price
from modules.llm_platform.application.research.budgeted_llm import DEFAULT_MAX_ANSWER_TOKENS, estimate_prompt_tokens
from modules.llm_platform.domain.callers.api_key_label import api_key_label
from modules.llm_platform.domain.dtos.llm_dtos import LLMRequest, LLMResponse, LLMStreamPart, LLMToken, Spending
from modules.llm_platform.domain.exceptions import DailyBudgetError, LLMException, SpendingStoreError
from modules.llm_platform.domain.ports.metrics import NO_METRICS, IMetrics
from modules.llm_platform.domain.ports.spending_store import ISpendingStore
from modules.llm_platform.domain.telemetry.metrics import BUDGET_REFUSALS, BUDGET_SPENT
from modules.llm_platform.domain.text.tokens import count_tokens

log = logging.getLogger(__name__)

ALL: Final = "all"  # the account of the whole platform
REFRESH_S: Final = 1.0  # maximum age of the sums of all processes
SPENT: Final = "{setting} ({limit:g} US dollars) is spent: raise it, or wait until 00:00 UTC"
UNDER_WAY: Final = "{setting} ({limit:g} US dollars) may be used up by running calls: try again, or raise it"


@dataclass(frozen=True, slots=True)
class DailyLimits:
    """Limits in US dollars a day. None means no limit.

    - `keys` has the limits of single labels.
    - `each_key` is the limit of each other key.
    """

    all: float | None = None
    each_key: float | None = None
    keys: Mapping[str, float] = field(default_factory=dict)

    def accounts(self, label: str) -> Mapping[str, _Account]:
        """Return the accounts that a call of this API key counts in."""
        accounts = {}
        if self.all is not None:
            accounts[ALL] = _Account("BUDGET_USD_PER_DAY", self.all)
        limit = self.keys.get(label, self.each_key)
        if label and limit is not None:
            accounts[f"key:{label}"] = _Account(f"BUDGET_USD_PER_DAY for {label}", limit)
        return accounts


@dataclass(frozen=True, slots=True)
class _Account:
    setting: str
    limit: float


@dataclass(frozen=True, slots=True)
class Reservation:
    """The most that a call can cost, in these accounts."""

    accounts: Mapping[str, _Account]
    usd: float


class DailyBudget:
    """Counts the cost of calls. A call may start while its accounts are not spent.

    While other calls run, the most that they can cost counts as spent, so a limit is exceeded by at most one call of each
    process. Sums are stored, so that a restart does not reset them and processes share them. While the store fails, this
    process counts alone. A sum never falls below the one that this process has seen on the same day.
    """

    def __init__(
        self,
        store: ISpendingStore,
        limits: DailyLimits,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        *,
        metrics: IMetrics = NO_METRICS,
    ) -> None:
        self._store = store
        self._metrics = metrics
        self._limits = limits
        self._clock = clock
        self._day = ""
        self._stored: dict[str, float] = {}  # sums of all processes, as last read
        self._unsaved: defaultdict[str, float] = defaultdict(float)  # dollars that are not in the store yet
        self._reserved: defaultdict[str, list[float]] = defaultdict(list)  # dollars of the calls under way
        self._refreshed = datetime.min.replace(tzinfo=UTC)
        self._store_lock = asyncio.Lock()
        self._store_fails = False
        self._saving: set[asyncio.Task[None]] = set()

    async def reserve(self, usd: float) -> Reservation:
        """Reserve `usd`, the maximum cost of a call. Raises DailyBudgetError if a limit does not allow the call."""
        accounts = self._limits.accounts(api_key_label())
        if not self._is_fresh(accounts):
            await self._synchronize(accounts)
        self._report(accounts)
        for name, account in accounts.items():
            spent = self._count_spent(name)
            if spent >= account.limit:
                raise self._make_refusal(SPENT, name, account)
            if self._reserved[name] and spent + sum(self._reserved[name]) + usd > account.limit:
                raise self._make_refusal(UNDER_WAY, name, account)
        for name in accounts:
            self._reserved[name].append(usd)
        return Reservation(accounts, usd)

    def settle(self, reservation: Reservation, usd: float) -> None:
        """Replace the reservation with `usd`, the actual cost of the call. The cost is stored in the background."""
        self._begin_day()
        for name in reservation.accounts:
            self._reserved[name].remove(reservation.usd)
            self._unsaved[name] += usd
        self._report(reservation.accounts)  # the next call, if one comes, would be refused
        if usd:
            task = asyncio.create_task(self._synchronize(reservation.accounts))
            self._saving.add(task)
            task.add_done_callback(self._saving.discard)

    async def aclose(self) -> None:
        """Wait until everything is stored, or could not be."""
        await asyncio.gather(*self._saving)
        async with self._store_lock:
            if any(self._unsaved.values()):
                await self._store_and_read(tuple(self._unsaved))

    def _count_spent(self, name: str) -> float:
        return self._stored.get(name, 0.0) + self._unsaved[name]

    def _report(self, accounts: Mapping[str, _Account]) -> None:
        for name, account in accounts.items():
            self._metrics.set(BUDGET_SPENT, self._count_spent(name) / account.limit if account.limit else 1.0, name)

    def _begin_day(self) -> None:
        """Reset the sums if a new day (UTC) has begun. Spending of the old day that could not be stored is lost."""
        today = self._clock().date().isoformat()
        if today != self._day:
            self._day, self._stored = today, {}
            self._unsaved.clear()

    def _is_fresh(self, names: Collection[str]) -> bool:
        """Return whether the sums of all processes were asked for within REFRESH_S."""
        now = self._clock()
        is_recent = 0 <= (now - self._refreshed).total_seconds() <= REFRESH_S  # not if the clock was set back
        return is_recent and now.date().isoformat() == self._day and self._stored.keys() >= set(names)

    async def _synchronize(self, names: Collection[str]) -> None:
        """Store unsaved spending, and read the sums of all processes.

        A call that waited for another call does nothing if the other call has done the same work or has failed. So a store that
        hangs delays all waiting calls once, not one after the other.
        """
        async with self._store_lock:
            is_saved = not any(self._unsaved[name] for name in names)
            if not self._is_fresh(names) or not (is_saved or self._store_fails):
                await self._store_and_read(names)

    async def _store_and_read(self, names: Iterable[str]) -> None:
        self._begin_day()
        today = self._day
        amounts = {name: self._unsaved[name] for name in {*names, *self._stored}}
        self._refreshed = self._clock()
        try:
            sums = await self._store.add(today, amounts, self._stored)
        except SpendingStoreError as error:
            if not self._store_fails:
                log.warning("spending is counted by this process alone", extra={"reason": error.message})
            self._store_fails = True
            self._stored = dict.fromkeys(amounts, 0.0) | self._stored
            return
        finally:
            self._refreshed = self._clock()
        self._store_fails = False
        if today != self._day:
            return  # midnight has passed meanwhile
        self._stored.update(sums)
        for name, usd in amounts.items():
            self._unsaved[name] -= usd

    def _make_refusal(self, text: str, name: str, account: _Account) -> DailyBudgetError:
        self._metrics.count(BUDGET_REFUSALS, name)
        now = self._clock()
        midnight = datetime.combine(now.date() + timedelta(days=1), datetime.min.time(), UTC)
        wait_s = (midnight - now).total_seconds() if text is SPENT else None
        return DailyBudgetError(text.format(setting=account.setting, limit=account.limit), retry_after_s=wait_s)


class ModelBudget:
    """Applies the daily budget to one priced model. Every attempt counts, including failed ones."""

    def __init__(self, budget: DailyBudget, price: Price) -> None:
        self._budget = budget
        self._price = price

    @asynccontextmanager
    async def call(self, request: LLMRequest) -> AsyncIterator[ModelAccount]:
        """Reserve the maximum cost of one call, and settle it when the block ends.

        The block adds the parts of the answer to the account. Raises DailyBudgetError if a limit does not allow the call.
        """
        tokens = estimate_prompt_tokens(request)
        reservation = await self._budget.reserve(
            self._price(tokens, request.choices * (request.max_tokens or DEFAULT_MAX_ANSWER_TOKENS))
        )
        account = ModelAccount()
        try:
            yield account
        except LLMException as error:
            account.spent = error.spent
            raise
        finally:
            self._budget.settle(reservation, self._compute_cost(account, tokens))

    def _compute_cost(self, account: ModelAccount, tokens: int) -> float:
        """Return the reported cost. For an interrupted call, return the cost of its prompt and of the received tokens."""
        spent = account.spent
        if spent is None:
            return self._price(tokens, count_tokens("".join(account.text)))
        known = spent.cost_usd
        return self._price(spent.prompt_tokens, spent.completion_tokens) if known is None else known


@dataclass(slots=True)
class ModelAccount:
    """The text and the cost of one call. `spent` is None until the call ends."""

    spent: Spending | None = None
    text: list[str] = field(default_factory=list)

    def add(self, part: LLMStreamPart) -> None:
        if isinstance(part, LLMToken):
            self.text.append(part.text + part.reasoning)
        elif isinstance(part, LLMResponse):
            self.spent = part.spent
