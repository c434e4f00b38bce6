"""The daily budget of paid models: what counts, which calls are refused, and what survives a restart."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.fakes.metrics import MemoryMetrics
from tests.support.guards import guarded_model, router
from tests.support.virtual_time import in_virtual_time

from modules.llm_platform.domain.callers.api_key_label import set_api_key_label
from modules.llm_platform.domain.dtos.llm_dtos import (
    ChatMessage,
    LLMRequest,
    LLMResponse,
    LLMStreamPart,
    LLMToken,
    Spending,
)
from modules.llm_platform.domain.exceptions import DailyBudgetError, LLMUnavailableError, SpendingStoreError
from modules.llm_platform.domain.ports.spending_store import ISpendingStore
from modules.llm_platform.domain.telemetry.metrics import BUDGET_REFUSALS, BUDGET_SPENT
from modules.llm_platform.infrastructure.limits.daily_budget import REFRESH_S, DailyBudget, DailyLimits, ModelBudget
from modules.llm_platform.infrastructure.models.upstream_model import UpstreamModel
from modules.llm_platform.infrastructure.stores.spending.sqlite import SqliteSpendingStore
from modules.llm_platform.testing import FakeLLM
from modules.llm_platform.testing.waiting import START_TIMEOUT_S

REQUEST = LLMRequest(messages=(ChatMessage(role="user", content="hi"),), max_tokens=1000)
HANGS_S = 10.0
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


class Clock:
    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> datetime:
        return self.now


class AwayStore(ISpendingStore):
    async def add(self, day: str, amounts: Mapping[str, float], seen: Mapping[str, float]) -> Mapping[str, float]:
        raise SpendingStoreError


def answer(usd: float | None, text: str = "ok") -> LLMResponse:
    spent = Spending(calls=1, prompt_tokens=1, completion_tokens=1, cost_usd=usd)
    return LLMResponse(content=text, provider="fake", model="fake-1", spent=spent)


def price(prompt_tokens: int, completion_tokens: int) -> float:
    return (prompt_tokens + completion_tokens) / 1000  # a call of REQUEST can cost about a dollar


class Rig:
    def __init__(self, folder: Path, limits: DailyLimits, store: ISpendingStore | None = None) -> None:
        self.clock = Clock()
        self.store = store or SqliteSpendingStore(folder / "spending.sqlite3")
        self.metrics = MemoryMetrics()
        self.budget = DailyBudget(self.store, limits, self.clock, metrics=self.metrics)

    def llm(self, *answers: object, name: str = "fake") -> UpstreamModel:
        return guarded_model(FakeLLM(list(answers), name=name), budget=ModelBudget(self.budget, price))


async def test_calls_stop_when_the_budget_is_spent(tmp_path: Path) -> None:
    """The call that exceeds the limit is the last one. The error names the setting and the time until midnight UTC."""
    rig = Rig(tmp_path, DailyLimits(all=0.05))
    llm = rig.llm(answer(0.03), answer(0.03), answer(0.03))
    for _ in range(2):
        await llm.generate(REQUEST)
    with pytest.raises(DailyBudgetError, match=r"BUDGET_USD_PER_DAY \(0\.05") as refused:
        await llm.generate(REQUEST)
    assert (refused.value.retry_after_s, refused.value.status_code) == (12 * 3600, 429)
    assert refused.value.spent == Spending()


async def test_the_gauge_includes_the_last_call(tmp_path: Path) -> None:
    """The gauge includes the call that exceeds the budget at once, because a refused call may never follow."""
    rig = Rig(tmp_path, DailyLimits(all=0.05))
    await rig.llm(answer(0.06)).generate(REQUEST)
    assert rig.metrics.values[BUDGET_SPENT.name, "all"] == pytest.approx(1.2)


async def test_budget_is_full_again_at_midnight_utc(tmp_path: Path) -> None:
    """The next day starts with nothing spent."""
    rig = Rig(tmp_path, DailyLimits(all=0.05))
    llm = rig.llm(answer(0.05), answer(0.05))
    await llm.generate(REQUEST)
    rig.clock.now = NOON + timedelta(hours=12, seconds=-1)
    with pytest.raises(DailyBudgetError):
        await llm.generate(REQUEST)
    await rig.budget.aclose()
    rig.clock.now += timedelta(seconds=1)
    await llm.generate(REQUEST)


@pytest.mark.parametrize("away", ["always", "at midnight"])
async def test_budget_is_full_again_without_its_store(tmp_path: Path, away: str) -> None:
    """A failed store does not delay the reset at midnight, and later spending counts."""
    store = SqliteSpendingStore(tmp_path / "spending.sqlite3") if away == "at midnight" else AwayStore()
    rig = Rig(tmp_path, DailyLimits(all=0.05), store)
    llm = rig.llm(*[answer(0.05)] * 3)
    await llm.generate(REQUEST)
    await rig.budget.aclose()
    with pytest.raises(DailyBudgetError):
        await llm.generate(REQUEST)
    rig.budget._store = AwayStore()
    rig.clock.now = NOON + timedelta(hours=12)
    await llm.generate(REQUEST)
    with pytest.raises(DailyBudgetError):
        await llm.generate(REQUEST)
    await rig.budget.aclose()


async def test_a_call_that_ends_after_midnight_counts_for_the_new_day(tmp_path: Path) -> None:
    """Its cost is counted once, for the new day."""
    rig = Rig(tmp_path, DailyLimits(all=0.05))
    reservation = await rig.budget.reserve(0.05)
    rig.clock.now = NOON + timedelta(hours=12)
    rig.budget.settle(reservation, 0.05)
    await rig.budget.aclose()
    assert (await rig.store.add("2026-02-01", {"all": 0.0}, {}))["all"] == pytest.approx(0.05)
    with pytest.raises(DailyBudgetError):
        await rig.budget.reserve(0.01)


class SlowStore(ISpendingStore):
    """Answers each call with the sum of the day when `gate` is set; `asked` are the days."""

    def __init__(self) -> None:
        self.sums: dict[str, float] = {}
        self.asked: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def add(
        self, day: str, amounts: Mapping[str, float], seen: Mapping[str, float] | None = None
    ) -> Mapping[str, float]:
        self.asked.append(day)
        await self.gate.wait()
        return {name: self.sums.get(day, 0.0) + amount for name, amount in amounts.items()}


async def test_an_answer_of_the_store_about_yesterday_does_not_count_today(tmp_path: Path) -> None:
    """The store is asked before midnight and answers later. The new day still begins with nothing spent."""
    store = SlowStore()
    rig = Rig(tmp_path, DailyLimits(all=0.05), store)
    free = await rig.budget.reserve(0.0)
    store.sums = {"2026-01-31": 0.05}  # another process spends all
    store.gate.clear()
    rig.clock.now = NOON + timedelta(hours=12, seconds=-1)
    waiting = asyncio.create_task(rig.budget.reserve(0.01))
    async with asyncio.timeout(START_TIMEOUT_S):
        while len(store.asked) < 2:
            await asyncio.sleep(0)
    rig.clock.now += timedelta(seconds=1)
    rig.budget.settle(free, 0.0)  # the end of a call begins the day
    store.gate.set()
    await waiting
    await rig.budget.reserve(0.01)
    assert store.asked == ["2026-01-31", "2026-01-31", "2026-02-01"]


async def test_restart_keeps_the_sum(tmp_path: Path) -> None:
    """A new process reads the spending of the old one."""
    limits = DailyLimits(all=0.05)
    first = Rig(tmp_path, limits)
    await first.llm(answer(0.05)).generate(REQUEST)
    await first.budget.aclose()
    with pytest.raises(DailyBudgetError):
        await Rig(tmp_path, limits).llm(answer(0.0)).generate(REQUEST)


async def test_processes_share_the_sum(tmp_path: Path) -> None:
    """Another process sees the spending within seconds."""
    limits = DailyLimits(all=0.05)
    one, other = Rig(tmp_path, limits), Rig(tmp_path, limits)
    await other.llm(answer(0.0)).generate(REQUEST)
    await one.llm(answer(0.05)).generate(REQUEST)
    await one.budget.aclose()
    other.clock.now += timedelta(seconds=2)
    with pytest.raises(DailyBudgetError):
        await other.llm(answer(0.0)).generate(REQUEST)


async def test_a_store_that_loses_its_sums_gives_no_new_budget(tmp_path: Path) -> None:
    """The spending never falls below what this process has seen, including the spending of other processes."""
    limits, file = DailyLimits(all=0.05), tmp_path / "spending.sqlite3"
    rig, other = Rig(tmp_path, limits), Rig(tmp_path, limits)
    await other.llm(answer(0.03)).generate(REQUEST)
    await other.budget.aclose()
    await rig.llm(answer(0.02)).generate(REQUEST)
    await rig.budget.aclose()
    file.unlink()  # as a Redis that evicts the key
    rig.clock.now += timedelta(minutes=1)
    with pytest.raises(DailyBudgetError):
        await rig.llm(answer(0.01)).generate(REQUEST)
    other.clock.now += timedelta(minutes=1)
    with pytest.raises(DailyBudgetError):
        await other.llm(answer(0.01)).generate(REQUEST)


async def test_simultaneous_calls_do_not_exceed_the_budget_together(tmp_path: Path) -> None:
    """Calls under way count with the most that they can cost: 50 at once with a budget for 10 make at most 10."""
    rig = Rig(tmp_path, DailyLimits(all=10.5))
    gate = asyncio.Event()

    class Slow(FakeLLM):
        async def stream(self, request: LLMRequest) -> AsyncIterator[LLMStreamPart]:
            await gate.wait()
            yield answer(1.0)

    llm = guarded_model(Slow(), budget=ModelBudget(rig.budget, price))
    calls = [asyncio.create_task(llm.generate(REQUEST)) for _ in range(50)]
    done, running = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
    while len(done) < 40:
        more, running = await asyncio.wait(running, timeout=START_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED)
        assert more
        done |= more
    assert all(isinstance(call.exception(), DailyBudgetError) for call in done)
    gate.set()
    assert [await call for call in running] == [answer(1.0)] * 10


async def test_failed_and_interrupted_calls_count(tmp_path: Path) -> None:
    """A failed call counts its cost, and a closed stream its prompt and received tokens.

    Both release their reservation.
    """
    rig = Rig(tmp_path, DailyLimits(all=100.0))
    with pytest.raises(LLMUnavailableError):
        await rig.llm(LLMUnavailableError(spent=Spending(calls=1, cost_usd=0.25))).generate(REQUEST)
    async with aclosing(rig.llm("a long answer of many words").stream(REQUEST)) as parts:  # type: ignore[type-var]
        assert isinstance(await anext(parts), LLMToken)
    await rig.budget.aclose()
    sums = await rig.store.add(NOON.date().isoformat(), {"all": 0.0}, {})
    assert 0.25 < sums["all"] < 0.5
    assert not rig.budget._reserved["all"]


async def test_each_api_key_has_its_own_budget(tmp_path: Path) -> None:
    """A key that has spent its share is refused. Another key with a larger share and calls without a key are not."""
    rig = Rig(tmp_path, DailyLimits(each_key=0.01, keys={"alice": 1.0}))
    llm = rig.llm(*[answer(0.02)] * 5)

    async def call(label: str) -> LLMResponse:
        set_api_key_label(label)
        return await llm.generate(REQUEST)

    await asyncio.create_task(call("bob"))
    with pytest.raises(DailyBudgetError, match="BUDGET_USD_PER_DAY for bob"):
        await asyncio.create_task(call("bob"))
    await asyncio.create_task(call("alice"))
    await asyncio.create_task(call("alice"))
    await llm.generate(REQUEST)


async def test_without_its_store_the_process_counts_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The limit holds in the process, and one warning says so."""
    rig = Rig(tmp_path, DailyLimits(all=0.05), AwayStore())
    llm = rig.llm(answer(0.03), answer(0.03), answer(0.03))
    for _ in range(2):
        await llm.generate(REQUEST)
    with pytest.raises(DailyBudgetError):
        await llm.generate(REQUEST)
    await rig.budget.aclose()
    assert len([record for record in caplog.records if record.levelname == "WARNING"]) == 1


class HangingStore(AwayStore):
    """Fails after HANGS_S seconds."""

    async def add(self, day: str, amounts: Mapping[str, float], seen: Mapping[str, float]) -> Mapping[str, float]:
        await asyncio.sleep(HANGS_S)
        return await super().add(day, amounts, seen)


@in_virtual_time
async def test_calls_wait_for_a_store_that_hangs_once_together() -> None:
    """The twentieth call would wait for the store twenty times, and longer with each call that ends."""
    time = asyncio.get_running_loop().time
    budget = DailyBudget(HangingStore(), DailyLimits(all=0.5), lambda: NOON + timedelta(seconds=time()))

    async def call() -> None:
        budget.settle(await budget.reserve(0.01), 0.01)

    await asyncio.gather(*(call() for _ in range(20)))
    assert time() == pytest.approx(HANGS_S)
    await asyncio.sleep(2 * REFRESH_S)
    await asyncio.gather(*(call() for _ in range(20)))
    assert time() == pytest.approx(2 * HANGS_S + 2 * REFRESH_S)
    assert budget._count_spent("all") == pytest.approx(0.4)


async def test_what_a_failing_store_did_not_take_is_stored_at_the_end(tmp_path: Path) -> None:
    """A store that works again gets the sums, even without another call."""
    rig = Rig(tmp_path, DailyLimits(all=0.05))
    works, rig.budget._store = rig.budget._store, AwayStore()
    await rig.llm(answer(0.03)).generate(REQUEST)
    rig.budget._store = works
    await rig.budget.aclose()
    assert (await rig.store.add("2026-01-31", {"all": 0.0}, {}))["all"] == pytest.approx(0.03)


async def test_free_model_serves_when_the_budget_is_spent(tmp_path: Path) -> None:
    """The router uses a free model, names the budget in `degraded`, and does not open the paid model's circuit."""
    rig = Rig(tmp_path, DailyLimits(all=0.05))
    paid = rig.llm(answer(0.05), answer(0.01, "paid again"), name="paid")
    models = router(paid, FakeLLM(["free"] * 2, name="free", model="free-1"))
    await models.generate(REQUEST)
    found = await models.generate(REQUEST)
    assert (found.content, [degradation.component for degradation in found.degraded]) == ("free", ["budget/day"])
    assert found.degraded[0].reason.startswith("daily_budget: BUDGET_USD_PER_DAY (0.05")
    await rig.budget.aclose()
    rig.clock.now += timedelta(days=1)
    assert (await models.generate(REQUEST)).content == "paid again"


async def test_metrics_say_what_is_spent_and_refused(tmp_path: Path) -> None:
    """The spent part of each account that a call counts in, and the calls that one refused."""
    rig = Rig(tmp_path, DailyLimits(4.0, each_key=2.0))
    set_api_key_label("alice")
    llm = rig.llm(answer(1.0), answer(1.0))
    for spent in (0.5, 1.0):
        await llm.generate(REQUEST)
        assert rig.metrics.values[BUDGET_SPENT.name, "key:alice"] == spent
    with pytest.raises(DailyBudgetError):
        await llm.generate(REQUEST)
    assert rig.metrics.values[BUDGET_SPENT.name, "key:alice"] == 1.0
    assert rig.metrics.values[BUDGET_SPENT.name, "all"] == 0.5
    assert rig.metrics.values[BUDGET_REFUSALS.name, "key:alice"] == 1
    assert (BUDGET_REFUSALS.name, "all") not in rig.metrics.values
    set_api_key_label("")
    await rig.budget.aclose()
