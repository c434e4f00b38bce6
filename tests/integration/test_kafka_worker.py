"""The worker in this process on the mock cluster: cases that the black-box contract suite cannot arrange."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from tests.kafka.broker import Broker
from tests.kafka.crash_points import At, Point, crash_points
from tests.kafka.mock_cluster import MockCluster

from modules.llm_platform.presentation.cli.commands.worker import get_loop_factory
from modules.llm_platform.presentation.cli.exit_codes import run_async
from modules.llm_platform.presentation.kafka.contract.outcomes import IncomingRecord, OutgoingRecord
from modules.llm_platform.presentation.kafka.worker import lag_monitor
from modules.llm_platform.presentation.kafka.worker.in_flight_request import Slot
from modules.llm_platform.presentation.kafka.worker.scheduler import Handler
from modules.llm_platform.presentation.kafka.worker.worker import Worker, WorkerOptions, run_worker
from modules.llm_platform.testing.waiting import becomes_true
from shared.config import SettingsError

REQUESTS, RESULTS, FAILED = "rag_search_request", "rag_search_result", "rag_failed"
PATIENCE_S = 60.0
PARTITIONS = 2
REPLY_DELAY_MS = 500


@pytest.fixture
def broker() -> Iterator[MockCluster]:
    with MockCluster({REQUESTS: PARTITIONS, RESULTS: 1, FAILED: 1}) as mock:
        yield mock


class Echo:
    """Returns the request's value once the gate is open. `answer` replaces the outcome."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.gate.set()
        self.handled: list[IncomingRecord] = []
        self.answer: Callable[[IncomingRecord], bytes] = lambda record: record.value or b"tombstone"

    async def prepare(self, records: Sequence[IncomingRecord]) -> Sequence[IncomingRecord]:
        return records

    async def process(self, job: IncomingRecord, slot: Slot) -> OutgoingRecord:
        async with slot:
            self.handled.append(job)
            await self.gate.wait()
        return OutgoingRecord(RESULTS, job.key, self.answer(job), job.headers)

    def replace_oversized(self, record: IncomingRecord) -> OutgoingRecord:
        return OutgoingRecord(FAILED, record.key, b"too large")


def options(broker: Broker, concurrency: int = 4, drain_s: float = 5.0, stall_s: float = 30.0) -> WorkerOptions:
    config = {**broker.client, "statistics.interval.ms": 100}
    return WorkerOptions([broker.bootstrap], "team", ("search",), concurrency, drain_s, stall_s, config)


@asynccontextmanager
async def watched(at: At) -> AsyncIterator[None]:
    with crash_points(at):
        yield


@asynccontextmanager
async def working(handler: Handler, told: WorkerOptions) -> AsyncIterator[Worker]:
    worker = Worker(handler, told)
    running = asyncio.create_task(worker.run())
    try:
        assert await becomes_true(lambda: not worker.not_ready() or running.done(), PATIENCE_S)
        yield worker
    finally:
        worker.stop()
        worker.stop()
        await running


def send(broker: MockCluster, values: Sequence[bytes | None], partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for value in values:
        producer.produce(REQUESTS, value, b"k", partition)
    assert producer.flush(PATIENCE_S) == 0


def read(broker: MockCluster, topic: str, count: int) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "reader", "fetch.wait.max.ms": 10})
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[bytes] = []
    until = time.monotonic() + PATIENCE_S
    while len(values) < count and time.monotonic() < until:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            value = message.value()
            values.append(value if isinstance(value, bytes) else b"")
    consumer.close()
    return values


def committed(broker: MockCluster, partition: int = 0) -> int:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "team"})
    [position] = consumer.committed([TopicPartition(REQUESTS, partition)], timeout=PATIENCE_S)
    consumer.close()
    return int(position.offset)


async def test_requests_are_answered_and_committed(broker: MockCluster) -> None:
    """Requests of a key are answered in order, with a tombstone, and no lag remains."""
    points: list[Point] = []
    handler = Echo()
    async with watched(points.append), working(handler, options(broker)) as worker:
        await asyncio.to_thread(send, broker, [b"1", None, b"3"])
        assert await asyncio.to_thread(read, broker, RESULTS, 3) == [b"1", b"tombstone", b"3"]
        assert await becomes_true(lambda: worker.lag_monitor.lag.get((REQUESTS, 0)) == 0, PATIENCE_S)
        assert worker.consumer.committer.age_s() == 0
    assert await asyncio.to_thread(committed, broker) == 3
    assert {"after_poll", "after_produce", "before_commit", "after_commit", "in_rebalance", "in_shutdown"} <= set(
        points
    )


def test_worker_runs_on_the_event_loop_of_the_command(broker: MockCluster) -> None:
    """SIGTERM ends the worker with all requests committed."""
    values = [b"%d" % number for number in range(200)]

    async def play() -> None:
        running = asyncio.create_task(run_worker(Echo(), options(broker)))
        await asyncio.to_thread(send, broker, values)
        assert await asyncio.to_thread(read, broker, RESULTS, len(values)) == values
        os.kill(os.getpid(), signal.SIGTERM)
        async with asyncio.timeout(PATIENCE_S):
            await running

    run_async(play(), get_loop_factory())
    assert committed(broker) == len(values)


async def test_window_limits_consumed_requests(broker: MockCluster) -> None:
    """The window limits how many requests are consumed at once. All are answered later."""
    handler = Echo()
    handler.gate.clear()
    async with working(handler, options(broker, concurrency=3)) as worker:
        await asyncio.to_thread(send, broker, [b"%d" % number for number in range(50)])
        assert await becomes_true(lambda: worker.scheduler.waiting == 3, PATIENCE_S)
        await asyncio.sleep(1.5)  # longer than pausing the partitions takes
        assert (worker.scheduler.in_flight, worker.scheduler.waiting) == (3, 3)
        assert worker.not_ready() == []
        assert await becomes_true(lambda: worker.lag_monitor.lag.get((REQUESTS, 0)) == 50, PATIENCE_S)
        handler.gate.set()
        assert len(await asyncio.to_thread(read, broker, RESULTS, 50)) == 50


async def test_stop_waits_for_running_requests(broker: MockCluster) -> None:
    """After a stop nothing more is consumed. Running requests are written and committed."""
    handler = Echo()
    handler.gate.clear()
    async with working(handler, options(broker, concurrency=2)) as worker:
        await asyncio.to_thread(send, broker, [b"%d" % number for number in range(10)])
        assert await becomes_true(lambda: len(handler.handled) == 2, PATIENCE_S)
        worker.stop()
        assert worker.not_ready() == ["stopping"]
        await asyncio.sleep(0.2)
        handler.gate.set()
        assert await becomes_true(lambda: worker.scheduler.in_flight == 0, PATIENCE_S)
    assert len(handler.handled) == 2
    assert await asyncio.to_thread(committed, broker) == 2


async def test_drain_timeout_ends_the_worker(broker: MockCluster) -> None:
    """A request that outlasts the drain timeout is not committed, and the next worker answers it."""
    handler = Echo()
    handler.gate.clear()
    worker = Worker(handler, options(broker, drain_s=0.2))
    running = asyncio.create_task(worker.run())
    await asyncio.to_thread(send, broker, [b"slow"])
    assert await becomes_true(lambda: len(handler.handled) == 1, PATIENCE_S)
    worker.stop()
    async with asyncio.timeout(PATIENCE_S):
        await running
    assert await asyncio.to_thread(committed, broker) < 0
    handler.gate.set()
    async with working(handler, options(broker)):
        assert await asyncio.to_thread(read, broker, RESULTS, 1) == [b"slow"]


async def test_outcome_beyond_the_client_limit_becomes_a_failure(broker: MockCluster) -> None:
    """An outcome above the client's message limit becomes a failure, and later requests are answered."""
    handler = Echo()
    handler.answer = lambda record: (record.value or b"") * (2_000_000 if record.value == b"x" else 1)
    async with working(handler, options(broker)):
        await asyncio.to_thread(send, broker, [b"x", b"y"])
        assert await asyncio.to_thread(read, broker, FAILED, 1) == [b"too large"]
        assert await asyncio.to_thread(read, broker, RESULTS, 1) == [b"y"]


async def test_handler_defect_ends_the_worker(broker: MockCluster) -> None:
    """A request whose handler has a defect is not committed."""
    handler = Echo()

    def broken(record: IncomingRecord) -> bytes:
        raise RuntimeError("a defect")

    handler.answer = broken
    running = asyncio.create_task(run_worker(handler, options(broker)))
    await asyncio.to_thread(send, broker, [b"1"])
    with pytest.raises(RuntimeError, match="a defect"):
        async with asyncio.timeout(PATIENCE_S):
            await running
    assert await asyncio.to_thread(committed, broker) < 0


async def test_stalled_partition_makes_the_worker_unready(broker: MockCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker is not ready until the stalled partition is read again. The other partition is answered meanwhile."""
    monkeypatch.setattr(lag_monitor, "QUERY_INTERVAL_S", 0.1)
    stranded = [TopicPartition(REQUESTS, 1)]
    on_its_thread: list[Callable[[], None]] = []  # what to do to the client without the worker's knowledge

    def passed(point: Point) -> None:
        while point == "after_poll" and on_its_thread:
            on_its_thread.pop()()

    async with watched(passed), working(Echo(), options(broker, stall_s=1.0)) as worker:
        monitor, consumer = worker.lag_monitor, worker.consumer._consumer
        assert await becomes_true(lambda: monitor.lag == {(REQUESTS, 0): 0, (REQUESTS, 1): 0}, PATIENCE_S)
        on_its_thread.append(lambda: consumer.pause(stranded))
        await asyncio.to_thread(send, broker, [b"first"])
        assert await asyncio.to_thread(read, broker, RESULTS, 1) == [b"first"]
        await asyncio.to_thread(send, broker, [b"waits"] * 14, 1)
        await asyncio.to_thread(send, broker, [b"goes on"])
        assert await asyncio.to_thread(read, broker, RESULTS, 2) == [b"first", b"goes on"]
        lags = {(REQUESTS, 0): 0, (REQUESTS, 1): 14}
        # On a busy machine the other partition may be briefly late, too.
        assert await becomes_true(lambda: list(monitor.stalled) == [(REQUESTS, 1)] and monitor.lag == lags, PATIENCE_S)
        assert worker.not_ready()
        on_its_thread.append(lambda: consumer.resume(stranded))
        await asyncio.to_thread(send, broker, [b"last"])
        assert await becomes_true(lambda: not worker.not_ready() and monitor.lag[REQUESTS, 1] == 0, PATIENCE_S)


async def test_full_window_does_not_stall(broker: MockCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full window counts as lag, not as a stall."""
    monkeypatch.setattr(lag_monitor, "QUERY_INTERVAL_S", 0.1)
    handler = Echo()
    handler.gate.clear()
    async with working(handler, options(broker, concurrency=1, stall_s=0.5)) as worker:
        await asyncio.to_thread(send, broker, [b"slow"] * 20)
        assert await becomes_true(lambda: worker.lag_monitor.lag.get((REQUESTS, 0)) == 20, PATIENCE_S)
        await asyncio.sleep(2)
        assert worker.not_ready() == []
        handler.gate.set()


async def test_each_worker_counts_the_lag_of_its_partitions(broker: MockCluster) -> None:
    """Each broker is counted once, regardless of its connections."""
    handler = Echo()
    handler.gate.clear()
    async with working(handler, options(broker)) as worker:
        for partition in range(PARTITIONS):
            await asyncio.to_thread(send, broker, [b"waits"] * 9, partition)
        both = {(REQUESTS, partition): 9 for partition in range(PARTITIONS)}
        assert await becomes_true(lambda: worker.lag_monitor.lag == both, PATIENCE_S)
        assert worker.consumer.state.brokers_up == 1
        async with working(handler, options(broker)) as another:
            assert await becomes_true(
                lambda: (
                    dict(worker.lag_monitor.lag) | dict(another.lag_monitor.lag) == both
                    and len(worker.lag_monitor.lag) == len(another.lag_monitor.lag) == 1
                ),
                PATIENCE_S,
            )
            handler.gate.set()


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
async def test_signal_stops_the_worker(broker: MockCluster, name: str) -> None:
    """The worker stops on a signal and removes its signal handlers."""
    handler = Echo()
    running = asyncio.create_task(run_worker(handler, options(broker)))
    await asyncio.to_thread(send, broker, [b"1"])
    assert await becomes_true(lambda: len(handler.handled) == 1, PATIENCE_S)
    os.kill(os.getpid(), signal.Signals[name])
    async with asyncio.timeout(PATIENCE_S):
        await running
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


async def test_refused_outcome_is_written_before_the_next_one(broker: MockCluster) -> None:
    """The next outcome is sent only after a refused one is written.

    A starting broker refuses the first outcome of a partition that it does not lead yet, and accepts the next one a
    moment later, because it knows no sequence number of this producer. If both were sent at once, librdkafka would
    infer from the second that the first was written, and report it as delivered.
    """
    handler = Echo()
    handler.gate.clear()
    told = options(broker)
    told.config["batch.num.messages"] = 1  # one produce request for each outcome
    async with working(handler, told):
        await asyncio.to_thread(send, broker, [b"refused", b"accepted"])
        assert await becomes_true(lambda: len(handler.handled) == 2, PATIENCE_S)
        broker.delay_replies(REPLY_DELAY_MS)  # the refusal arrives after the second request is sent
        broker.refuse_next_produce(KafkaError.NOT_LEADER_FOR_PARTITION)
        handler.gate.set()
        assert await asyncio.to_thread(read, broker, RESULTS, 2) == [b"refused", b"accepted"]


async def test_invalid_config_prevents_the_start() -> None:
    """An invalid configuration is refused before a connection is made."""
    with pytest.raises(SettingsError, match="acks"):
        await run_worker(Echo(), WorkerOptions(["127.0.0.1:9"], config={"acks": 0}))
