"""A caller asks a run to end its search: blocks end at once, but not before something was found, and not after the search."""

from __future__ import annotations

import asyncio

import pytest

from modules.llm_platform.domain.concurrency.early_finish import EarlyFinish, SharedEarlyFinish


async def waits(early_finish: EarlyFinish) -> asyncio.Task[str]:
    """Return a task that waits for ever in a limited block, once it does."""
    begun = asyncio.Event()

    async def wait() -> str:
        try:
            async with early_finish.limit():
                begun.set()
                await asyncio.Event().wait()
        except TimeoutError:
            return "ended"
        raise AssertionError

    task = asyncio.create_task(wait())
    await begun.wait()
    return task


@pytest.mark.parametrize("calls", [("ask", "found"), ("found", "ask")])
async def test_blocks_end_when_it_was_asked_and_something_is_found(calls: tuple[str, str]) -> None:
    """A block ends when the finish is requested and a result exists, in any order. A later block ends at once."""
    early_finish = EarlyFinish()
    task = await waits(early_finish)
    getattr(early_finish, calls[0])()
    await asyncio.sleep(0)
    assert not early_finish.is_due
    getattr(early_finish, calls[1])()
    assert early_finish.is_due
    assert await task == "ended"
    assert await (await waits(early_finish)) == "ended"
    early_finish.ask()  # nothing happens twice


async def test_after_the_search_nothing_ends() -> None:
    """Writing is what the request asks for, so it is not interrupted."""
    early_finish = EarlyFinish()
    early_finish.found()
    early_finish.close()
    early_finish.ask()
    assert not early_finish.is_due


async def test_a_block_that_has_ended_is_left_alone() -> None:
    """One that ran out of time, or is over, is no obstacle."""
    early_finish = EarlyFinish()
    early_finish.found()
    async with early_finish.limit():
        pass
    with pytest.raises(TimeoutError):
        async with early_finish.limit(asyncio.get_running_loop().time()):
            try:
                await asyncio.Event().wait()
            finally:
                early_finish.ask()
    assert early_finish.is_due


async def test_waiting_returns_what_is_done() -> None:
    """The finished tasks are returned, and the others continue."""
    early_finish = EarlyFinish()
    early_finish.found()
    gate = asyncio.Event()
    quick, slow = asyncio.create_task(asyncio.sleep(0)), asyncio.create_task(gate.wait())
    waiting = asyncio.create_task(early_finish.wait((quick, slow)))
    await quick
    early_finish.ask()
    assert await waiting == {quick}
    gate.set()
    assert await slow


async def test_shared_work_ends_when_all_have_asked() -> None:
    """One caller does not end the work of another one; a caller that has left does not count."""
    shared, one, other, third = SharedEarlyFinish(), EarlyFinish(), EarlyFinish(), EarlyFinish()
    shared.found()
    with shared.shared_by(one), shared.shared_by(other):
        one.ask()
        assert not shared.is_asked
        with shared.shared_by(third):
            other.ask()
            assert not shared.is_asked
        assert shared.is_due
    assert shared.callers == []
