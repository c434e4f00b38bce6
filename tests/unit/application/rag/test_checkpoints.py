"""application/rag/checkpoints.py"""

from __future__ import annotations

import pytest

from modules.llm_platform.application.rag.checkpoints import CHECKPOINT_COST_FACTOR, Checkpoints


class World:
    """A clock, and a store whose finishing takes a while."""

    def __init__(self, cost_s: float = 0.0) -> None:
        self.now, self.cost_s, self.finished = 0.0, cost_s, 0

    async def finish(self) -> None:
        self.now += self.cost_s
        self.finished += 1


async def test_it_is_made_safe_after_some_time_and_not_before() -> None:
    """And only once for the same work."""
    world = World()
    checkpoints = Checkpoints(world.finish, 20, lambda: world.now)
    for now, finished in ((0, 0), (19, 0), (20, 1), (20, 1), (39, 1), (40, 2)):
        world.now = now
        checkpoints.record_write()
        await checkpoints.finish_if_due()
        assert world.finished == finished, now


async def test_nothing_written_nothing_to_make_safe() -> None:
    """After a checkpoint the next one waits for a write."""
    world = World()
    checkpoints = Checkpoints(world.finish, 20, lambda: world.now)
    for world.now in (20, 40, 60):
        await checkpoints.finish_if_due()
    assert world.finished == 1


async def test_expensive_checkpoints_are_rare() -> None:
    """After a checkpoint of ten seconds the next one follows after a hundred.

    The first write after a checkpoint counts as part of its cost.
    """
    world = World(cost_s=4)
    checkpoints = Checkpoints(world.finish, 20, lambda: world.now)
    world.now = 20
    await checkpoints.finish_if_due()
    world.now += 6
    checkpoints.record_write()
    due = world.now + 10 * CHECKPOINT_COST_FACTOR
    world.now = due - 1
    await checkpoints.finish_if_due()
    assert world.finished == 1
    world.now = due
    await checkpoints.finish_if_due()
    assert world.finished == 2


async def test_a_failure_is_not_hidden() -> None:
    """What could not be made safe is an error."""

    async def finish() -> None:
        raise ValueError("the disk is full")

    with pytest.raises(ValueError, match="disk"):
        await Checkpoints(finish, 0).finish_if_due()
