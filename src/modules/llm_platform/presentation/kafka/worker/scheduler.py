"""The loop's side of the worker: requests become outcomes, and each is written before it is over.

All that were read are with the handler at once, which looks up what was kept; so many as there are slots get to their stage.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Final, Protocol

from confluent_kafka import KafkaError, KafkaException

from modules.llm_platform.presentation.kafka.contract.outcomes import IncomingRecord, OutgoingRecord
from modules.llm_platform.presentation.kafka.worker.consumer import Settled
from modules.llm_platform.presentation.kafka.worker.producer import ProducerPump
from modules.llm_platform.presentation.kafka.worker.request import KeyOrder, OffsetTracker, Request, Slot, Slots

log = logging.getLogger(__name__)

GIVE_UP_S: Final = 5.0  # for a task that was cancelled to end
REFUSED_WAIT_S: Final = 2.0  # before an outcome that the brokers refused is offered to them again


class Handler(Protocol):
    """From bytes to the one outcome; it knows no Kafka. handler.py has it."""

    async def look_up(self, records: Sequence[IncomingRecord]) -> Sequence[Any]:
        """For each a job, which only the handler understands: many are looked up at once. Raises nothing but CancelledError."""

    async def carry_out(self, job: Any, slot: Slot) -> OutgoingRecord:
        """Raises nothing but CancelledError, after which the request has no outcome. `slot` is held while its stage runs."""

    def too_large(self, record: IncomingRecord) -> OutgoingRecord:
        """What to tell instead of an outcome that the brokers find too large; the same each time."""


class RequestScheduler:
    """Works on the stages of `concurrency` requests at once. Those that are over go to `settled`, in lists."""

    def __init__(
        self,
        handler: Handler,
        pump: ProducerPump,
        concurrency: int,
        settled: Settled,
    ) -> None:
        self._handler, self._pump, self._settled = handler, pump, settled
        self._slots = Slots(concurrency)
        self._loop = asyncio.get_running_loop()
        self._open: dict[Request, None] = {}  # with the handler, or with the brokers; as they came
        self._beginning: set[asyncio.Task[None]] = set()  # each looks up a list of requests
        self._over: list[Request] = []
        self._turns = KeyOrder()
        self._draining = False
        self._idle = asyncio.Event()
        self._idle.set()
        self.failure: asyncio.Future[None] = self._loop.create_future()  # never done unless something is broken
        self.refusing: str | None = None  # why the brokers do not take outcomes, while they do not

    @property
    def in_flight(self) -> int:
        """Requests that have begun and are not over."""
        return len(self._open) - self.waiting

    @property
    def waiting(self) -> int:
        """Requests that were read and have not begun."""
        return sum(request.waits for request in self._open)

    def take(self, requests: Sequence[Request]) -> None:
        """Put new requests behind the others; those that come during the drain are given up."""
        if self._draining:
            for request in requests:
                self._end(request)
            return
        for request in requests:
            record = request.record
            if record.key is not None:
                request.turn = self._turns.take((record.topic, record.partition, record.key))
            request.slot = Slot(self._slots)
            self._open[request] = None
        if requests:
            self._idle.clear()
            beginning = self._loop.create_task(self._begin(requests))
            self._beginning.add(beginning)
            beginning.add_done_callback(self._begun)

    def let_go(self, ledgers: Sequence[OffsetTracker], at_once: bool) -> None:
        """Give up what has not begun of these partitions; `at_once` what runs as well."""
        going = {id(ledger) for ledger in ledgers}
        there = [request for request in self._open if id(request.ledger) in going]
        self._cancel(there if at_once else _not_begun(there))

    async def drain(self, within_s: float) -> None:
        """Give up what has not begun, and let the rest end; what has not after `within_s` is given up, too."""
        self._draining = True
        self._cancel(_not_begun(self._open))
        try:
            async with asyncio.timeout(within_s):
                await self._idle.wait()
        except TimeoutError:
            log.warning("requests were given up, they will be answered later", extra={"count": self.in_flight})
            self._cancel(list(self._open))
            if running := [request.task for request in self._open if request.task]:
                await asyncio.wait(running, timeout=GIVE_UP_S)
        self._tell_over()

    def fail(self, error: BaseException) -> None:
        """It is beyond help: whoever waits for `failure` learns why."""
        if not self.failure.done():
            self.failure.set_exception(error)

    async def _begin(self, requests: Sequence[Request]) -> None:
        """Look up all of them at once, and carry out each by itself; those that were given up meanwhile are not there."""
        jobs = await self._handler.look_up([request.record for request in requests])
        for request, job in zip(requests, jobs, strict=True):
            if request in self._open and request.slot is not None:
                request.task = self._loop.create_task(self._carry_out(request, job, request.slot))

    def _begun(self, beginning: asyncio.Task[None]) -> None:
        self._beginning.discard(beginning)
        if not beginning.cancelled() and (error := beginning.exception()) is not None:
            self.fail(error)

    def _ended(self, request: Request, task: asyncio.Task[None]) -> None:
        """Something went wrong with it, or it was given up. Not part of the task: one that is cancelled before its first step
        never runs a line.
        """
        error = None if task.cancelled() else task.exception()
        if request.task is task:
            request.task = None
        if task.cancelled() or error is not None:
            self._close(request)
        if error is not None:
            self.fail(error)

    def _close(self, request: Request) -> None:
        """It is over, `done` or not."""
        if request not in self._open:
            return
        del self._open[request]
        if request.turn is not None:
            request.turn.passes()
        self._end(request)
        if not self._open:
            self._idle.set()

    async def _carry_out(self, request: Request, job: Any, slot: Slot) -> None:
        """Until the client has its outcome; what the brokers say to that comes to `_reported`."""
        offered = False
        try:
            outgoing = await self._handler.carry_out(job, slot)
            request.slot = None
            if request.turn is not None:
                await request.turn.comes()
            self._offer(request, outgoing)
            offered = True
        finally:
            if offered:
                request.task = None
            else:
                self._listen(request)

    def _offer(self, request: Request, outgoing: OutgoingRecord) -> None:
        """One try. The next one of the same key goes as soon as the client has this one: it keeps their order."""
        self._pump.hand_over(outgoing, partial(self._reported, request, outgoing))
        if request.turn is not None:
            request.turn.passes()

    def _reported(self, request: Request, outgoing: OutgoingRecord, error: KafkaError | None) -> None:
        if request not in self._open:
            return  # it was given up: whoever does it again writes the same
        if error is not None:
            request.task = self._loop.create_task(self._offer_again(request, outgoing, error))
            self._listen(request)
            return
        self.refusing = None
        request.done = True
        self._close(request)

    async def _offer_again(self, request: Request, outgoing: OutgoingRecord, error: KafkaError) -> None:
        """When it is time, or another outcome. Raises KafkaException where the client is beyond help."""
        if error.fatal():
            raise KafkaException(error)
        if _too_large(error) and not request.shrunk:
            request.shrunk = True
            outgoing = self._handler.too_large(request.record)
        else:
            self._refused(error)
            await asyncio.sleep(REFUSED_WAIT_S)  # the same for all, so that those of one key stay in order
        self._offer(request, outgoing)

    def _refused(self, error: KafkaError) -> None:
        if self.refusing is None:
            log.error("the brokers refuse outcomes, which wait", extra={"error": error.name()})
        self.refusing = error.name()

    def _cancel(self, requests: Sequence[Request]) -> None:
        for request in requests:
            self._listen(request)
            if request.task is None or not request.task.cancel():  # it is looked up, or with the brokers
                self._close(request)

    def _listen(self, request: Request) -> None:
        """Hear how its task ends. Not of every task: for most there is nothing more to do then."""
        if request.task is not None:
            request.task.add_done_callback(partial(self._ended, request))

    def _end(self, request: Request) -> None:
        """One note to the consumer's thread for all that end in this moment."""
        if not self._over:
            self._loop.call_soon(self._tell_over)
        self._over.append(request)

    def _tell_over(self) -> None:
        if self._over:
            over, self._over = self._over, []
            self._settled.put(over)


def _not_begun(requests: Iterable[Request]) -> list[Request]:
    """Those that wait, and those that would overtake one of them: whoever does it later does those of its key after it."""
    found, keys = [], set()
    for request in requests:
        place = request.ledger, request.record.key
        if request.waits or place in keys:
            found.append(request)
            if request.record.key is not None:
                keys.add(place)
    return found


def _too_large(error: KafkaError) -> bool:
    return error.code() in (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE)
