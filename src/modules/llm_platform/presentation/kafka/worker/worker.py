"""The worker: it consumes requests, writes exactly one outcome for each, and commits the offsets of written outcomes.

Delivery is at least once: an offset is committed after the outcomes of all requests below it are written. A duplicate request
gets the bytes of the stored outcome.
"""

import asyncio
import logging
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException

from modules.llm_platform.domain.dtos.retrieval_dtos import RagStage
from modules.llm_platform.domain.exceptions import OutcomeStoreError
from modules.llm_platform.domain.ports.metrics import NO_METRICS, IMetrics
from modules.llm_platform.domain.ports.outcome_store import IFailedRequestStore, IOutcomeStore
from modules.llm_platform.presentation.kafka.contract.requests import CONTRACT_TOPICS, STAGES, Topics
from modules.llm_platform.presentation.kafka.contract.wire_format import MessageSchemas
from modules.llm_platform.presentation.kafka.worker import clients
from modules.llm_platform.presentation.kafka.worker.consumer import ConsumerThread
from modules.llm_platform.presentation.kafka.worker.dependencies import Dependencies
from modules.llm_platform.presentation.kafka.worker.handler import RagHandler
from modules.llm_platform.presentation.kafka.worker.lag_monitor import LagMonitor
from modules.llm_platform.presentation.kafka.worker.producer import ProducerPump
from modules.llm_platform.presentation.kafka.worker.scheduler import Handler, RequestScheduler, SettledQueue

log = logging.getLogger(__name__)

WINDOW_FACTOR: Final = 2  # requests in flight per concurrent stage: one runs, one waits
CLEANUP_INTERVAL_S: Final = 3600.0
FIRST_CLEANUP_S: Final = 600.0  # what was in flight before a restart is answered by then, whatever the clock says now
NOT_JOINED: Final = (
    "the group assignment is not complete; if this lasts, `llm-platform worker --check` shows what is missing"
)


@dataclass(frozen=True, slots=True)
class WorkerParts:
    """The parts from which a worker is built, beside Kafka's clients.

    - `outcomes` and `dependencies` belong to the handler.
    - `notes` are lines for the operator.
    - `metrics` count calls of upstreams and caches.
    """

    handler: RagHandler
    outcomes: IOutcomeStore
    notes: tuple[str, ...] = ()
    dependencies: Dependencies = field(default_factory=Dependencies)
    metrics: IMetrics = NO_METRICS
    failed_requests: IFailedRequestStore | None = None
    schemas: MessageSchemas | None = None


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """Options of a worker.

    - `drain_s` is the time in seconds that running requests get to finish after a stop.
    - `stall_s` is the time in seconds without progress on a partition with lag after which the worker is not ready.
    - `config` is KAFKA_CONFIG.
    """

    brokers: Sequence[str]
    group_id: str = "rag-core"
    stages: Sequence[RagStage] = STAGES
    concurrency: int = 16
    drain_s: float = 20.0
    stall_s: float = 30.0
    config: clients.Config = field(default_factory=dict, repr=False)  # contains passwords
    topics: Topics = CONTRACT_TOPICS
    schemas: MessageSchemas | None = None  # loaded before a request is consumed


class Worker:
    """One run of a worker. It belongs to the running event loop. Consumer, producer and lag monitor have their own
    threads."""

    def __init__(self, handler: Handler, options: WorkerOptions, dependencies: Dependencies | None = None) -> None:
        """Raises SettingsError for an invalid configuration."""
        config, brokers = options.config, options.brokers
        self._loop = asyncio.get_running_loop()
        self._options = options
        self._stop_requested, self._abort_requested = asyncio.Event(), asyncio.Event()
        self._error_log = clients.ClientErrorLog(self._fail)
        callbacks: clients.Callbacks = {"error_cb": self._error_log.handle}
        settled: SettledQueue = SimpleQueue()
        self._pump = ProducerPump(
            lambda more: clients.make_producer(clients.make_producer_config(brokers, config), {**callbacks, **more})
        )
        self.scheduler = RequestScheduler(handler, self._pump, options.concurrency, settled)
        self.consumer = ConsumerThread(
            lambda more: clients.make_consumer(
                clients.make_consumer_config(brokers, options.group_id, config), {**callbacks, **more}
            ),
            options.topics.read_by(options.stages),
            WINDOW_FACTOR * options.concurrency,
            settled,
            lambda requests: self._loop.call_soon_threadsafe(self.scheduler.submit, requests),
            lambda trackers, cancel_running: self._loop.call_soon_threadsafe(
                self.scheduler.revoke, trackers, cancel_running
            ),
            self._error_log.handle,
        )
        self.lag_monitor = LagMonitor(
            partial(clients.make_group_reader, brokers, options.group_id, config),
            self.consumer.assignment,
            lambda: self.consumer.full_at,
            options.stall_s,
        )
        self.dependencies = dependencies or Dependencies()
        self.dependencies.restrict_to(options.stages)
        self.dependencies.on_usable_changed = lambda is_usable: (
            self.consumer.resume() if is_usable else self.consumer.suspend()
        )

    def stop(self) -> None:
        """Consume nothing more, finish running requests, and end. A second call ends at once."""
        if self._stop_requested.is_set():
            self._abort_requested.set()
        self._stop_requested.set()

    def not_ready(self) -> list[str]:
        """Return the reasons why requests are not answered now. There are none if they are."""
        checks = (self._own_state, self.dependencies.not_ready, self.lag_monitor.not_ready)
        return [reason for check in checks if (reason := check()) is not None]

    def _own_state(self) -> str | None:
        if self._stop_requested.is_set():
            return "stopping"
        if self._options.schemas is not None and self._options.schemas.error is not None:
            return self._options.schemas.error
        if not self.consumer.state.brokers_up:
            remedy = self._error_log.remedy()
            return f"no broker can be reached: {remedy}" if remedy else "no broker can be reached"
        if self.scheduler.produce_error is not None:
            return f"the brokers refuse outcomes: {self.scheduler.produce_error}"
        return None if self.consumer.state.is_stable else NOT_JOINED

    async def run(self) -> None:
        """Run until `stop`. Raises KafkaException for a fatal error of a client. Unfinished requests are read again later."""
        if self._options.schemas is not None:
            # Wait for the ids of the schemas, or for `stop`, after which nothing is consumed.
            loading = self._loop.create_task(self._options.schemas.load_until_done(self._options.stages))
            await self._wait_for_first([loading, self._loop.create_task(self._stop_requested.wait())], [])
            if self._options.schemas.error is not None:
                self.consumer.close()
        with ThreadPoolExecutor(2, "kafka") as threads:
            pump = self._loop.run_in_executor(threads, self._pump.run)
            consumer = self._loop.run_in_executor(threads, self.consumer.run)
            self.lag_monitor.start()
            probes = self._loop.create_task(self.dependencies.watch())
            probes.add_done_callback(self._handle_end_of_probes)
            try:
                failures = (consumer, pump, self.scheduler.failure)
                await self._wait_for_first([self._loop.create_task(self._stop_requested.wait())], failures)
                for failure in failures:
                    if failure.done():
                        failure.result()
                await self._drain()
            finally:
                await self.scheduler.drain(0)
                self.lag_monitor.stop()
                probes.cancel()
                self.consumer.close()
                self._pump.stop()
                await asyncio.wait([consumer, pump])
        for thread in (consumer, pump):
            thread.result()

    async def _drain(self) -> None:
        log.info("stopping: no more requests are consumed", extra={"in_flight": self.scheduler.in_flight})
        self.consumer.drain()
        self.dependencies.stop_waiting()
        drain = self._loop.create_task(self.scheduler.drain(self._options.drain_s))
        abort = self._loop.create_task(self._abort_requested.wait())
        await self._wait_for_first([drain, abort], [self.scheduler.failure])

    @staticmethod
    async def _wait_for_first(tasks: Sequence[asyncio.Task[Any]], futures: Sequence[asyncio.Future[Any]]) -> None:
        """Wait until one of them is done, then cancel the tasks."""
        try:
            await asyncio.wait([*tasks, *futures], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()

    def _handle_end_of_probes(self, probes: asyncio.Task[None]) -> None:
        if not probes.cancelled() and (error := probes.exception()) is not None:
            self.scheduler.fail(error)

    def _fail(self, error: KafkaError) -> None:
        self._loop.call_soon_threadsafe(self.scheduler.fail, KafkaException(error))


async def run_worker(handler: Handler, options: WorkerOptions) -> None:
    """Run a worker until SIGTERM or SIGINT. Raises SettingsError and KafkaException."""
    worker = Worker(handler, options)
    with stop_on_signals(worker.stop):
        await worker.run()


@contextmanager
def stop_on_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` for each SIGTERM and SIGINT."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


async def remove_expired_outcomes(
    outcomes: IOutcomeStore,
    interval_s: float = CLEANUP_INTERVAL_S,
    failed_requests: IFailedRequestStore | None = None,
) -> None:
    """Remove expired outcomes and failed requests after FIRST_CLEANUP_S and then every `interval_s`, until cancelled."""
    await asyncio.sleep(min(FIRST_CLEANUP_S, interval_s))
    while True:
        try:
            removed = await outcomes.clean()
            if failed_requests is not None:
                await failed_requests.clean()
        except OutcomeStoreError as error:  # the handler waits for the store; the cleanup waits for its next round
            log.warning("expired outcomes could not be removed", extra={"error": error.message})
        else:
            log.info("expired outcomes removed", extra={"count": removed})
        await asyncio.sleep(interval_s)
