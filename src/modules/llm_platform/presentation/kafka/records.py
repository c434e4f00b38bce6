"""Records as they come from Kafka and go back to it, without any client's types.

Nobody changes one, and none is frozen, nor is what is read from one: to make a frozen one takes three times as long.
"""

from __future__ import annotations

from dataclasses import dataclass

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(slots=True)
class IncomingRecord:
    """A request as it was read. `value` None is a tombstone."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


@dataclass(slots=True)
class OutgoingRecord:
    """The one outcome of a request, ready to be produced."""

    topic: str
    key: bytes | None
    value: bytes
    headers: Headers = ()
