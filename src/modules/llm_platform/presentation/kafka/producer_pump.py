"""Writes outcomes, and says when they are written.

A thread of its own polls the producer, and hands the reports over in lists: one wake-up of the loop for many outcomes.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Final

from confluent_kafka import KafkaError, Message, Producer

from modules.llm_platform.presentation.kafka.records import OutgoingRecord

log = logging.getLogger(__name__)

POLL_S: Final = 0.1
FULL_WAIT_S: Final = 0.02  # until the client's buffer has room again
FLUSH_S: Final = 5.0  # of the last moments; what waits for a broker that is away is given up then

Report = asyncio.Future[KafkaError | None]


class ProducerPump:
    """Belongs to the running loop; `run` belongs to a thread."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self._loop = asyncio.get_running_loop()
        self._reports: list[tuple[Report, KafkaError | None]] = []
        self._stopping = False

    async def hand_over(self, outgoing: OutgoingRecord) -> Report:
        """Give it to the client, behind all that was given before. The report says None when the broker has it for good.

        Raises KafkaException where the client itself refuses it.
        """
        report: Report = self._loop.create_future()
        while True:
            try:
                self._producer.produce(
                    outgoing.topic,
                    outgoing.value,
                    outgoing.key,
                    on_delivery=partial(self._reported, report),
                    headers=list(outgoing.headers) or None,
                )
            except BufferError:
                await asyncio.sleep(FULL_WAIT_S)
            else:
                return report

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
        self._stopping = True

    def _reported(self, report: Report, error: KafkaError | None, _message: Message) -> None:
        self._reports.append((report, error))

    def _pass_on(self) -> None:
        if self._reports:
            reports, self._reports = self._reports, []
            self._loop.call_soon_threadsafe(_tell, reports)


def _tell(reports: list[tuple[Report, KafkaError | None]]) -> None:
    for report, error in reports:
        if not report.done():  # nobody waits for it any more
            report.set_result(error)
