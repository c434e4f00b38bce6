"""domain/concurrency/task_group.py"""

from __future__ import annotations

import asyncio

import pytest

from modules.llm_platform.domain.concurrency.task_group import gather_all


async def test_all_of_them_or_the_first_error() -> None:
    """An error ends the others, and none is under way when it is raised."""
    done: list[int] = []

    async def step(number: int, seconds: float) -> None:
        await asyncio.sleep(seconds)
        if number == 1:
            raise ValueError("it broke")
        done.append(number)

    await gather_all(step(number, 0) for number in (0, 2, 3))
    assert sorted(done) == [0, 2, 3]
    with pytest.raises(ValueError, match="it broke"):
        await gather_all(step(number, number / 100 if number < 2 else 60) for number in (1, 4, 5))
    assert asyncio.all_tasks() == {asyncio.current_task()}
