"""Timeouts and helpers of the contract classes. The timeouts suit a slow machine under load."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias, TypeVar

CANCEL_TIMEOUT_S: Final = 20.0  # the other side is silent for longer
CLOSE_TIMEOUT_S: Final = 30.0  # time for the other side to notice the closed connection
START_TIMEOUT_S: Final = 60.0
_POLL_S: Final = 0.005

Error = TypeVar("Error", bound=Exception)
Elapse: TypeAlias = Callable[[float], Awaitable[None]]  # lets seconds pass for a store that is under a contract


async def becomes_true(condition: Callable[[], bool], within_s: float) -> bool:
    """Return whether the condition becomes true within `within_s` seconds."""
    loop = asyncio.get_running_loop()
    until = loop.time() + within_s
    while not condition() and loop.time() < until:  # noqa: ASYNC110  there is no event to wait for
        await asyncio.sleep(_POLL_S)
    return condition()


async def is_cancelled_promptly(task: asyncio.Future[Any]) -> bool:
    """Cancel a running task and return whether it ends as cancelled within CANCEL_TIMEOUT_S seconds."""
    task.cancel()
    await asyncio.wait([task], timeout=CANCEL_TIMEOUT_S)
    return task.cancelled()


async def error_of(call: Awaitable[object], kind: type[Error]) -> Error:
    """Return the error that the call raises. Raises AssertionError if it raises no error of this kind."""
    try:
        await call
    except kind as error:
        return error
    raise AssertionError(f"expected {kind.__name__}")
