"""Outcomes of one key leave in the order in which their requests came, although they are computed side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable


class Turn:
    """The place of one request among those of the same key."""

    __slots__ = ("_key", "_passed", "_tails", "_told", "before")

    def __init__(self, key: Hashable, tails: dict[Hashable, Turn]) -> None:
        self._key = key
        self._tails = tails
        self._passed = False
        self._told: asyncio.Future[None] | None = None  # made when somebody waits: mostly nobody does
        before = tails.get(key)
        self.before = before
        tails[key] = self

    async def comes(self) -> None:
        """Wait until the request before has passed on its turn."""
        before = self.before
        if before is not None and not before._passed:
            if before._told is None:
                before._told = asyncio.get_running_loop().create_future()
            await before._told
        self.before = None  # a long row of turns must not keep itself alive

    def passes(self) -> None:
        """It is the next one's turn. A second call does nothing."""
        if self._passed:
            return
        self._passed = True
        if self._told is not None and not self._told.done():
            self._told.set_result(None)
        if self._tails.get(self._key) is self:
            del self._tails[self._key]


class Turns:
    """The rows of all keys. A row exists while somebody stands in it."""

    def __init__(self) -> None:
        self._tails: dict[Hashable, Turn] = {}

    def take(self, key: Hashable) -> Turn:
        """The last place in the row of that key."""
        return Turn(key, self._tails)

    def __len__(self) -> int:
        return len(self._tails)
