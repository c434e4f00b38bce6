"""A folder searched by words alone, from memory, as long as its index is being read."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext

from modules.llm_platform.infrastructure.adapters.document_web_search import DocumentWebSearchAdapter


class WordsMeanwhile:
    """Begun when somebody asks, given back when nobody need ask any more. To be used by one event loop.

    `held_up` holds the reading of the index up until the words are read: both at once would take both twice as long.
    """

    def __init__(
        self, make: Callable[[], DocumentWebSearchAdapter], held_up: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self._make = make
        self._held_up = held_up
        self._words: DocumentWebSearchAdapter | None = None
        self._read = False
        self._users = 0
        self._over = False

    @property
    def begun(self) -> bool:
        """Whether it takes memory."""
        return self._words is not None

    @asynccontextmanager
    async def using(self) -> AsyncIterator[DocumentWebSearchAdapter]:
        """The search by words, kept as long as the block runs."""
        self._over = False
        words = self._words = self._words or self._make()
        self._users += 1
        try:
            with nullcontext() if self._read else self._held_up():
                yield words
            self._read = True
        finally:
            self._users -= 1
            if self._over:
                await self.release()

    async def release(self) -> None:
        """Give its memory back, once nobody uses it."""
        self._over = True
        if not self._users and self._words is not None:
            words, self._words, self._read = self._words, None, False
            await words.aclose()

    async def aclose(self) -> None:
        """Stop reading; who waits for an answer gets none."""
        self._users = 0
        await self.release()
