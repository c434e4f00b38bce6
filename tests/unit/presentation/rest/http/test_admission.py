"""Admission of research runs: bounded slots, a bounded queue, and slots that are free again however a research run ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest
from tests.fakes.metrics import MemoryMetrics
from tests.support.cases import for_each

from modules.llm_platform.domain.telemetry.metrics import RESEARCHES_REFUSED, RESEARCHES_RUNNING, RESEARCHES_WAITING
from modules.llm_platform.presentation.rest.http.admission import ResearchAdmission
from modules.llm_platform.presentation.rest.http.problems import OverloadedError


async def occupy(admission: ResearchAdmission, until: asyncio.Event) -> None:
    async with admission.slot():
        await until.wait()


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_queue_is_bounded_in_number() -> None:
    """As many wait as run; one more is refused at once, and all admitted ones get their turn."""
    admission, end = ResearchAdmission(2), asyncio.Event()
    tasks = [asyncio.create_task(occupy(admission, end)) for _ in range(4)]
    await settled()
    assert (admission.running, admission.queued) == (2, 2)
    with pytest.raises(OverloadedError):
        await occupy(admission, end)
    end.set()
    await asyncio.gather(*tasks)
    assert (admission.running, admission.queued) == (0, 0)


async def test_queue_is_bounded_in_time() -> None:
    """A request that gets no slot in time is refused, and leaves the queue."""
    admission, end = ResearchAdmission(1, max_queue_s=0.01), asyncio.Event()
    running = asyncio.create_task(occupy(admission, end))
    await settled()
    with pytest.raises(OverloadedError):
        await occupy(admission, end)
    assert (admission.running, admission.queued) == (1, 0)
    end.set()
    await running


@pytest.mark.parametrize("waits", [False, True])
async def test_cancelled_request_returns_its_slot(waits: bool) -> None:
    """Also one that was cancelled in the queue, or at the moment when it got its slot."""
    admission, end = ResearchAdmission(1), asyncio.Event()
    first = asyncio.create_task(occupy(admission, end))
    second = asyncio.create_task(occupy(admission, end))
    await settled()
    cancelled, other = (second, first) if waits else (first, second)
    cancelled.cancel()
    if waits:
        end.set()  # the slot becomes free in the same turn of the loop
    await asyncio.wait([cancelled])
    end.set()
    await other
    assert (admission.running, admission.queued) == (0, 0)
    await occupy(admission, end)


async def test_error_returns_the_slot() -> None:
    """A failed research frees its slot."""
    admission = ResearchAdmission(1)
    for _ in range(3):
        with pytest.raises(ValueError, match="mine"):
            async with admission.slot():
                raise ValueError("mine")
    assert admission.running == 0


@for_each("read", [0, 1, 3])
async def test_closed_stream_returns_the_slot(read: int) -> None:
    """A stream occupies a slot from its first event until it ends or is closed, and closes its source."""
    admission, closed = ResearchAdmission(1), 0

    async def source() -> AsyncGenerator[int, None]:
        nonlocal closed
        try:
            for number in range(3):
                yield number
            await asyncio.Event().wait()
        finally:
            closed += 1

    async with aclosing(admission.admit(source())) as events:
        assert admission.running == 0
        for number in range(read):
            assert await anext(events) == number
        assert admission.running == (read > 0)
    assert (admission.running, closed) == (0, int(read > 0))


async def test_without_a_limit_all_run() -> None:
    """0: no limit."""
    admission, end = ResearchAdmission(0), asyncio.Event()
    tasks = [asyncio.create_task(occupy(admission, end)) for _ in range(100)]
    await settled()
    assert admission.running == 100
    end.set()
    await asyncio.gather(*tasks)


async def test_metrics_are_those_of_the_moment() -> None:
    """Running and waiting research runs at each report, and each refused one once."""
    admission, end, metrics = ResearchAdmission(1), asyncio.Event(), MemoryMetrics()
    tasks = [asyncio.create_task(occupy(admission, end)) for _ in range(2)]
    await settled()
    with pytest.raises(OverloadedError):
        await occupy(admission, end)
    for _ in range(2):
        admission.report(metrics)
        assert metrics.values == {
            (RESEARCHES_RUNNING.name,): 1,
            (RESEARCHES_WAITING.name,): 1,
            (RESEARCHES_REFUSED.name,): 1,
        }
    end.set()
    await asyncio.gather(*tasks)
    admission.report(metrics)
    assert metrics.values[RESEARCHES_RUNNING.name,] == metrics.values[RESEARCHES_WAITING.name,] == 0


async def test_slot_is_free_when_the_run_ends_though_its_events_wait() -> None:
    """A client that does not read them holds no slot; none of them is lost."""
    admission = ResearchAdmission(1)

    async def events() -> AsyncGenerator[int, None]:
        for number in range(100):
            yield number

    admitted = admission.admit(events())
    first = await anext(admitted)
    await settled()
    assert admission.running == 0
    assert [first, *[number async for number in admitted]] == list(range(100))


async def test_error_of_a_run_comes_behind_its_events() -> None:
    """As if the events had not been kept."""
    admission = ResearchAdmission(1)

    async def events() -> AsyncGenerator[int, None]:
        yield 1
        yield 2
        raise ValueError("upstream")

    admitted = admission.admit(events())
    assert [await anext(admitted), await anext(admitted)] == [1, 2]
    with pytest.raises(ValueError, match="upstream"):
        await anext(admitted)
    assert admission.running == 0
