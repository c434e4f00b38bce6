"""Writes outcomes, and says when they are written.

A thread of its own polls the producer, and hands the reports over in lists: one wake-up of the loop for many outcomes.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from modules.llm_platform.presentation.kafka.contract.outcomes import OutgoingRecord

log = logging.getLogger(__name__)

POLL_S: Final = 0.1
FULL_WAIT_S: Final = 0.02  # until the client's buffer has room again
FLUSH_S: Final = 5.0  # of the last moments; what waits for a broker that is away is given up then

Told = Callable[[KafkaError | None], None]


class ProducerPump:
    """Belongs to the running loop; `run` belongs to a thread."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self._loop = asyncio.get_running_loop()
        self._given: deque[tuple[OutgoingRecord, Told]] = deque()
        self._reports: list[tuple[Told, KafkaError | None]] = []
        self._stopping = False

    def hand_over(self, outgoing: OutgoingRecord, told: Told) -> None:
        """Behind all that was given before. `told` is called on the loop, later than this returns: with None when the broker
        has it for good, else with what the client or the broker has against it.
        """
        if not self._given:
            self._loop.call_soon(self._produce)
        self._given.append((outgoing, told))

    def _produce(self) -> None:
        """All that were given meanwhile in one go: for one that comes alone the client wakes its thread, which costs more than
        all the rest.
        """
        while self._given:
            outgoing, told = self._given[0]
            try:
                self._producer.produce(
                    outgoing.topic,
                    outgoing.value,
                    outgoing.key,
                    on_delivery=partial(self._reported, told),
                    headers=list(outgoing.headers) or None,
                )
            except BufferError:
                self._loop.call_later(FULL_WAIT_S, self._produce)
                return
            except KafkaException as refused:
                told(refused.args[0])
            except (TypeError, ValueError):  # whatever this one has, it must not hold up those behind it
                told(KafkaError(KafkaError._INVALID_ARG))
            self._given.popleft()

    def run(self) -> None:
        """Until `stop`."""
        while not self._stopping:
            self._producer.poll(POLL_S)
            self._pass_on()
        left = self._producer.flush(FLUSH_S)
        if left:
            log.warning("outcomes were not written, their requests will be answered again", extra={"count": left})
            self._producer.purge()
            self._producer.flush(POLL_S)

    def stop(self) -> None:
        """Write what was given, for a few seconds, and let `run` return."""
        self._produce()
        self._stopping = True

    def _reported(self, told: Told, error: KafkaError | None, _message: Message) -> None:
        self._reports.append((told, error))

    def _pass_on(self) -> None:
        if self._reports:
            reports, self._reports = self._reports, []
            self._loop.call_soon_threadsafe(_tell, reports)


def _tell(reports: list[tuple[Told, KafkaError | None]]) -> None:
    for told, error in reports:
        told(error)
