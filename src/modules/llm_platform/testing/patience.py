"""How long the contracts wait: long enough for a slow machine under load, far shorter than what would be waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

RETURNS_WITHIN_S: Final = 5.0  # a cancelled call must not wait for the other side, which stays silent for longer
CLOSES_WITHIN_S: Final = 10.0  # by then the other side must see that nobody listens any more
STARTS_WITHIN_S: Final = 30.0
_POLL_S: Final = 0.005


async def becomes(condition: Callable[[], bool], within_s: float) -> bool:
    """Whether the condition holds before `within_s` seconds are over."""
    loop = asyncio.get_running_loop()
    until = loop.time() + within_s
    while not condition() and loop.time() < until:  # noqa: ASYNC110  the condition is somebody else's, without an event
        await asyncio.sleep(_POLL_S)
    return condition()
