"""The rate limiter of one service: calls in a window, calls at once, their order, and closed times."""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.cases import for_each
from tests.support.growth import SLACK, TRIES

from modules.llm_platform.domain.exceptions import WebSearchBlockedError
from modules.llm_platform.infrastructure.limits.upstream_limits import (
    CALL_S,
    MAX_CLOSED_S,
    MINUTE_S,
    CircuitBreaker,
    RateLimiter,
    Refused,
)

END_S = 1e9
IDLE_STEPS = 20  # steps of the event loop, after which every runnable task has run


class FakeTime:
    """A clock that jumps to the next alarm when all tasks sleep."""

    def __init__(self) -> None:
        self.now = 0.0
        self._alarms: list[tuple[float, int, asyncio.Future[None]]] = []
        self._count = 0

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self._count += 1
        alarm: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._alarms, (self.now + seconds, self._count, alarm))
        await alarm

    async def settle(self) -> None:
        for _ in range(IDLE_STEPS):
            await asyncio.sleep(0)

    async def until(self, moment: float) -> None:
        """Advance the clock to this moment."""
        await self.settle()
        while self._alarms and self._alarms[0][0] <= moment:
            when, _, alarm = heapq.heappop(self._alarms)
            self.now = max(self.now, when)
            if not alarm.done():
                alarm.set_result(None)
            await self.settle()
        self.now = max(self.now, moment)


@asynccontextmanager
async def slot(limiter: RateLimiter, max_wait_s: float, *closed_s: Callable[[], float]) -> AsyncIterator[None]:
    await limiter.acquire(max_wait_s, *closed_s)
    try:
        yield
    finally:
        limiter.release()


@dataclass
class Callers:
    """The callers of one limiter: when each arrives, how long its call lasts, and when it started."""

    rate: float | None
    per_s: float = 1.0
    max_concurrent: int = 100
    time: FakeTime = field(default_factory=FakeTime)
    starts: dict[int, float] = field(default_factory=dict)
    peak: int = 0

    def __post_init__(self) -> None:
        self.limiter = RateLimiter(
            self.rate, self.per_s, max_concurrent=self.max_concurrent, clock=self.time.clock, sleep=self.time.sleep
        )
        self.circuit = CircuitBreaker("fake", clock=self.time.clock)
        self._running = 0

    def close_for(self, seconds: float) -> None:
        """The service asks for no calls for this time."""
        self.circuit.cool_down("fake", WebSearchBlockedError(retry_after_s=seconds))

    async def call(self, number: int, lasts_s: float = 0.0, max_wait_s: float = END_S) -> None:
        async with slot(self.limiter, max_wait_s, self.circuit.closed_s):
            self.starts[number] = self.time.now
            self._running += 1
            self.peak = max(self.peak, self._running)
            if lasts_s:
                await self.time.sleep(lasts_s)
            self._running -= 1

    async def arrive(self, arrivals: Sequence[tuple[float, float]]) -> None:
        """Each caller arrives at its time, and its call lasts for its time."""
        tasks = []
        for number, (arrival, lasts_s) in enumerate(arrivals):
            await self.time.until(arrival)
            tasks.append(asyncio.create_task(self.call(number, lasts_s)))
        await self.time.until(END_S)
        await asyncio.gather(*tasks)


def expected(arrivals: Sequence[tuple[float, float]], burst: int, window_s: float, positions: int) -> list[float]:
    """Return a reference implementation: in order of arrival, each as early as the rules admit."""
    starts: list[float] = []
    leaves: list[float] = []
    for arrival, lasts_s in arrivals:
        start = max(arrival, starts[-1] if starts else 0.0)
        if len(starts) >= burst:
            start = max(start, starts[-burst] + window_s)
        while sum(leave > start for leave in leaves) >= positions:
            start = min(leave for leave in leaves if leave > start)
        starts.append(start)
        leaves.append(start + lasts_s)
    return starts


quarters = st.integers(0, 40).map(lambda number: number / 4)  # exact in binary, so that equal means equal


@settings(deadline=None, max_examples=60)
@given(
    rate=st.sampled_from([0.25, 0.5, 1.0, 2.0, 4.0]),
    max_concurrent=st.integers(1, 5),
    calls=st.lists(st.tuples(quarters, quarters), max_size=12),
)
def test_each_call_starts_as_early_as_the_rules_admit(
    rate: float, max_concurrent: int, calls: list[tuple[float, float]]
) -> None:
    """No later and no earlier than rate, slots and order of arrival say."""
    arrivals = sorted(calls, key=lambda call: call[0])
    burst = max(1, int(rate))
    positions = max(max_concurrent, int(rate * CALL_S))

    async def run() -> Callers:
        callers = Callers(rate, max_concurrent=max_concurrent)
        await callers.arrive(arrivals)
        return callers

    made = asyncio.run(run())
    assert [made.starts[number] for number in range(len(arrivals))] == expected(
        arrivals, burst, burst / rate, positions
    )
    assert made.peak <= positions


async def test_ten_a_minute() -> None:
    """Ten calls start at once, the next ten a minute later."""
    callers = Callers(10, MINUTE_S)
    await callers.arrive([(0.0, 0.0)] * 25)
    assert list(callers.starts.values()) == [0.0] * 10 + [60.0] * 10 + [120.0] * 5


async def test_concurrent_calls_are_limited() -> None:
    """Without a rate, no more than `max_concurrent` calls run at once."""
    callers = Callers(None, max_concurrent=3)
    await callers.arrive([(0.0, 10.0)] * 7)
    assert callers.peak == 3
    assert list(callers.starts.values()) == [0.0] * 3 + [10.0] * 3 + [20.0]


async def test_a_high_rate_gets_more_slots() -> None:
    """A rate of a hundred a second raises the number of concurrent calls."""
    callers = Callers(100, max_concurrent=8)
    await callers.arrive([(0.0, 1.0)] * 100)
    assert callers.peak == 100


async def test_a_cancelled_wait_uses_no_start() -> None:
    """The callers after a cancelled one move up."""
    callers = Callers(0.5)
    tasks = [asyncio.create_task(callers.call(number)) for number in range(4)]
    await callers.time.settle()
    tasks[1].cancel()
    await callers.time.until(END_S)
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(outcomes[1], asyncio.CancelledError)
    assert callers.starts == {0: 0.0, 2: 2.0, 3: 4.0}


async def test_a_cancelled_call_frees_its_slot() -> None:
    """A slot is released however its call ends."""
    callers = Callers(None, max_concurrent=1)
    first = asyncio.create_task(callers.call(0, 50.0))
    second = asyncio.create_task(callers.call(1))
    await callers.time.until(5.0)
    first.cancel()
    await second
    assert callers.starts == {0: 0.0, 1: 5.0}


@pytest.mark.parametrize("leaves", ["refused", "cancelled"])
async def test_a_caller_that_leaves_before_its_start_occupies_no_slot(leaves: str) -> None:
    """However many callers are refused or cancelled while they wait, the service is called again."""
    callers = Callers(0.5, max_concurrent=2)
    await callers.call(0)
    for _ in range(5):
        waiting = asyncio.create_task(callers.call(1, max_wait_s=5.0))
        await callers.time.settle()
        if leaves == "refused":
            callers.close_for(20.0)
        else:
            waiting.cancel()
        await callers.time.until(callers.time.now + 30.0)
        left = Refused if leaves == "refused" else asyncio.CancelledError
        with pytest.raises(left):
            await waiting
        callers.limiter._starts.append(callers.time.now)  # the next caller has to wait, too
    await callers.time.until(callers.time.now + 30.0)
    await callers.call(2, max_wait_s=1.0)
    assert 2 in callers.starts


@for_each(("waiting", "wait_s"), [(1, 2.0), (2, 4.0), (5, 10.0)])
async def test_a_wait_that_is_too_long_is_refused_at_once(waiting: int, wait_s: float) -> None:
    """The error names the wait; the other callers are not affected."""
    callers = Callers(0.5)
    tasks = [asyncio.create_task(callers.call(number)) for number in range(waiting)]
    await callers.time.settle()
    with pytest.raises(Refused) as caught:
        await callers.call(99, max_wait_s=wait_s - 0.5)
    assert caught.value.wait_s == wait_s
    assert callers.time.now == 0.0
    await callers.time.until(END_S)
    await asyncio.gather(*tasks)
    assert len(callers.starts) == waiting


async def test_the_computed_wait_counts_full_windows() -> None:
    """Behind 25 callers at ten a minute the wait is two minutes."""
    callers = Callers(10, MINUTE_S)
    tasks = [asyncio.create_task(callers.call(number)) for number in range(25)]
    await callers.time.settle()
    with pytest.raises(Refused) as caught:
        await callers.call(99, max_wait_s=100.0)
    assert caught.value.wait_s == 120.0
    await callers.time.until(END_S)
    await asyncio.gather(*tasks)


async def test_a_wait_for_a_slot_ends_in_time() -> None:
    """The duration of a call is not known beforehand: the wait for a slot ends after `max_wait_s`."""
    limiter = RateLimiter(None, max_concurrent=1)

    async def occupy() -> None:
        async with slot(limiter, 1.0):
            await asyncio.sleep(30.0)

    running = asyncio.create_task(occupy())
    await asyncio.sleep(0)
    with pytest.raises(Refused):
        async with slot(limiter, 0.01):
            raise AssertionError("no slot was free")
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    async with slot(limiter, 0.01):
        pass  # the slot is free again, and the caller that gave up occupies none


async def test_closing_applies_to_waiting_callers() -> None:
    """A caller that sleeps also waits for the new time; one that accepts no such wait is refused."""
    callers = Callers(0.5)
    await callers.call(0)
    waiting = asyncio.create_task(callers.call(1))
    impatient = asyncio.create_task(callers.call(2, max_wait_s=10.0))
    await callers.time.until(1.0)
    callers.close_for(20.0)
    await callers.time.until(END_S)
    await waiting
    with pytest.raises(Refused):
        await impatient
    assert callers.starts == {0: 0.0, 1: 21.0}


async def test_the_longest_closing_counts() -> None:
    """A second, shorter time changes nothing; an absurd one is cut to an hour."""
    callers = Callers(None)
    callers.close_for(30.0)
    callers.close_for(1.0)
    with pytest.raises(Refused) as caught:
        await callers.call(0, max_wait_s=0.0)
    assert caught.value.wait_s == 30.0
    callers.close_for(1e9)
    with pytest.raises(Refused) as caught:
        await callers.call(0, max_wait_s=0.0)
    assert caught.value.wait_s == MAX_CLOSED_S


async def test_the_limiter_sleeps_on_the_real_clock() -> None:
    """24 calls at twenty a second take a second."""
    limiter = RateLimiter(20, max_concurrent=1)
    began = time.monotonic()

    async def call() -> None:
        async with slot(limiter, 5.0):
            pass

    await asyncio.gather(*(call() for _ in range(24)))
    assert time.monotonic() - began >= 1.0


async def test_a_limit_that_is_never_reached_costs_nothing() -> None:
    """Memory grows with the calls only, and the time of a call does not grow with the calls before it."""

    async def seconds(calls: int) -> float:
        limiter = RateLimiter(600_000, MINUTE_S, max_concurrent=4)
        began = time.thread_time()
        for _ in range(calls):
            async with slot(limiter, 1.0):
                pass
        assert len(limiter._starts) <= calls
        return time.thread_time() - began

    few = min([await seconds(500) for _ in range(TRIES)])
    assert min([await seconds(5000) for _ in range(TRIES)]) <= SLACK * 10 * few
