"""The clock of tests in virtual time moves when all tasks wait, and by what they wait for."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest
from tests.support import virtual_time
from tests.support.virtual_time import in_virtual_time

DAY_S = 86_400.0


def now() -> float:
    return asyncio.get_running_loop().time()


@in_virtual_time
async def test_waiting_moves_the_clock_and_work_does_not() -> None:
    """A day passes at once; tasks wake in the order of their times."""
    woken: list[str] = []

    async def wake(name: str, after_s: float) -> None:
        await asyncio.sleep(after_s)
        woken.append(name)

    await asyncio.gather(wake("late", DAY_S), wake("early", 1.0))
    time.sleep(0.01)
    assert (woken, now()) == (["early", "late"], pytest.approx(DAY_S))


@in_virtual_time
async def test_a_timeout_comes_at_its_time() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(30.0):
            await asyncio.Event().wait()
    assert now() == pytest.approx(30.0)


@in_virtual_time
async def test_work_in_a_thread_ends_before_a_timeout() -> None:
    """A thread that the system lets wait is no slower than one that runs at once."""
    goes_on = threading.Event()
    threading.Timer(0.05, goes_on.set).start()
    async with asyncio.timeout(0.001):
        assert await asyncio.to_thread(goes_on.wait, 30)
    assert now() == 0.0


def test_a_deadlock_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no timer is left the test ends, rather than hang."""
    monkeypatch.setattr(virtual_time, "THREAD_S", 0.0)

    @in_virtual_time
    async def waits_for_nobody() -> None:
        await asyncio.Event().wait()

    with pytest.raises(AssertionError, match="never end"):
        waits_for_nobody()
