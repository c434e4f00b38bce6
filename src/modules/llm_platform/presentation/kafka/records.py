"""Records as they come from Kafka and go back to it, without any client's types."""

from __future__ import annotations

from dataclasses import dataclass

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class IncomingRecord:
    """A request as it was read. `value` None is a tombstone."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


@dataclass(frozen=True, slots=True)
class OutgoingRecord:
    """The one outcome of a request, ready to be produced."""

    topic: str
    key: bytes | None
    value: bytes
    headers: Headers = ()
