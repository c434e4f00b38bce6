"""Schedule requests on the event loop of the worker, between the consumer, the handler and the producer.

The handler gets all consumed requests at once and looks up stored outcomes. `concurrency` requests run a stage at a time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Hashable, Iterable, Sequence
from functools import partial
from queue import SimpleQueue
from typing import Any, Final, Protocol

from confluent_kafka import KafkaError, KafkaException

from modules.llm_platform.presentation.kafka.contract.outcomes import IncomingRecord, OutgoingRecord
from modules.llm_platform.presentation.kafka.worker.clients import find_remedy
from modules.llm_platform.presentation.kafka.worker.in_flight_request import (
    Ended,
    InFlightRequest,
    KeyTurn,
    Preparing,
    Producing,
    Refused,
    Slot,
    Working,
)
from modules.llm_platform.presentation.kafka.worker.offsets import OffsetTracker
from modules.llm_platform.presentation.kafka.worker.producer import ProducerPump

log = logging.getLogger(__name__)

CANCEL_WAIT_S: Final = 5.0  # The longest wait for cancelled tasks to end.
PRODUCE_RETRY_S: Final = 2.0  # The pause before a refused outcome is produced again.
OVERSIZED: Final = (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE)
PURGED: Final = (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT)  # The producer that had the outcome was replaced.


SettledQueue = SimpleQueue[Sequence[InFlightRequest]]


class Handler(Protocol):
    """Computes the outcome of a request without Kafka. See handler.py."""

    async def prepare(self, records: Sequence[IncomingRecord]) -> Sequence[Any]:
        """Look up stored outcomes in one query, and return one opaque job for each record. Raises only CancelledError."""

    async def process(self, job: Any, slot: Slot) -> OutgoingRecord:
        """Return the outcome. `slot` is held while the stage runs. Raises only CancelledError, and then there is no outcome."""

    def replace_oversized(self, record: IncomingRecord) -> OutgoingRecord:
        """Return the failure that replaces an outcome which the brokers refuse as too large. Its bytes never change."""


class RequestScheduler:
    """Runs the stages of `concurrency` requests at a time. Requests that have ended go to `settled`, in batches.

    - `failure` gets the exception that ends the worker.
    - `produce_error` is the name and remedy of an error while the brokers refuse outcomes, or None.
    """

    def __init__(self, handler: Handler, pump: ProducerPump, concurrency: int, settled: SettledQueue) -> None:
        self._handler, self._pump, self._settled = handler, pump, settled
        self._semaphore = asyncio.Semaphore(concurrency)
        self._loop = asyncio.get_running_loop()
        self._open: dict[InFlightRequest, None] = {}  # The requests at the handler or the brokers, in their order.
        self._preparations: set[asyncio.Task[None]] = set()
        self._ended: list[InFlightRequest] = []
        self._last_turns: dict[Hashable, KeyTurn] = {}
        self._is_draining = False
        self._idle = asyncio.Event()
        self._idle.set()
        self.failure: asyncio.Future[None] = self._loop.create_future()
        self.produce_error: str | None = None

    @property
    def in_flight(self) -> int:
        """The number of requests that have started."""
        return len(self._open) - self.waiting

    @property
    def waiting(self) -> int:
        """The number of consumed requests that have not started."""
        return sum(request.is_waiting for request in self._open)

    def submit(self, requests: Sequence[InFlightRequest]) -> None:
        """Add new requests. During a drain they end without an outcome."""
        if self._is_draining:
            self._cancel(requests)
            return
        for request in requests:
            self._open[request] = None
            request.state = Preparing(self._take_turn(request))
        if requests:
            self._idle.clear()
            preparation = self._loop.create_task(self._prepare(requests))
            self._preparations.add(preparation)
            preparation.add_done_callback(self._end_preparation)

    def _take_turn(self, request: InFlightRequest) -> KeyTurn:
        record = request.record
        own_key = object()  # Without a key, the request waits for no other.
        key = own_key if record.key is None else (record.topic, record.partition, record.key)
        return KeyTurn(key, self._last_turns, request.tracker)

    def revoke(self, trackers: Sequence[OffsetTracker], cancel_running: bool) -> None:
        """Cancel the requests of these partitions that have not started, and with `cancel_running` all of them."""
        revoked = {id(tracker) for tracker in trackers}
        requests = [request for request in self._open if id(request.tracker) in revoked]
        self._cancel(requests if cancel_running else _not_started(requests))

    async def drain(self, timeout_s: float) -> None:
        """Cancel requests that have not started, and wait for the others. After `timeout_s`, cancel them, too."""
        self._is_draining = True
        self._cancel(_not_started(self._open))
        try:
            async with asyncio.timeout(timeout_s):
                await self._idle.wait()
        except TimeoutError:
            log.warning("the drain timed out: requests are cancelled and read again", extra={"count": self.in_flight})
            self._cancel(list(self._open))
            if running := [request.task for request in self._open if request.task is not None]:
                await asyncio.wait(running, timeout=CANCEL_WAIT_S)
        self._flush_settled()

    def fail(self, error: BaseException) -> None:
        if not self.failure.done():
            self.failure.set_exception(error)

    async def _prepare(self, requests: Sequence[InFlightRequest]) -> None:
        jobs = await self._handler.prepare([request.record for request in requests])
        for request, job in zip(requests, jobs, strict=True):
            # Other requests were cancelled in the meantime.
            if isinstance(request.state, Preparing):
                request.state = request.state.work(Slot(self._semaphore), partial(self._work, request, job))
                self._watch(request)

    def _end_preparation(self, preparation: asyncio.Task[None]) -> None:
        self._preparations.discard(preparation)
        if not preparation.cancelled() and (error := preparation.exception()) is not None:
            self.fail(error)

    async def _work(self, request: InFlightRequest, job: Any, working: Working) -> None:
        """Compute the outcome and pass it to the producer. `_note_delivery` gets the delivery report."""
        outcome = await self._handler.process(job, working.slot)
        request.state = waiting = working.wait_for_turn()
        await waiting.turn.wait()
        self._produce(request, waiting.produce(outcome))

    def _produce(self, request: InFlightRequest, producing: Producing) -> None:
        request.state = producing
        self._pump.produce(producing.outcome, partial(self._note_delivery, request))

    def _note_delivery(self, request: InFlightRequest, error: KafkaError | None) -> None:
        producing = request.state
        if not isinstance(producing, Producing):
            return  # The request was cancelled, and the next worker writes the same outcome.
        if error is not None:
            request.state = producing.refuse(partial(self._produce_again, request, error))
            self._watch(request)
            return
        self.produce_error = None
        self._end(request, producing.acknowledge())

    async def _produce_again(self, request: InFlightRequest, error: KafkaError, refused: Refused) -> None:
        """Produce the outcome after a wait, or a small failure in its place. Raises KafkaException for a fatal error."""
        if error.fatal():
            raise KafkaException(error)
        if error.code() in OVERSIZED and not refused.is_replacement:
            self._produce(request, refused.replace(self._handler.replace_oversized(request.record)))
            return
        if error.code() not in PURGED:
            self._note_produce_error(error)
        # The wait is the same for all outcomes, so that the outcomes of a key stay in order.
        await asyncio.sleep(PRODUCE_RETRY_S)
        self._produce(request, refused.produce_again())

    def _note_produce_error(self, error: KafkaError) -> None:
        """Log the first error, and the first error with a remedy.

        INVALID_RECORD is also the error of records whose batch was refused because of another record (KIP-467), so it does not
        replace a known cause.
        """
        known, remedy = self.produce_error, find_remedy([error])
        reason = ": ".join(filter(None, (error.name(), remedy)))
        if known is None or (remedy and remedy not in known):
            log.error("the brokers refuse outcomes: they are retried", extra={"error": reason})
        if known is None or error.code() != KafkaError.INVALID_RECORD:
            self.produce_error = reason

    def _cancel(self, requests: Sequence[InFlightRequest]) -> None:
        for request in requests:
            task = request.task
            # Without a task, the request is being prepared or is with the brokers.
            if task is None or not task.cancel():
                self._abandon(request)

    def _watch(self, request: InFlightRequest) -> None:
        """Abandon the request if the task of its state is cancelled or fails.

        This is not part of the task, because a task that is cancelled before its first step never runs.
        """
        if request.task is not None:
            request.task.add_done_callback(partial(self._end_task, request))

    def _end_task(self, request: InFlightRequest, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if task.cancelled() or error is not None:
            self._abandon(request)
        if error is not None:
            self.fail(error)

    def _abandon(self, request: InFlightRequest) -> None:
        if not isinstance(request.state, Ended):
            self._end(request, request.state.abandon())

    def _end(self, request: InFlightRequest, ended: Ended) -> None:
        request.state = ended
        self._open.pop(request, None)
        self._settle(request)
        if not self._open:
            self._idle.set()

    def _settle(self, request: InFlightRequest) -> None:
        """Return the request to the consumer thread, in one batch with others that end in this iteration of the loop."""
        if not self._ended:
            self._loop.call_soon(self._flush_settled)
        self._ended.append(request)

    def _flush_settled(self) -> None:
        if self._ended:
            ended, self._ended = self._ended, []
            self._settled.put(ended)


def _not_started(requests: Iterable[InFlightRequest]) -> list[InFlightRequest]:
    """Return the waiting requests, and later requests with the same keys.

    Such a later request must not be written before the waiting one, which is read again.
    """
    found, keys = [], set()
    for request in requests:
        key = request.tracker, request.record.key
        if request.is_waiting or key in keys:
            found.append(request)
            if request.record.key is not None:
                keys.add(key)
    return found
