"""Holds the reading of a folder up for a while: what somebody waits for comes first."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

LOOK_S: Final = 0.2  # how often one who is held up looks whether it shall stop altogether


class Gate:
    """Closed by the event loop, passed by threads. Several may close it: it opens when all are done."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self._open.set()
        self._closing = 0

    @contextmanager
    def closed(self) -> Iterator[None]:
        """As long as the block runs nobody passes."""
        self._closing += 1
        self._open.clear()
        try:
            yield
        finally:
            self._closing -= 1
            if not self._closing:
                self._open.set()

    def passed(self, stopped: threading.Event) -> None:
        """Wait until it is open, or nobody is to go on any more."""
        while not self._open.wait(LOOK_S) and not stopped.is_set():
            pass
