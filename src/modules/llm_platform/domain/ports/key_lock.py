"""The port of locks by key that several processes share, so that equal requests cost one upstream call."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final


class IKeyLock(ABC):
    """A lock that saves work and protects nothing: after a bounded wait the caller continues without it."""

    @abstractmethod
    def hold(self, key: str) -> AbstractAsyncContextManager[bool]:
        """Hold the lock of `key`, or wait until another holder has released it.

        The value is True after a wait: the caller looks for the holder's result, and does the work without the lock if
        there is none. Raises nothing of its own.
        """


class NoKeyLock(IKeyLock):
    """A lock that never waits: each process works for itself."""

    @asynccontextmanager
    async def hold(self, key: str) -> AsyncIterator[bool]:
        yield False


NO_KEY_LOCK: Final = NoKeyLock()
