"""Nobody works for a caller who has hung up, and nobody is stopped who should not be."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from modules.llm_platform.presentation.rest.problems import ClientGoneError
from modules.llm_platform.presentation.rest.sse import CancelOnDisconnect


def caller(hangs_up_after_s: float | None) -> Any:
    """A `receive` that tells of the (empty) body first."""
    told = False

    async def receive() -> dict[str, Any]:
        nonlocal told
        if not told:
            told = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await asyncio.sleep(60 if hangs_up_after_s is None else hangs_up_after_s)
        return {"type": "http.disconnect"}

    return receive


async def test_a_caller_who_stays() -> None:
    """The block runs to its end, and nothing is left running."""
    async with CancelOnDisconnect(caller(None)):
        await asyncio.sleep(0.01)
    await asyncio.sleep(0)
    assert len(asyncio.all_tasks()) == 1
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_a_caller_who_hangs_up() -> None:
    """The block is cancelled at once, and the reason is told as an error of its own."""
    began = asyncio.get_running_loop().time()
    cancelled = False
    with pytest.raises(ClientGoneError):
        async with CancelOnDisconnect(caller(0.01)):
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                cancelled = True
                raise
    assert cancelled
    assert asyncio.get_running_loop().time() - began < 1
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_cancelled_from_outside() -> None:
    """Somebody else's cancellation stays one: a stopping server is not mistaken for a caller who left."""

    async def work() -> None:
        async with CancelOnDisconnect(caller(None)):
            await asyncio.sleep(60)

    task = asyncio.create_task(work())
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_error_of_the_block_comes_first() -> None:
    """An error that strikes while the caller leaves is not hidden."""
    with pytest.raises(ValueError, match="mine"):
        async with CancelOnDisconnect(caller(0.0)):
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                raise ValueError("mine") from None

