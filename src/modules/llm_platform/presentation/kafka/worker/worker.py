"""The worker: reads requests, tells each its one outcome, and commits what is told.

At least once, one outcome: an offset is committed when the outcomes of all requests below it are written for good, and
what is asked twice gets the bytes that were kept first.
"""

from __future__ import annotations

import asyncio
import logging
import re
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException

from modules.llm_platform.domain.dtos.retrieval_dtos import RagStage
from modules.llm_platform.domain.exceptions import OutcomeStoreError
from modules.llm_platform.domain.ports.outcome_store import IOutcomeStore
from modules.llm_platform.presentation.kafka.contract.requests import REQUEST_TOPICS
from modules.llm_platform.presentation.kafka.worker.clients import (
    Callbacks,
    Config,
    consumer_config,
    make_consumer,
    make_producer,
    producer_config,
)
from modules.llm_platform.presentation.kafka.worker.consumer import ConsumerThread, Settled
from modules.llm_platform.presentation.kafka.worker.dependencies import Dependencies
from modules.llm_platform.presentation.kafka.worker.handler import RagHandler
from modules.llm_platform.presentation.kafka.worker.lag_monitor import LagMonitor
from modules.llm_platform.presentation.kafka.worker.producer import ProducerPump
from modules.llm_platform.presentation.kafka.worker.scheduler import Handler, RequestScheduler

# What the clients complain about: said once, not with every try; and what is meant by it.


log = logging.getLogger(__name__)

AGAIN_AFTER_S: Final = 60.0

# By the error's code and words of librdkafka's own, most telling first; a group of the pattern goes into the text.
CAUSES: Final[tuple[tuple[int, str, str], ...]] = (
    (
        KafkaError._AUTHENTICATION, r"handshake failed.*supported mechanisms: *([\w, -]*)",
        "the brokers do not take this way to log in (they offer: {}): check sasl.mechanism and security.protocol in "
        "KAFKA_CONFIG",
    ),
    (
        KafkaError._AUTHENTICATION, "",
        "wrong user name or password: check sasl.username and sasl.password in KAFKA_CONFIG",
    ),
    (
        KafkaError._SSL, "certificate verify failed",
        "unknown CA, or a certificate for another name: set ssl.ca.location in KAFKA_CONFIG to the CA that signed the brokers' "
        "certificate, and name them in KAFKA_BOOTSTRAP_SERVERS as it does",
    ),
    (KafkaError._SSL, "", "TLS fails: check security.protocol and the ssl.… settings in KAFKA_CONFIG"),
    (
        KafkaError._RESOLVE, r"Failed to resolve '([^']*)'",
        "unknown host: {} has no address; check KAFKA_BOOTSTRAP_SERVERS",
    ),
    (
        KafkaError._TRANSPORT, "PLAINTEXT broker listener|SSL connection closed",
        "no TLS is spoken there: check security.protocol in KAFKA_CONFIG, or the port in KAFKA_BOOTSTRAP_SERVERS",
    ),
    (KafkaError._TRANSPORT, "Connection refused", "nothing listens there: check KAFKA_BOOTSTRAP_SERVERS"),
)  # fmt: skip


def cause_of(errors: Iterable[KafkaError]) -> str | None:
    """Why no broker could be reached, by what the client complained about meanwhile; None where that does not tell."""
    said = [(error.code(), error.str()) for error in errors]
    for code, pattern, words in CAUSES:
        for its_code, text in said:
            if code == its_code and (found := re.search(pattern, text)):
                return words.format(*(group.strip() or "none" for group in found.groups()))
    return None


class ClientErrorLog:
    """`broken` is called for what the clients cannot get over: everything else they try on by themselves."""

    def __init__(self, broken: Callable[[KafkaError], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._broken = broken
        self._clock = clock
        self._said: dict[int, float] = {}  # by code, when

    def note(self, error: KafkaError) -> None:
        """A broker that is away, a topic that is not there; on whichever thread polls."""
        now = self._clock()
        if now >= self._said.get(error.code(), now):
            self._said[error.code()] = now + AGAIN_AFTER_S
            log.warning("the brokers give trouble", extra={"error": error.name(), "said": error.str()})
        if error.fatal():
            self._broken(error)


BUFFERED: Final = 2  # windows of requests that are read: one is worked on, one waits to be
NOT_SETTLED: Final = "the group has not settled; if it never does, `llm-platform worker --check` says what is missing"
STAGES: Final[tuple[RagStage, ...]] = ("search", "answer")


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """`config` is KAFKA_CONFIG, `stall_s` KAFKA_STALL_S. Raises nothing; `run_worker` does."""

    brokers: Sequence[str]
    group_id: str = "rag-core"
    stages: Sequence[RagStage] = STAGES
    concurrency: int = 16
    drain_s: float = 20.0
    stall_s: float = 30.0
    config: Config = field(default_factory=dict, repr=False)  # with its passwords


async def run_worker(handler: Handler, options: WorkerOptions, *, stop: asyncio.Event | None = None) -> None:
    """Work until SIGTERM, SIGINT or `stop`, then drain: nothing is answered twice for a stop.

    Raises SettingsError for settings that cannot be used, and KafkaException where a client is beyond help; whatever was
    read and not told by then will be read again.
    """
    worker = Worker(handler, options)
    with stopped_by_signals(worker.stop):
        watching = asyncio.create_task(_when(stop, worker.stop)) if stop is not None else None
        try:
            await worker.run()
        finally:
            if watching is not None:
                watching.cancel()


class Worker:
    """One run, which begins when this is made. Everything but the two threads' own work happens on the running loop."""

    def __init__(
        self,
        handler: Handler,
        options: WorkerOptions,
        dependencies: Dependencies | None = None,
    ) -> None:
        given, brokers = options.config, options.brokers
        self._loop = asyncio.get_running_loop()
        self._options = options
        self._asked_to_stop, self._in_a_hurry = asyncio.Event(), asyncio.Event()
        self._trouble = ClientErrorLog(self._broken)
        callbacks: Callbacks = {"error_cb": self._trouble.note}
        settled: Settled = SimpleQueue()
        self._pump = ProducerPump(make_producer(producer_config(brokers, given), callbacks))
        self.desk = RequestScheduler(handler, self._pump, options.concurrency, settled)
        self.reader = ConsumerThread(
            lambda more: make_consumer(consumer_config(brokers, options.group_id, given), {**callbacks, **more}),
            [REQUEST_TOPICS[stage] for stage in options.stages],
            BUFFERED * options.concurrency,
            settled,
            lambda requests: self._loop.call_soon_threadsafe(self.desk.take, requests),
            lambda ledgers, all_of_them: self._loop.call_soon_threadsafe(self.desk.let_go, ledgers, all_of_them),
            self._trouble.note,
        )
        quiet = {**consumer_config(brokers, options.group_id, given), "statistics.interval.ms": 0}
        self.lag_monitor = LagMonitor(
            make_consumer(quiet, {}), self.reader.assigned, lambda: self.reader.full_at, options.stall_s
        )
        self.dependencies = dependencies or Dependencies()
        self.dependencies.only_for(options.stages)
        self.dependencies.taking = lambda go_on: self.reader.resume_taking() if go_on else self.reader.suspend()
        self.reasons: list[Callable[[], str | None]] = [
            self._not_working, self.dependencies.not_ready, self.lag_monitor.not_ready,
        ]  # fmt: skip

    def stop(self) -> None:
        """Take nothing more, finish what is under way, and end. A second call: end at once."""
        if self._asked_to_stop.is_set():
            self._in_a_hurry.set()
        self._asked_to_stop.set()

    def not_ready(self) -> list[str]:
        """Why requests are not answered right now; empty: they are. Each of `reasons` may give one."""
        return [reason for each in self.reasons if (reason := each()) is not None]

    def _not_working(self) -> str | None:
        if self._asked_to_stop.is_set():
            return "stopping"
        if not self.reader.view.brokers_up:
            return "no broker can be reached"
        if self.desk.refusing is not None:
            return f"the brokers refuse outcomes: {self.desk.refusing}"
        return None if self.reader.view.joined else NOT_SETTLED

    async def run(self) -> None:
        """Until `stop`. See `run_worker`."""
        with ThreadPoolExecutor(2, "kafka") as threads:
            pumping = self._loop.run_in_executor(threads, self._pump.run)
            reading = self._loop.run_in_executor(threads, self.reader.run)
            self.lag_monitor.start()
            watching = self._loop.create_task(self.dependencies.watch())
            watching.add_done_callback(self._watched)
            try:
                await self._until_over(reading, pumping, self.desk.failure)
                await self._drain()
            finally:
                await self.desk.drain(0)
                self.lag_monitor.stop()
                watching.cancel()
                self.reader.leave()
                self._pump.stop()
                await asyncio.wait([reading, pumping])
        for thread in (reading, pumping):
            thread.result()

    async def _until_over(self, *failures: asyncio.Future[None]) -> None:
        """Until somebody wants the worker to stop, or something is broken for good."""
        await self._first_of([self._loop.create_task(self._asked_to_stop.wait())], failures)
        for failure in failures:
            if failure.done():
                failure.result()

    async def _drain(self) -> None:
        log.info("stopping: nothing more is taken", extra={"in_flight": self.desk.in_flight})
        self.reader.drain()
        self.dependencies.give_up()
        draining = self._loop.create_task(self.desk.drain(self._options.drain_s))
        await self._first_of([draining, self._loop.create_task(self._in_a_hurry.wait())], [self.desk.failure])

    @staticmethod
    async def _first_of(tasks: Sequence[asyncio.Task[Any]], others: Sequence[asyncio.Future[Any]]) -> None:
        """Until one of them is done. The tasks end with that."""
        try:
            await asyncio.wait([*tasks, *others], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()

    def _watched(self, watching: asyncio.Task[None]) -> None:
        if not watching.cancelled() and (error := watching.exception()) is not None:
            self.desk.fail(error)

    def _broken(self, error: KafkaError) -> None:
        self._loop.call_soon_threadsafe(self.desk.fail, KafkaException(error))


@contextmanager
def stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


async def _when(event: asyncio.Event, call: Callable[[], None]) -> None:
    await event.wait()
    call()


# What a worker is put together from, besides Kafka's clients.


@dataclass(frozen=True, slots=True)
class WorkerParts:
    """`outcomes` is the store that the handler uses; `notes` are what its operator should know, a line each; `dependencies`
    are those that the handler asks.
    """

    handler: RagHandler
    outcomes: IOutcomeStore
    notes: tuple[str, ...] = ()
    dependencies: Dependencies = field(default_factory=Dependencies)


# Removes outcomes that are older than they are kept, while the worker works.


EVERY_S: Final = 3600.0


async def remove_expired_outcomes(outcomes: IOutcomeStore, every_s: float = EVERY_S) -> None:
    """At once and then every so often, until it is cancelled."""
    while True:
        try:
            removed = await outcomes.clean()
        except OutcomeStoreError as error:  # the handler waits for the store; this has time until the next round
            log.warning("old outcomes could not be removed", extra={"error": error.message})
        else:
            log.info("old outcomes removed", extra={"count": removed})
        await asyncio.sleep(every_s)
