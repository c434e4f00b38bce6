"""A client of the contract that shares no code with the worker. It uses aiokafka and the terms of the contract.

A group is done when every offset of the request topics is committed, because outcomes are written before the commit.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition

SEARCH, ANSWER = "rag_search_request", "rag_answer_request"
SEARCHED, ANSWERED, FAILED = "rag_search_result", "rag_answer_result", "rag_failed"
REQUESTS, OUTCOMES = (SEARCH, ANSWER), (SEARCHED, ANSWERED, FAILED)
PARTITIONS = 12
TOPICS: Mapping[str, int] = dict.fromkeys((*REQUESTS, *OUTCOMES), PARTITIONS)

SETTLE_S = 120.0
POLL_S = 0.05
MOCK_WAIT_MS = 20  # the mock never wakes a waiting fetch
FETCH_BYTES = 4_000_000


@dataclass(frozen=True, slots=True)
class Sent:
    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Seen:
    """An outcome as read from its topic."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes
    headers: tuple[tuple[str, bytes | None], ...]

    @property
    def body(self) -> dict[str, Any]:
        body = json.loads(self.value.decode("utf-8"))
        assert isinstance(body, dict)
        return body

    @property
    def request_id(self) -> str:
        return str(self.body["request_id"])


class ReferenceClient:
    """An independent producer and consumer. Inside `async with` it reads each outcome from the broker only once."""

    def __init__(self, bootstrap: str, group: str) -> None:
        self._bootstrap, self._group = bootstrap, group
        self._reader: _OutcomeReader | None = None

    async def __aenter__(self) -> Self:
        """Start the producer. Only sending needs it."""
        self._producer = AIOKafkaProducer(
            bootstrap_servers=self._bootstrap,
            acks="all",
            max_request_size=FETCH_BYTES,
            retry_backoff_ms=50,
            request_timeout_ms=int(SETTLE_S * 1000),
        )
        await self._producer.start()
        self._reader = _OutcomeReader(lambda: self._consumer(None))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            await reader.stop()
        await self._producer.stop()

    async def send(
        self,
        topic: str,
        value: object,
        key: bytes | None = None,
        headers: Iterable[tuple[str, bytes | None]] = (),
        partition: int | None = None,
    ) -> Sent:
        """Send a request and wait for its delivery. Bytes and None (a tombstone) are sent unchanged, other values as JSON."""
        raw = value if value is None or isinstance(value, bytes) else json.dumps(value, ensure_ascii=False).encode()
        done = await self._producer.send_and_wait(topic, raw, key=key, headers=list(headers), partition=partition)
        return Sent(topic, done.partition, done.offset)

    async def send_all(self, requests: Iterable[tuple[str, object, bytes | None]]) -> None:
        """Send many requests in batches. Each partition keeps the order."""
        waiting = [
            await self._producer.send(topic, json.dumps(value).encode(), key=key) for topic, value, key in requests
        ]
        await asyncio.gather(*waiting)

    async def settled(self, topics: Iterable[str] = REQUESTS, timeout_s: float = SETTLE_S) -> dict[str, list[Seen]]:
        """Wait until the group has committed every request; return all outcomes by request id. Raises AssertionError."""
        consumer = self._consumer(self._group)
        await consumer.start()
        known: dict[TopicPartition, int] = {}
        try:
            async with asyncio.timeout(timeout_s):
                while behind := await self._lag(consumer, topics, known) or await self._lag(consumer, topics, {}):
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            raise AssertionError(f"not committed after {timeout_s:.0f} s: {behind} of the requests' offsets") from None
        finally:
            await consumer.stop()
        return await self.outcomes()

    async def lag(self, topics: Iterable[str] = REQUESTS) -> int:
        """Return the number of uncommitted requests."""
        consumer = self._consumer(self._group)
        await consumer.start()
        try:
            return await self._lag(consumer, topics, {})
        finally:
            await consumer.stop()

    async def committed(self, topics: Iterable[str] = REQUESTS) -> dict[tuple[str, int], int]:
        """Return the group's committed offset of each partition."""
        consumer = self._consumer(self._group)
        await consumer.start()
        try:
            partitions = [TopicPartition(topic, number) for topic in topics for number in range(PARTITIONS)]
            return {
                (partition.topic, partition.partition): await consumer.committed(partition) or 0
                for partition in partitions
            }
        finally:
            await consumer.stop()

    @staticmethod
    async def _lag(consumer: AIOKafkaConsumer, topics: Iterable[str], known: dict[TopicPartition, int]) -> int:
        """`known`: committed offsets from an earlier call. Each partition costs a request, so this asks only for partitions
        that were behind.
        """
        partitions = [TopicPartition(topic, number) for topic in topics for number in range(PARTITIONS)]
        ends = {partition: end for partition, end in (await consumer.end_offsets(partitions)).items() if end}
        for partition, end in ends.items():
            if known.get(partition, 0) < end:
                known[partition] = await consumer.committed(partition) or 0
        excess = {partition: known[partition] for partition, end in ends.items() if known[partition] > end}
        assert not excess, f"committed beyond the end: {excess}"
        return sum(end - known[partition] for partition, end in ends.items())

    async def outcomes(self) -> dict[str, list[Seen]]:
        """Return the current outcomes by request id, in the order of the records in their topics."""
        if self._reader is not None:
            return await self._reader.read()
        reader = _OutcomeReader(lambda: self._consumer(None))
        try:
            return await reader.read()
        finally:
            await reader.stop()

    def _consumer(self, group: str | None) -> AIOKafkaConsumer:
        return AIOKafkaConsumer(
            bootstrap_servers=self._bootstrap,
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=MOCK_WAIT_MS,
            max_partition_fetch_bytes=FETCH_BYTES,
        )


class _OutcomeReader:
    """Reads the outcome topics from the beginning. Later calls read only new outcomes."""

    def __init__(self, make_consumer: Callable[[], AIOKafkaConsumer]) -> None:
        self._make_consumer = make_consumer
        self._consumer: AIOKafkaConsumer | None = None  # the first read creates it
        self._partitions = [TopicPartition(topic, number) for topic in OUTCOMES for number in range(PARTITIONS)]
        self._found: dict[str, list[Seen]] = {}

    async def read(self) -> dict[str, list[Seen]]:
        if self._consumer is None:
            self._consumer = self._make_consumer()
            await self._consumer.start()
            self._consumer.assign(self._partitions)
            self._consumer.pause(*self._partitions)
        consumer = self._consumer
        async with asyncio.timeout(SETTLE_S):
            ends = await consumer.end_offsets(self._partitions)
            behind = {position: end for position, end in ends.items() if await consumer.position(position) < end}
            consumer.resume(*behind)
            while any([await consumer.position(position) < end for position, end in behind.items()]):
                for records in (await consumer.getmany(timeout_ms=100)).values():
                    self._keep(records)
            consumer.pause(*behind)  # otherwise the consumer would fetch between the reads
        return {name: list(seen) for name, seen in self._found.items()}

    def _keep(self, records: Iterable[ConsumerRecord[bytes, bytes]]) -> None:
        for one in records:
            seen = Seen(one.topic, one.partition, one.offset, one.key, one.value, tuple(one.headers))
            self._found.setdefault(seen.request_id, []).append(seen)

    async def stop(self) -> None:
        if self._consumer is not None:
            await self._consumer.stop()
