"""The turns of one service: how many in a window, how many at once, in which order, and when nobody."""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.growth import SLACK, TRIES

from modules.llm_platform.infrastructure.policies.rate_limits import (
    LONGEST_CLOSURE_S,
    MINUTE_S,
    OPEN_FOR_S,
    RateLimited,
    RateLimiter,
)
from shared.exceptions import AppException

PATIENT_S = 1e9
IDLE_STEPS = 20  # of the event loop, after which everybody who can go on has gone on


class FakeTime:
    """A clock that jumps to the next alarm when everybody sleeps."""

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
        """Let everything happen that happens before this moment."""
        await self.settle()
        while self._alarms and self._alarms[0][0] <= moment:
            when, _, alarm = heapq.heappop(self._alarms)
            self.now = max(self.now, when)
            if not alarm.done():
                alarm.set_result(None)
            await self.settle()
        self.now = max(self.now, moment)


@dataclass
class Scene:
    """Callers of one pace: when each came, how long its call lasts, and when it was let in."""

    rate: float | None
    per_s: float = 1.0
    at_once: int = 100
    time: FakeTime = field(default_factory=FakeTime)
    starts: dict[int, float] = field(default_factory=dict)
    most_at_once: int = 0

    def __post_init__(self) -> None:
        self.pace = RateLimiter(self.rate, self.per_s, at_once=self.at_once, clock=self.time.clock, sleep=self.time.sleep)
        self._running = 0

    async def call(self, number: int, lasts_s: float = 0.0, longest_s: float = PATIENT_S) -> None:
        async with self.pace.turn(longest_s):
            self.starts[number] = self.time.now
            self._running += 1
            self.most_at_once = max(self.most_at_once, self._running)
            if lasts_s:
                await self.time.sleep(lasts_s)
            self._running -= 1

    async def come(self, arrivals: Sequence[tuple[float, float]]) -> None:
        """Each comes at its time and stays for its time."""
        tasks = []
        for number, (arrival, lasts_s) in enumerate(arrivals):
            await self.time.until(arrival)
            tasks.append(asyncio.create_task(self.call(number, lasts_s)))
        await self.time.until(PATIENT_S)
        await asyncio.gather(*tasks)


def played(scene: Callable[[], Awaitable[Any]]) -> Any:
    async def play() -> Any:
        return await scene()

    return asyncio.run(play())


def expected(arrivals: Sequence[tuple[float, float]], burst: int, window_s: float, places: int) -> list[float]:
    """What a person with a pencil would write down: in order of arrival, each as early as the rules admit."""
    starts: list[float] = []
    leaves: list[float] = []
    for arrival, lasts_s in arrivals:
        start = max(arrival, starts[-1] if starts else 0.0)
        if len(starts) >= burst:
            start = max(start, starts[-burst] + window_s)
        while sum(leave > start for leave in leaves) >= places:
            start = min(leave for leave in leaves if leave > start)
        starts.append(start)
        leaves.append(start + lasts_s)
    return starts


quarters = st.integers(0, 40).map(lambda number: number / 4)  # exact in binary, so that equal means equal


@settings(deadline=None, max_examples=60)
@given(
    rate=st.sampled_from([0.25, 0.5, 1.0, 2.0, 4.0]),
    at_once=st.integers(1, 5),
    calls=st.lists(st.tuples(quarters, quarters), max_size=12),
)
def test_everybody_starts_as_early_as_the_rules_admit(
    rate: float, at_once: int, calls: list[tuple[float, float]]
) -> None:
    """No later and no earlier than rate, places and the order of asking say, whoever comes when and stays how long."""
    arrivals = sorted(calls, key=lambda call: call[0])
    burst = max(1, int(rate))
    places = max(at_once, int(rate * OPEN_FOR_S))

    async def scene() -> Scene:
        made = Scene(rate, at_once=at_once)
        await made.come(arrivals)
        return made

    made = played(scene)
    assert [made.starts[number] for number in range(len(arrivals))] == expected(arrivals, burst, burst / rate, places)
    assert made.most_at_once <= places


async def test_ten_a_minute() -> None:
    """Ten come at once, the others a minute after those before them."""
    scene = Scene(10, MINUTE_S)
    await scene.come([(0.0, 0.0)] * 25)
    assert list(scene.starts.values()) == [0.0] * 10 + [60.0] * 10 + [120.0] * 5


async def test_a_slow_service_is_not_asked_by_many() -> None:
    """However few the starts, no more than `at_once` calls are under way."""
    scene = Scene(None, at_once=3)
    await scene.come([(0.0, 10.0)] * 7)
    assert scene.most_at_once == 3
    assert list(scene.starts.values()) == [0.0] * 3 + [10.0] * 3 + [20.0]


async def test_a_high_rate_has_the_places_that_it_needs() -> None:
    """Who allows a hundred a second does not mean eight at once."""
    scene = Scene(100, at_once=8)
    await scene.come([(0.0, 1.0)] * 100)
    assert scene.most_at_once == 100


async def test_who_leaves_the_line_leaves_the_turn_to_the_next() -> None:
    """A cancelled wait takes nobody's time."""
    scene = Scene(0.5)
    tasks = [asyncio.create_task(scene.call(number)) for number in range(4)]
    await scene.time.settle()
    tasks[1].cancel()
    await scene.time.until(PATIENT_S)
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(outcomes[1], asyncio.CancelledError)
    assert scene.starts == {0: 0.0, 2: 2.0, 3: 4.0}


async def test_who_is_cancelled_at_work_leaves_the_place_to_the_next() -> None:
    """A place is given back however its call ends."""
    scene = Scene(None, at_once=1)
    first = asyncio.create_task(scene.call(0, 50.0))
    second = asyncio.create_task(scene.call(1))
    await scene.time.until(5.0)
    first.cancel()
    await second
    assert scene.starts == {0: 0.0, 1: 5.0}


@pytest.mark.parametrize(("waiting", "foreseen_s"), [(1, 2.0), (2, 4.0), (5, 10.0)])
async def test_a_wait_that_is_too_long_is_foreseen(waiting: int, foreseen_s: float) -> None:
    """Who would wait longer than wanted is told at once, and how long it would have been; the others are not disturbed."""
    scene = Scene(0.5)
    tasks = [asyncio.create_task(scene.call(number)) for number in range(waiting)]
    await scene.time.settle()
    with pytest.raises(RateLimited) as caught:
        await scene.call(99, longest_s=foreseen_s - 0.5)
    assert caught.value.wait_s == foreseen_s
    assert scene.time.now == 0.0
    await scene.time.until(PATIENT_S)
    await asyncio.gather(*tasks)
    assert len(scene.starts) == waiting


async def test_foreseeing_counts_whole_windows() -> None:
    """Behind 25 who may go ten a minute one waits two minutes."""
    scene = Scene(10, MINUTE_S)
    tasks = [asyncio.create_task(scene.call(number)) for number in range(25)]
    await scene.time.settle()
    with pytest.raises(RateLimited) as caught:
        await scene.call(99, longest_s=100.0)
    assert caught.value.wait_s == 120.0
    await scene.time.until(PATIENT_S)
    await asyncio.gather(*tasks)


async def test_a_place_that_does_not_come_free_in_time() -> None:
    """How long a call lasts cannot be foreseen: the wait for a place ends when it is too long."""
    pace = RateLimiter(None, at_once=1)

    async def hold() -> None:
        async with pace.turn(1.0):
            await asyncio.sleep(30.0)

    holder = asyncio.create_task(hold())
    await asyncio.sleep(0)
    with pytest.raises(RateLimited):
        async with pace.turn(0.01):
            raise AssertionError("there was no place")
    holder.cancel()
    await asyncio.gather(holder, return_exceptions=True)
    async with pace.turn(0.01):
        pass  # the place is there again, and nobody who gave up holds another


async def test_a_retry_after_holds_for_those_who_wait_already() -> None:
    """A closing that comes while one sleeps is slept out too; who cannot wait so long goes."""
    scene = Scene(0.5)
    await scene.call(0)
    patient = asyncio.create_task(scene.call(1))
    hurried = asyncio.create_task(scene.call(2, longest_s=10.0))
    await scene.time.until(1.0)
    scene.pace.heed(AppException(retry_after_s=20.0))
    await scene.time.until(PATIENT_S)
    await patient
    with pytest.raises(RateLimited):
        await hurried
    assert scene.starts == {0: 0.0, 1: 21.0}


async def test_the_longer_closing_counts() -> None:
    """A second, shorter Retry-After opens nothing; one that is absurd is looked at again after an hour; none closes nothing."""
    scene = Scene(None)
    scene.pace.heed(AppException(retry_after_s=30.0))
    scene.pace.heed(AppException(retry_after_s=1.0))
    scene.pace.heed(AppException())
    with pytest.raises(RateLimited) as caught:
        await scene.call(0, longest_s=0.0)
    assert caught.value.wait_s == 30.0
    scene.pace.heed(AppException(retry_after_s=1e12))
    with pytest.raises(RateLimited) as caught:
        await scene.call(0, longest_s=0.0)
    assert caught.value.wait_s == LONGEST_CLOSURE_S


async def test_on_the_real_clock() -> None:
    """Four calls at twenty a second, of which one window has passed: the sleeping is real."""
    pace = RateLimiter(20, at_once=1)
    began = time.monotonic()

    async def call() -> None:
        async with pace.turn(5.0):
            pass

    await asyncio.gather(*(call() for _ in range(24)))
    assert 1.0 <= time.monotonic() - began < 15.0  # the rest is a busy machine's


async def test_a_rate_that_is_never_reached_costs_nothing() -> None:
    """Neither memory for the turns that nobody takes, nor more time for a turn the more there were before it."""

    async def seconds(turns: int) -> float:
        pace = RateLimiter(600_000, MINUTE_S, at_once=4)
        began = time.thread_time()
        for _ in range(turns):
            async with pace.turn(1.0):
                pass
        assert len(pace._starts) <= turns
        return time.thread_time() - began

    few = min([await seconds(500) for _ in range(TRIES)])
    assert min([await seconds(5000) for _ in range(TRIES)]) <= SLACK * 10 * few
