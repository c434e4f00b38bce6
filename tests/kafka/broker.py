"""What the suites ask of a broker, whichever it is, and waiting for things with an end."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

ROOT = Path(__file__).resolve().parents[2]
POLL_S = 0.02
PATIENCE_S = 180.0  # limit on a busy machine; a second or two are usual


class Broker(Protocol):
    """A Kafka on loopback that a test started: `with` starts it and takes everything away again."""

    name: str
    bootstrap: str  # host:port, stays the same over `down` and `up`
    client: Mapping[str, str | int]  # librdkafka settings that this broker wants, on top of the address

    def create_topics(self, topics: Mapping[str, int]) -> None:
        """Make topics with so many partitions each; they can be used when this returns."""

    def down(self) -> None:
        """Away without a goodbye: connections break, new ones are refused, what was written stays."""

    def up(self) -> None:
        """Back at the same address with what was written; clients find it by themselves."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def wait_until(happened: Callable[[], bool], what: str, timeout_s: float = PATIENCE_S) -> float:
    """Seconds it took; AssertionError with `what` when it did not come."""
    began = time.monotonic()
    while not happened():
        if time.monotonic() - began > timeout_s:
            raise AssertionError(f"waited {timeout_s:.0f} s in vain for {what}")
        time.sleep(POLL_S)
    return time.monotonic() - began
