"""A request on its way through the worker."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from confluent_kafka import Message

from modules.llm_platform.presentation.kafka.offsets import PartitionLedger
from modules.llm_platform.presentation.kafka.records import IncomingRecord
from modules.llm_platform.presentation.kafka.slots import Slot
from modules.llm_platform.presentation.kafka.turns import Turn


@dataclass(slots=True, eq=False)
class Request:
    """`ledger` is that of the assignment under which it was read. `done` is said once: was its outcome written?
    `slot` is there while the handler has it; `shrunk`: the brokers found its outcome too large.
    """

    record: IncomingRecord
    ledger: PartitionLedger
    done: bool = False
    shrunk: bool = False
    turn: Turn | None = None
    slot: Slot | None = None
    task: asyncio.Task[None] | None = None

    @property
    def waits(self) -> bool:
        """Whether its stage has not begun, and there is no outcome yet."""
        return self.slot is not None and not self.slot.begun


def record_of(message: Message) -> IncomingRecord:
    """What a client of Kafka read, without the client's types."""
    try:
        headers = message.headers()
    except UnicodeDecodeError:  # a name that is no UTF-8: the client can give none of them
        headers = None
    return IncomingRecord(
        message.topic() or "",
        message.partition() or 0,
        message.offset() or 0,
        _bytes(message.key()),
        _bytes(message.value()),
        tuple(headers) if headers else (),  # type: ignore[arg-type]  # its values are bytes, whatever its types say
    )


def _bytes(raw: str | bytes | None) -> bytes | None:
    return raw.encode() if isinstance(raw, str) else raw
