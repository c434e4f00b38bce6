"""Schedule requests on the event loop of the worker, between the consumer, the handler and the producer.

The handler gets all consumed requests at once and looks up stored outcomes. `concurrency` requests run a stage at a time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Final, Protocol

from confluent_kafka import KafkaError, KafkaException

from modules.llm_platform.presentation.kafka.contract.outcomes import IncomingRecord, OutgoingRecord
from modules.llm_platform.presentation.kafka.worker.clients import remedy_of
from modules.llm_platform.presentation.kafka.worker.offsets import OffsetTracker
from modules.llm_platform.presentation.kafka.worker.producer import ProducerPump

log = logging.getLogger(__name__)

CANCEL_WAIT_S: Final = 5.0  # The longest wait for cancelled tasks to end.
PRODUCE_RETRY_S: Final = 2.0  # The pause before a refused outcome is produced again.
PURGED: Final = (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT)  # The producer that had the outcome was replaced.


class Slot:
    """A slot for one of the requests that run a stage. It is held inside `async with`.

    Waiting requests get slots in their order. A slot is free again while an outcome is stored or written. After an exception,
    `has_started` is False again.
    """

    __slots__ = ("_semaphore", "has_started")

    def __init__(self, semaphore: asyncio.Semaphore) -> None:
        self._semaphore = semaphore
        self.has_started = False

    async def __aenter__(self) -> None:
        await self._semaphore.acquire()
        self.has_started = True

    async def __aexit__(self, kind: type[BaseException] | None, _error: object, _trace: TracebackType | None) -> None:
        if kind is not None:
            self.has_started = False
        self._semaphore.release()


class KeyTurn:
    """The turn of one request among those with its key.

    The outcomes of a key are written in the order of their requests, although their stages run concurrently.
    """

    __slots__ = ("_key", "_last_turns", "_previous", "_released")

    def __init__(self, key: Hashable, last_turns: dict[Hashable, KeyTurn]) -> None:
        """Append a turn to `last_turns`, which maps each key to its last turn that is not released."""
        self._key = key
        self._last_turns = last_turns
        self._released = asyncio.Event()
        self._previous = last_turns.get(key)
        last_turns[key] = self

    async def wait(self) -> None:
        if self._previous is not None:
            await self._previous._released.wait()
        # Without the reference, a long chain of turns can be freed.
        self._previous = None

    def release(self) -> None:
        """Let the next request of the key proceed. Repeated calls do nothing."""
        self._released.set()
        if self._last_turns.get(self._key) is self:
            del self._last_turns[self._key]


@dataclass(slots=True, eq=False)
class InFlightRequest:
    """A consumed request.

    - `tracker` belongs to the assignment under which it was read.
    - `is_written` is True if its outcome is written.
    - `is_oversized` is True if the brokers refused its outcome as too large.
    - `slot` is set while the handler has the request.
    """

    record: IncomingRecord
    tracker: OffsetTracker
    is_written: bool = False
    is_oversized: bool = False
    key_turn: KeyTurn | None = None
    slot: Slot | None = None
    task: asyncio.Task[None] | None = None

    @property
    def is_waiting(self) -> bool:
        """True if the request has no outcome and its stage has not started."""
        return self.slot is not None and not self.slot.has_started


SettledQueue = SimpleQueue[Sequence[InFlightRequest]]


class Handler(Protocol):
    """Computes the outcome of a request without Kafka. See handler.py."""

    async def prepare(self, records: Sequence[IncomingRecord]) -> Sequence[Any]:
        """Look up stored outcomes in one query, and return one opaque job for each record. Raises only CancelledError."""

    async def process(self, job: Any, slot: Slot) -> OutgoingRecord:
        """Return the outcome. `slot` is held while the stage runs. Raises only CancelledError, and then there is no outcome."""

    def oversized(self, record: IncomingRecord) -> OutgoingRecord:
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
            for request in requests:
                self._settle(request)
            return
        for request in requests:
            record = request.record
            if record.key is not None:
                request.key_turn = KeyTurn((record.topic, record.partition, record.key), self._last_turns)
            request.slot = Slot(self._semaphore)
            self._open[request] = None
        if requests:
            self._idle.clear()
            preparation = self._loop.create_task(self._prepare(requests))
            self._preparations.add(preparation)
            preparation.add_done_callback(self._preparation_done)

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
            if running := [request.task for request in self._open if request.task]:
                await asyncio.wait(running, timeout=CANCEL_WAIT_S)
        self._flush_settled()

    def fail(self, error: BaseException) -> None:
        if not self.failure.done():
            self.failure.set_exception(error)

    async def _prepare(self, requests: Sequence[InFlightRequest]) -> None:
        jobs = await self._handler.prepare([request.record for request in requests])
        for request, job in zip(requests, jobs, strict=True):
            if request in self._open and request.slot is not None:
                # The request was not cancelled in the meantime.
                request.task = self._loop.create_task(self._process(request, job, request.slot))

    def _preparation_done(self, preparation: asyncio.Task[None]) -> None:
        self._preparations.discard(preparation)
        if not preparation.cancelled() and (error := preparation.exception()) is not None:
            self.fail(error)

    async def _process(self, request: InFlightRequest, job: Any, slot: Slot) -> None:
        """Compute the outcome and pass it to the producer. `_delivered` gets the delivery report."""
        is_produced = False
        try:
            outcome = await self._handler.process(job, slot)
            request.slot = None
            if request.key_turn is not None:
                await request.key_turn.wait()
            self._produce(request, outcome)
            is_produced = True
        finally:
            if is_produced:
                request.task = None
            else:
                self._watch_task(request)

    def _produce(self, request: InFlightRequest, outcome: OutgoingRecord) -> None:
        """Produce the outcome. The producer keeps the order, so the next request of the key may follow at once."""
        self._pump.produce(outcome, partial(self._delivered, request, outcome))
        if request.key_turn is not None:
            request.key_turn.release()

    def _delivered(self, request: InFlightRequest, outcome: OutgoingRecord, error: KafkaError | None) -> None:
        if request not in self._open:
            return  # The request was cancelled, and the next worker writes the same outcome.
        if error is not None:
            request.task = self._loop.create_task(self._produce_again(request, outcome, error))
            self._watch_task(request)
            return
        self.produce_error = None
        request.is_written = True
        self._close(request)

    async def _produce_again(self, request: InFlightRequest, outcome: OutgoingRecord, error: KafkaError) -> None:
        """Produce the outcome after a wait, or a small failure in its place. Raises KafkaException for a fatal error."""
        if error.fatal():
            raise KafkaException(error)
        if (
            error.code() in (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE)
            and not request.is_oversized
        ):
            request.is_oversized = True
            outcome = self._handler.oversized(request.record)
        else:
            if error.code() not in PURGED:
                self._note_produce_error(error)
            # The wait is the same for all outcomes, so that the outcomes of a key stay in order.
            await asyncio.sleep(PRODUCE_RETRY_S)
        self._produce(request, outcome)

    def _note_produce_error(self, error: KafkaError) -> None:
        """Log the first error, and the first error with a remedy.

        INVALID_RECORD is also the error of records whose batch was refused because of another record (KIP-467), so it does not
        replace a known cause.
        """
        known, remedy = self.produce_error, remedy_of([error])
        reason = ": ".join(filter(None, (error.name(), remedy)))
        if known is None or (remedy and remedy not in known):
            log.error("the brokers refuse outcomes: they are retried", extra={"error": reason})
        if known is None or error.code() != KafkaError.INVALID_RECORD:
            self.produce_error = reason

    def _cancel(self, requests: Sequence[InFlightRequest]) -> None:
        for request in requests:
            self._watch_task(request)
            # Without a task, the request is being prepared or is with the brokers.
            if request.task is None or not request.task.cancel():
                self._close(request)

    def _watch_task(self, request: InFlightRequest) -> None:
        """Handle the end of the request's task. Tasks that end normally need no callback."""
        if request.task is not None:
            request.task.add_done_callback(partial(self._task_done, request))

    def _task_done(self, request: InFlightRequest, task: asyncio.Task[None]) -> None:
        """Close a cancelled or failed request.

        This is not part of the task, because a task that is cancelled before its first step never runs.
        """
        error = None if task.cancelled() else task.exception()
        if request.task is task:
            request.task = None
        if task.cancelled() or error is not None:
            self._close(request)
        if error is not None:
            self.fail(error)

    def _close(self, request: InFlightRequest) -> None:
        if request not in self._open:
            return
        del self._open[request]
        if request.key_turn is not None:
            request.key_turn.release()
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
