"""The thread that writes outcomes, with a client that does as it is told."""

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
from modules.llm_platform.presentation.kafka.worker import producer as producer_module
from modules.llm_platform.presentation.kafka.worker.producer import ProducerPump

OUTCOME = OutgoingRecord("out", b"k", b"v", (("a", b"b"), ("c", None)))
AWAY = KafkaError(KafkaError._MSG_TIMED_OUT)


class FakeProducer:
    """Reports what it was given with the next poll, unless it is silent; `full` times it has no room."""

    def __init__(self) -> None:
        self.produced: list[tuple[Any, ...]] = []
        self.waiting: deque[Callable[..., None]] = deque()
        self.error: KafkaError | None = None
        self.refusal: KafkaError | None = None
        self.full = 0
        self.silent = False
        self.purged = False
        self.polled_on: set[int] = set()

    def produce(self, topic: str, value: bytes, key: bytes | None, *, on_delivery: Any, headers: Any) -> None:
        if self.full:
            self.full -= 1
            raise BufferError
        if self.refusal is not None:
            raise KafkaException(self.refusal)
        if topic == "impossible":
            raise TypeError
        self.produced.append((topic, value, key, headers))
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
        self.purged = True
        self.waiting.clear()


def handed_over(pump: ProducerPump, outgoing: OutgoingRecord = OUTCOME) -> asyncio.Future[KafkaError | None]:
    """What will be told of an outcome that the client has now."""
    told: asyncio.Future[KafkaError | None] = asyncio.get_running_loop().create_future()
    pump.hand_over(outgoing, told.set_result)
    return told


@pytest.fixture
def producer() -> FakeProducer:
    return FakeProducer()


@pytest.fixture
async def pump(producer: FakeProducer) -> AsyncIterator[ProducerPump]:
    pump = ProducerPump(producer)  # type: ignore[arg-type]
    running = asyncio.create_task(asyncio.to_thread(pump.run))
    yield pump
    pump.stop()
    await running


async def test_a_report_comes_when_it_is_written(pump: ProducerPump, producer: FakeProducer) -> None:
    """Key, value and headers as they are; None says that the brokers have it."""
    report = handed_over(pump)
    async with asyncio.timeout(30):
        assert await report is None
    assert producer.produced == [("out", b"v", b"k", [("a", b"b"), ("c", None)])]
    assert producer.polled_on.isdisjoint({threading.get_ident()})


async def test_each_gets_its_own_report(pump: ProducerPump) -> None:
    """However many there are at once."""
    reports = [handed_over(pump) for _ in range(500)]
    async with asyncio.timeout(30):
        assert await asyncio.gather(*reports) == [None] * 500


async def test_a_refusal_is_reported(pump: ProducerPump, producer: FakeProducer) -> None:
    """Whether it is the brokers' or the client's."""
    producer.error = AWAY
    async with asyncio.timeout(30):
        assert await handed_over(pump) == AWAY
    producer.refusal = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
    async with asyncio.timeout(30):
        assert await handed_over(pump) == producer.refusal


async def test_what_the_client_cannot_take_holds_up_nothing(pump: ProducerPump) -> None:
    """It is reported like a refusal, and what was given behind it is written."""
    impossible = OutgoingRecord("impossible", b"k", b"v", ())
    async with asyncio.timeout(30):
        broken, behind = await asyncio.gather(handed_over(pump, impossible), handed_over(pump))
    assert broken is not None
    assert broken.code() == KafkaError._INVALID_ARG
    assert behind is None


async def test_a_full_buffer_is_waited_for(pump: ProducerPump, producer: FakeProducer) -> None:
    """Until the client has room again, and the order stays."""
    producer.full = 3
    async with asyncio.timeout(30):
        assert await handed_over(pump) is None
    assert producer.full == 0


async def test_what_is_not_written_at_the_end_is_said(
    producer: FakeProducer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Brokers that are away hold nobody up: what waits is given up, and its requests come again."""
    monkeypatch.setattr(producer_module, "FLUSH_S", 0.01)
    producer.silent = True
    pump = ProducerPump(producer)  # type: ignore[arg-type]
    running = asyncio.create_task(asyncio.to_thread(pump.run))
    handed_over(pump)
    pump.stop()
    await running
    assert producer.purged
    assert "outcomes were not written" in caplog.text
