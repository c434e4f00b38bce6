"""The interface of every broker that the suites run on, and a wait with a timeout."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

ROOT = Path(__file__).resolve().parents[2]
POLL_S = 0.02
PATIENCE_S = 180.0  # limit on a busy machine; a second or two is usual


class Broker(Protocol):
    """A Kafka broker on loopback that a test starts. `with` starts it, and removes its process and its data at the end."""

    name: str
    bootstrap: str  # host:port; `down` and `up` do not change it
    client: Mapping[str, str | int]  # librdkafka settings that this broker needs besides the address

    def create_topics(self, topics: Mapping[str, int]) -> None:
        """Create each topic with its number of partitions. The topics are usable when this returns."""

    def down(self) -> None:
        """Stop without a clean shutdown: connections break, new connections are refused, written records stay."""

    def up(self) -> None:
        """Start again at the same address with the written records. Clients reconnect by themselves."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def wait_until(happened: Callable[[], bool], what: str, timeout_s: float = PATIENCE_S) -> float:
    """Return the seconds that it took. Raises AssertionError with `what` after the timeout."""
    began = time.monotonic()
    while not happened():
        if time.monotonic() - began > timeout_s:
            raise AssertionError(f"waited {timeout_s:.0f} s in vain for {what}")
        time.sleep(POLL_S)
    return time.monotonic() - began
