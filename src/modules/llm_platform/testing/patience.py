"""How long the contracts wait: what must happen at once gets a little, what another side must notice a little more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

RETURNS_WITHIN_S: Final = 0.1  # how soon a cancelled call must give up
CLOSES_WITHIN_S: Final = 1.0  # how soon the other side must see that nobody listens any more
STARTS_WITHIN_S: Final = 5.0
_POLL_S: Final = 0.005


async def becomes(condition: Callable[[], bool], within_s: float) -> bool:
    """Whether the condition holds before `within_s` seconds are over."""
    loop = asyncio.get_running_loop()
    until = loop.time() + within_s
    while not condition() and loop.time() < until:  # noqa: ASYNC110  the condition is somebody else's, without an event
        await asyncio.sleep(_POLL_S)
    return condition()
