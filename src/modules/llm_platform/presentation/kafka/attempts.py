"""How often something is tried again, and how long it is waited for."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Final, TypeVar

from modules.llm_platform.presentation.kafka.deadlines import Deadlines
from shared.exceptions import AppException

WAITS_S: Final = (0.5, 1.0, 2.0, 4.0)  # between the tries of one request, give or take a quarter
SPREAD: Final = 0.25
STORE_WAITS_S: Final = (0.1, 0.5, 2.0, 5.0)  # for a store of outcomes; the last one again and again

Result = TypeVar("Result")
Sleep = Callable[[float], Awaitable[None]]

_UNTIL: ContextVar[float | None] = ContextVar("until", default=None)


def deadline() -> float | None:
    """When what this task tries must be done (event loop time), all tries together; None where nothing is tried."""
    return _UNTIL.get()


async def until_deadline(
    call: Callable[[], Awaitable[Result]], deadlines: Deadlines, sleep: Sleep = asyncio.sleep
) -> Result:
    """What `call` gives, tried again after recoverable errors as long as there is time to wait.

    Raises the last error, or TimeoutError when the deadline came while it was tried.
    """
    with deadlines.begin() as until:
        known = _UNTIL.set(until)
        try:
            for usual_s in WAITS_S:
                try:
                    return await call()
                except AppException as error:
                    wait_s = _wait(error, usual_s)
                    if not error.retryable or asyncio.get_running_loop().time() + wait_s >= until:
                        raise
                await sleep(wait_s)
            return await call()
        finally:
            _UNTIL.reset(known)


def _wait(error: AppException, usual_s: float) -> float:
    """What the other side asked for, or our usual wait spread, so that many requests do not come back together."""
    spread_s = usual_s * random.uniform(1 - SPREAD, 1 + SPREAD)  # noqa: S311  for fairness, not for secrecy
    return max(spread_s, error.retry_after_s or 0.0)
