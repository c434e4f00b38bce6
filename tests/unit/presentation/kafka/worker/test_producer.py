"""The producer thread with a scripted client."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from modules.llm_platform.presentation.kafka.contract.outcomes import OutgoingRecord
from modules.llm_platform.presentation.kafka.worker import known_brokers
from modules.llm_platform.presentation.kafka.worker import producer as producer_module
from modules.llm_platform.presentation.kafka.worker.clients import Callbacks
from modules.llm_platform.presentation.kafka.worker.producer import ProducerPump

OUTCOME = OutgoingRecord("out", b"k", b"v", (("a", b"b"), ("c", None)))
AWAY = KafkaError(KafkaError._MSG_TIMED_OUT)


class FakeProducer:
    """Reports records with the next poll, unless it is silent; the queue is full `full` times."""

    def __init__(self) -> None:
        self.records: list[tuple[Any, ...]] = []
        self.waiting: deque[Callable[..., None]] = deque()
        self.error: KafkaError | None = None
        self.refusal: KafkaError | None = None
        self.full = 0
        self.silent = False
        self.purged = False
        self.polled_on: set[int] = set()
        self.statistics: Callable[[str], object] = str

    def connect(self, callbacks: Callbacks) -> FakeProducer:
        self.statistics = callbacks["stats_cb"]
        return self

    def produce(self, topic: str, value: bytes, key: bytes | None, *, on_delivery: Any, headers: Any) -> None:
        if self.full:
            self.full -= 1
            raise BufferError
        if self.refusal is not None:
            raise KafkaException(self.refusal)
        if topic == "impossible":
            raise TypeError
        self.records.append((topic, value, key, headers))
        self.waiting.append(on_delivery)

    def poll(self, timeout: float) -> int:
        self.polled_on.add(threading.get_ident())
        time.sleep(min(timeout, 0.002))
        while self.waiting and not self.silent:
            self.waiting.popleft()(self.error, None)
        return 0

    def flush(self, timeout: float) -> int:
        self.poll(timeout)
        return len(self.waiting)

    def purge(self) -> None:
        self.purged, self.silent = True, False
        self.error = KafkaError(KafkaError._PURGE_QUEUE)


def produced(pump: ProducerPump, outgoing: OutgoingRecord = OUTCOME) -> asyncio.Future[KafkaError | None]:
    """Produce an outcome; return the future of its report."""
    report: asyncio.Future[KafkaError | None] = asyncio.get_running_loop().create_future()
    pump.produce(outgoing, report.set_result)
    return report


@pytest.fixture
def producer() -> FakeProducer:
    return FakeProducer()


@pytest.fixture
async def pump(producer: FakeProducer) -> AsyncIterator[ProducerPump]:
    pump = ProducerPump(producer.connect)  # type: ignore[arg-type]
    running = asyncio.create_task(asyncio.to_thread(pump.run))
    yield pump
    pump.stop()
    await running


async def test_acknowledged_outcome_is_reported(pump: ProducerPump, producer: FakeProducer) -> None:
    """With key, value and headers unchanged."""
    report = produced(pump)
    async with asyncio.timeout(30):
        assert await report is None
    assert producer.records == [("out", b"v", b"k", [("a", b"b"), ("c", None)])]
    assert producer.polled_on.isdisjoint({threading.get_ident()})


async def test_each_outcome_has_its_report(pump: ProducerPump) -> None:
    """However many there are at once."""
    reports = [produced(pump) for _ in range(500)]
    async with asyncio.timeout(30):
        assert await asyncio.gather(*reports) == [None] * 500


async def test_refused_outcome_is_reported(pump: ProducerPump, producer: FakeProducer) -> None:
    """By the brokers or by the client."""
    producer.error = AWAY
    async with asyncio.timeout(30):
        assert await produced(pump) == AWAY
    producer.refusal = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
    async with asyncio.timeout(30):
        assert await produced(pump) == producer.refusal


async def test_invalid_outcome_does_not_block_the_queue(pump: ProducerPump) -> None:
    """It is reported like a refusal."""
    impossible = OutgoingRecord("impossible", b"k", b"v", ())
    async with asyncio.timeout(30):
        broken, behind = await asyncio.gather(produced(pump, impossible), produced(pump))
    assert broken is not None
    assert broken.code() == KafkaError._INVALID_ARG
    assert behind is None


async def test_full_client_queue_is_retried(pump: ProducerPump, producer: FakeProducer) -> None:
    """In order."""
    producer.full = 3
    async with asyncio.timeout(30):
        assert await produced(pump) is None
    assert producer.full == 0


async def test_unwritten_outcomes_are_dropped_at_the_end(
    producer: FakeProducer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """With unreachable brokers; the log counts them, and their requests are read again."""
    monkeypatch.setattr(producer_module, "FLUSH_S", 0.01)
    producer.silent = True
    pump = ProducerPump(producer.connect)  # type: ignore[arg-type]
    running = asyncio.create_task(asyncio.to_thread(pump.run))
    produced(pump)
    pump.stop()
    await running
    assert producer.purged
    assert "outcomes were not written" in caplog.text


async def test_producer_that_has_lost_its_brokers_is_replaced(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its outcomes are reported as purged, so that they are produced again, and the next ones go to the new client."""
    monkeypatch.setattr(known_brokers, "LOST_AFTER_S", 0.0)
    first, second = FakeProducer(), FakeProducer()
    clients = iter((first, second))
    first.silent = True
    pump = ProducerPump(lambda callbacks: next(clients).connect(callbacks))  # type: ignore[arg-type,return-value]
    running = asyncio.create_task(asyncio.to_thread(pump.run))
    async with asyncio.timeout(30):
        report = produced(pump)
        await asyncio.sleep(0)
        first.statistics('{"brokers": {":0/internal": {"source": "internal"}}}')
        error = await report
        assert error is not None
        assert error.code() == KafkaError._PURGE_QUEUE
        assert await produced(pump) is None
    pump.stop()
    await running
    assert (len(first.records), len(second.records)) == (1, 1)
    assert "has forgotten all brokers" in caplog.text
