"""Produce outcomes and report their delivery.

A thread polls the producer and passes delivery reports to the event loop in batches. A producer that has lost its brokers is
replaced (see known_brokers.py). Outcomes that it has not delivered are reported as purged.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from modules.llm_platform.presentation.kafka.contract.outcomes import OutgoingRecord
from modules.llm_platform.presentation.kafka.worker.clients import Callbacks
from modules.llm_platform.presentation.kafka.worker.known_brokers import REPLACED, KnownBrokers

log = logging.getLogger(__name__)

POLL_S: Final = 0.1
QUEUE_FULL_WAIT_S: Final = 0.02
FLUSH_S: Final = 5.0  # wait at the end; outcomes that the brokers have not accepted by then are dropped

DeliveryCallback = Callable[[KafkaError | None], None]


class ProducerPump:
    """Belongs to the running event loop, except for `run`, which belongs to a thread."""

    def __init__(self, make_producer: Callable[[Callbacks], Producer]) -> None:
        self._make_producer = make_producer
        self._open_producer()
        self._replaced: deque[Producer] = deque()  # the thread purges them
        self._loop = asyncio.get_running_loop()
        self._queue: deque[tuple[OutgoingRecord, DeliveryCallback]] = deque()
        self._reports: list[tuple[DeliveryCallback, KafkaError | None]] = []
        self._is_stopping = False

    def produce(self, outcome: OutgoingRecord, on_delivery: DeliveryCallback) -> None:
        """Produce an outcome, in the order of the calls. `on_delivery` runs on the loop after this returns: with None when
        the brokers have acknowledged the outcome, else with the error of the client or the brokers.
        """
        if not self._queue:
            self._loop.call_soon(self._produce_queued)
        self._queue.append((outcome, on_delivery))

    def _produce_queued(self) -> None:
        """Produce all queued outcomes in one go: a single one wakes the client's thread, which costs more than the rest."""
        while self._queue:
            outcome, on_delivery = self._queue[0]
            try:
                self._producer.produce(
                    outcome.topic,
                    outcome.value,
                    outcome.key,
                    on_delivery=partial(self._add_report, on_delivery),
                    headers=list(outcome.headers) or None,
                )
            except BufferError:
                self._loop.call_later(QUEUE_FULL_WAIT_S, self._produce_queued)
                return
            except KafkaException as error:
                on_delivery(error.args[0])
            except (TypeError, ValueError):  # An invalid outcome must not block the queue.
                on_delivery(KafkaError(KafkaError._INVALID_ARG))
            self._queue.popleft()

    def run(self) -> None:
        """Poll until `stop`, then flush."""
        while not self._is_stopping:
            self._producer.poll(POLL_S)
            if self._brokers.are_lost:
                self._loop.call_soon_threadsafe(self._replace_producer)
            while self._replaced:
                old = self._replaced.popleft()
                old.purge()
                old.flush(POLL_S)  # This passes on its delivery reports.
            if self._reports:
                reports, self._reports = self._reports, []
                self._loop.call_soon_threadsafe(_call_back, reports)
        remaining = self._producer.flush(FLUSH_S)
        if remaining:
            log.warning("outcomes were not written: their requests are read again", extra={"count": remaining})
            self._producer.purge()
            self._producer.flush(POLL_S)

    def stop(self) -> None:
        """Produce the queued outcomes, and let `run` flush and return."""
        self._produce_queued()
        self._is_stopping = True

    def _open_producer(self) -> None:
        self._brokers = KnownBrokers()
        self._producer = self._make_producer({"stats_cb": self._brokers.update})

    def _replace_producer(self) -> None:
        """Replace the producer. Only the event loop produces, so the old producer gets nothing after this."""
        if self._brokers.are_lost:
            log.warning(REPLACED, extra={"client": "producer"})
            self._replaced.append(self._producer)
            self._open_producer()

    def _add_report(self, on_delivery: DeliveryCallback, error: KafkaError | None, _message: Message) -> None:
        self._reports.append((on_delivery, error))


def _call_back(reports: list[tuple[DeliveryCallback, KafkaError | None]]) -> None:
    for on_delivery, error in reports:
        on_delivery(error)
