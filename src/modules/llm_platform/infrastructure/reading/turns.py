"""At most two connections to one host at a time: a report that needs ten pages of one site is no attack on it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

CONNECTIONS_PER_HOST: Final = 2


class Turns:
    """One semaphore for each host that is being read, forgotten when nobody waits for it."""

    def __init__(self, at_once: int = CONNECTIONS_PER_HOST) -> None:
        self._at_once = at_once
        self._hosts: dict[str, tuple[asyncio.Semaphore, int]] = {}

    @asynccontextmanager
    async def at(self, host: str) -> AsyncIterator[None]:
        """Wait for a turn, and keep it for the block."""
        turn, waiting = self._hosts.get(host) or (asyncio.Semaphore(self._at_once), 0)
        self._hosts[host] = (turn, waiting + 1)
        try:
            async with turn:
                yield
        finally:
            waiting = self._hosts[host][1] - 1
            if waiting:
                self._hosts[host] = (turn, waiting)
            else:
                del self._hosts[host]
