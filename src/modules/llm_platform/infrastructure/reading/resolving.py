"""Names to addresses. Whoever resolves is a parameter, so that a test plays DNS."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol

RESOLUTIONS_AT_ONCE: Final = 16  # a name server that stays silent holds one of them for many seconds


class Resolver(Protocol):
    """Asks DNS once. Raises OSError when the name does not exist."""

    async def resolve(self, host: str, port: int) -> Sequence[str]: ...


class SystemResolver:
    """The operating system's resolver, in threads of its own: a silent name server must not hold up others' threads."""

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(RESOLUTIONS_AT_ONCE, thread_name_prefix="resolver")
        return await asyncio.get_running_loop().run_in_executor(self._threads, _resolve, host, port)

    async def aclose(self) -> None:
        """Let the threads end; who still waits for a name is cancelled."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)


def _resolve(host: str, port: int) -> Sequence[str]:
    try:
        answer = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError as error:  # a label that the system's own encoder refuses
        raise OSError("not a name") from error
    return tuple(dict.fromkeys(str(entry[4][0]) for entry in answer))
