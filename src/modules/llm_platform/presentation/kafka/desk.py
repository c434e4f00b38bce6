"""The loop's side of the worker: requests become outcomes, and each is written before it is over.

All that were read are with the handler at once, which looks up what was kept; so many as there are slots get to their stage.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final, Protocol

from confluent_kafka import KafkaError, KafkaException

from modules.llm_platform.presentation.kafka.consumer_thread import Settled
from modules.llm_platform.presentation.kafka.offsets import PartitionLedger
from modules.llm_platform.presentation.kafka.points import At
from modules.llm_platform.presentation.kafka.producer_pump import ProducerPump
from modules.llm_platform.presentation.kafka.records import IncomingRecord, OutgoingRecord
from modules.llm_platform.presentation.kafka.request import Request
from modules.llm_platform.presentation.kafka.slots import Slot, Slots
from modules.llm_platform.presentation.kafka.turns import Turns

log = logging.getLogger(__name__)

GIVE_UP_S: Final = 5.0  # for a task that was cancelled to end
REFUSED_WAIT_S: Final = 2.0  # before an outcome that the brokers refused is offered to them again


class Handler(Protocol):
    """From bytes to the one outcome; it knows no Kafka. handler.py has it."""

    async def handle(self, record: IncomingRecord, slot: Slot) -> OutgoingRecord:
        """Raises nothing but CancelledError, after which the request has no outcome. `slot` is held while its stage runs."""

    def too_large(self, record: IncomingRecord) -> OutgoingRecord:
        """What to tell instead of an outcome that the brokers find too large; the same each time."""


class Desk:
    """Works on the stages of `concurrency` requests at once. Those that are over go to `settled`, in lists."""

    def __init__(
        self,
        handler: Handler,
        pump: ProducerPump,
        concurrency: int,
        settled: Settled,
        at: At | None = None,
    ) -> None:
        self._handler, self._pump, self._settled, self._at = handler, pump, settled, at
        self._slots = Slots(concurrency)
        self._loop = asyncio.get_running_loop()
        self._open: dict[Request, None] = {}  # with the handler, or with the brokers; as they came
        self._over: list[Request] = []
        self._turns = Turns()
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
            self._end(requests)
            return
        for request in requests:
            record = request.record
            if record.key is not None:
                request.turn = self._turns.take((record.topic, record.partition, record.key))
            request.slot = Slot(self._slots)
            self._open[request] = None
            request.task = self._loop.create_task(self._carry_out(request, request.slot))
            request.task.add_done_callback(partial(self._ended, request))
        if self._open:
            self._idle.clear()

    def let_go(self, ledgers: Sequence[PartitionLedger], at_once: bool) -> None:
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
            await asyncio.wait([request.task for request in self._open if request.task], timeout=GIVE_UP_S)
        self._tell_over()

    def fail(self, error: BaseException) -> None:
        """It is beyond help: whoever waits for `failure` learns why."""
        if not self.failure.done():
            self.failure.set_exception(error)

    async def _carry_out(self, request: Request, slot: Slot) -> None:
        outgoing = await self._handler.handle(request.record, slot)
        request.slot = None
        if request.turn is not None:
            await request.turn.comes()
        error = await self._offer(request, outgoing)
        if error is not None and _too_large(error):
            outgoing = self._handler.too_large(request.record)
            error = await self._offer(request, outgoing)
        while error is not None:
            self._refused(error)
            await asyncio.sleep(REFUSED_WAIT_S)  # the same for all, so that those of one key stay in order
            error = await self._offer(request, outgoing)
        self.refusing = None
        if self._at is not None:
            self._at("after_produce")
        request.done = True

    def _ended(self, request: Request, task: asyncio.Task[None]) -> None:
        """However it ended. Not part of the task: one that is cancelled before its first step never runs a line."""
        if request.turn is not None:
            request.turn.passes()
        self._open.pop(request, None)
        self._end((request,))
        if not task.cancelled() and (error := task.exception()) is not None:
            self.fail(error)
        if not self._open:
            self._idle.set()

    async def _offer(self, request: Request, outgoing: OutgoingRecord) -> KafkaError | None:
        """One try; the brokers' refusal. The next one of the same key goes as soon as the client has this one: it keeps
        their order. Raises KafkaException where the client is beyond help.
        """
        try:
            report = await self._pump.hand_over(outgoing)
        except KafkaException as refused:
            error: KafkaError | None = refused.args[0]
        else:
            if request.turn is not None:
                request.turn.passes()
            error = await report
        if error is not None and error.fatal():
            raise KafkaException(error)
        return error

    def _refused(self, error: KafkaError) -> None:
        if self.refusing is None:
            log.error("the brokers refuse outcomes, which wait", extra={"error": error.name()})
        self.refusing = error.name()

    def _cancel(self, requests: Sequence[Request]) -> None:
        for request in requests:
            if request.task is not None:
                request.task.cancel()

    def _end(self, requests: Sequence[Request]) -> None:
        """One note to the consumer's thread for all that end in this moment."""
        if not self._over:
            self._loop.call_soon(self._tell_over)
        self._over.extend(requests)

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
