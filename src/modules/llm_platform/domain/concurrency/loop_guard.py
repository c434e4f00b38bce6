"""Refuse calls from two event loops at once, which would wait for each other's futures for ever."""

import asyncio
import threading

OTHER_LOOP = (
    "this platform is in use in the event loop of another thread: build one platform for each event loop, or send the calls to "
    "one loop with asyncio.run_coroutine_threadsafe()"
)


class LoopGuard:
    """Counts the calls that run in an event loop. Entering it raises RuntimeError while another loop has calls."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._calls = 0

    async def __aenter__(self) -> None:
        loop = asyncio.get_running_loop()
        with self._lock:
            if self._loop is not loop:
                # The calls of a loop that was stopped never end.
                if self._loop is not None and self._calls and self._loop.is_running():
                    raise RuntimeError(OTHER_LOOP)
                self._loop, self._calls = loop, 0
            self._calls += 1

    async def __aexit__(self, *exc: object) -> None:
        with self._lock:
            if self._loop is asyncio.get_running_loop():
                self._calls -= 1
