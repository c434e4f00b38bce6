"""domain/concurrency/deadline.py"""

from __future__ import annotations

import asyncio
import math

import pytest

from modules.llm_platform.domain.concurrency.deadline import (
    Deadline,
    current_deadline,
    deadline_at,
    deadline_in,
    remaining_s,
)


async def test_without_a_deadline_there_is_no_end() -> None:
    assert (current_deadline(), remaining_s()) == (math.inf, math.inf)


async def test_the_earlier_of_two_deadlines_counts() -> None:
    """A stage within a stage has no more time than the outer one; after it the outer one counts again."""
    now = asyncio.get_running_loop().time()
    async with deadline_at(now + 50):
        async with deadline_at(now + 80):
            assert current_deadline() == now + 50
        async with deadline_at(now + 20):
            assert current_deadline() == now + 20
        assert current_deadline() == now + 50
    assert current_deadline() == math.inf


async def test_tasks_inherit_the_deadline() -> None:
    async def remaining() -> float:
        return remaining_s()

    async with deadline_in(30):
        assert 0 < await asyncio.create_task(remaining()) <= 30


async def test_the_block_is_cancelled_at_the_deadline() -> None:
    """And the deadline before it is back, also after an error."""
    with pytest.raises(TimeoutError):
        async with deadline_in(0.01):
            await asyncio.sleep(60)
    assert current_deadline() == math.inf


def test_a_deadline_is_extended_to_the_latest_one() -> None:
    """Of all callers of a shared call."""
    deadline = Deadline(5.0)
    deadline.extend(3.0)
    assert deadline.when == 5.0
    deadline.extend(9.0)
    assert deadline.when == 9.0
