"""CancelOnDisconnect cancels its block if the client disconnects, and only then."""

from __future__ import annotations

import asyncio
import weakref
from typing import Any

import pytest
from tests.support.garbage import no_collections
from tests.support.turns import run_ready_tasks

from modules.llm_platform.presentation.rest.http.disconnect import CancelOnDisconnect
from modules.llm_platform.presentation.rest.http.problems import ClientDisconnectedError
from modules.llm_platform.testing.waiting import CANCEL_TIMEOUT_S


def receive_of(disconnects_after_s: float | None) -> Any:
    """Return a `receive` that sends the empty body first."""
    has_sent_body = False

    async def receive() -> dict[str, Any]:
        nonlocal has_sent_body
        if not has_sent_body:
            has_sent_body = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await asyncio.sleep(60 if disconnects_after_s is None else disconnects_after_s)
        return {"type": "http.disconnect"}

    return receive


async def test_connected_client_has_no_effect() -> None:
    """The block ends normally, and no task is left."""
    async with CancelOnDisconnect(receive_of(None)):
        await run_ready_tasks()
    await run_ready_tasks()
    assert len(asyncio.all_tasks()) == 1
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_disconnect_cancels_the_block() -> None:
    """The block is cancelled promptly, and ClientDisconnectedError is raised."""
    cancelled = False
    with pytest.raises(ClientDisconnectedError):
        async with asyncio.timeout(CANCEL_TIMEOUT_S), CancelOnDisconnect(receive_of(0.01)):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled = True
                raise
    assert cancelled
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_other_cancellation_is_passed_on() -> None:
    """A cancellation by the server stays a CancelledError."""

    working = asyncio.Event()

    async def work() -> None:
        async with CancelOnDisconnect(receive_of(None)):
            working.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await working.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_error_of_the_block_is_not_hidden() -> None:
    """An error during the cancellation is raised."""
    with pytest.raises(ValueError, match="mine"):
        async with CancelOnDisconnect(receive_of(0.0)):
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                raise ValueError("mine") from None


async def test_it_is_freed_without_a_garbage_collection() -> None:
    """The cancelled watcher keeps no reference to what the block used."""
    with no_collections():
        cancelling = CancelOnDisconnect(receive_of(None))
        seen = weakref.ref(cancelling)
        async with cancelling:
            await run_ready_tasks()
        del cancelling
        await run_ready_tasks()
        assert seen() is None
