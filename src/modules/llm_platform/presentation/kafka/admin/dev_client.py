"""A small client for trying the contract by hand: it sends a request and reads outcomes."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from modules.llm_platform.presentation.kafka.contract.outcomes import IncomingRecord
from modules.llm_platform.presentation.kafka.contract.requests import (
    CONTRACT_TOPICS,
    STAGES,
    Topics,
    make_fallback_request_id,
)
from modules.llm_platform.presentation.kafka.worker import clients
from modules.llm_platform.presentation.kafka.worker.consumer import to_record

QUERY_TIMEOUT_S: Final = 10.0
DEV_CLIENT_POLL_S: Final = 0.2
NEW_TOPICS_INTERVAL_S: Final = 1.0  # pause between two queries for topics that do not exist yet
NEW_TOPICS_TIMEOUT_S: Final = 1.0
SEND_TIMEOUT_S: Final = 10.0
CLIENT_MAX_BYTES: Final = 1_000_000_000  # the highest limit of librdkafka, so that the topic alone limits a request
_GROUP_ID: Final = "llm-platform-dev-client"  # the client requires an id; it neither joins the group nor commits


@dataclass(frozen=True, slots=True)
class Cluster:
    """The bootstrap brokers, and KAFKA_CONFIG."""

    brokers: Sequence[str]
    config: clients.Config = field(repr=False)  # contains passwords
    topics: Topics = CONTRACT_TOPICS


@dataclass(frozen=True, slots=True)
class RecordPosition:
    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}/{self.offset}"

    @property
    def fallback_request_id(self) -> str:
        """The id in the outcome of a request without a readable id."""
        return make_fallback_request_id(self.topic, self.partition, self.offset)


def make_request_producer(cluster: Cluster) -> Producer:
    """Return a producer that gives a request up after SEND_TIMEOUT_S. Raises SettingsError."""
    own: clients.Config = {"message.timeout.ms": int(SEND_TIMEOUT_S * 1000), "message.max.bytes": CLIENT_MAX_BYTES}
    return clients.make_producer({**clients.make_producer_config(cluster.brokers, cluster.config), **own}, {})


def send_request(
    cluster: Cluster, topic: str, value: bytes, key: bytes | None, headers: Mapping[str, str]
) -> RecordPosition:
    """Write one request and return its position. Raises KafkaException."""
    producer = make_request_producer(cluster)
    positions: list[RecordPosition] = []
    errors: list[KafkaError] = []

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            errors.append(error)
        else:
            positions.append(RecordPosition(topic, message.partition() or 0, message.offset() or 0))

    producer.produce(topic, value, key, on_delivery=on_delivery, headers=list(headers.items()) or None)
    producer.flush(SEND_TIMEOUT_S + 1)
    if errors:
        raise KafkaException(errors[0])
    if not positions:
        raise KafkaException(KafkaError(KafkaError._MSG_TIMED_OUT))
    return positions[0]


class OutcomeTail:
    """Reads the outcome topics without joining a group, from their current ends or from the beginning.

    A topic that is created later, as by the first outcome of a worker, is read from its beginning.
    """

    def __init__(self, cluster: Cluster, *, from_start: bool = False) -> None:
        own: clients.Config = {"group.id": _GROUP_ID, "enable.auto.commit": False, "enable.partition.eof": False}
        config = {**clients.make_admin_config(cluster.brokers, cluster.config), **own}
        with ExitStack() as stack:
            self._consumer = clients.make_consumer(config, {})
            stack.callback(self._consumer.close)
            self._missing = cluster.topics.written_by(STAGES)
            self._add_topics(QUERY_TIMEOUT_S, from_start=from_start)
            stack.pop_all()

    def outcomes(self, timeout_s: float | None) -> Iterator[IncomingRecord]:
        """Yield outcomes for `timeout_s` seconds, or forever for None. Raises KafkaException."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        next_query = time.monotonic() + NEW_TOPICS_INTERVAL_S
        while deadline is None or time.monotonic() < deadline:
            if self._missing and time.monotonic() >= next_query:
                with suppress(KafkaException):  # The brokers may be away for a moment.
                    self._add_topics(NEW_TOPICS_TIMEOUT_S, from_start=True)
                next_query = time.monotonic() + NEW_TOPICS_INTERVAL_S
            message = self._consumer.poll(DEV_CLIENT_POLL_S)
            if message is None:
                continue
            error = message.error()
            if error is None:
                yield to_record(message)
            elif error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
                continue  # the client looks up the coordinator of a group that this consumer never joins
            elif error.fatal() or not error.retriable():
                raise KafkaException(error)

    def close(self) -> None:
        self._consumer.close()

    def _add_topics(self, timeout_s: float, *, from_start: bool) -> None:
        """Read the missing topics that exist by now. A stage without workers needs no topic. Raises KafkaException."""
        for topic in tuple(self._missing):
            if positions := list(_start_positions(self._consumer, topic, timeout_s, from_start)):
                self._consumer.incremental_assign(positions)
                self._missing.remove(topic)


def _start_positions(consumer: Consumer, topic: str, timeout_s: float, from_start: bool) -> Iterator[TopicPartition]:
    """Yield where to begin in each partition of a topic. There are none if it does not exist."""
    for number in consumer.list_topics(topic, timeout=timeout_s).topics[topic].partitions:
        # OFFSET_END would be resolved at the first fetch, and skip the outcomes that are written before it.
        end = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=timeout_s)[1]
        yield TopicPartition(topic, number, OFFSET_BEGINNING if from_start else end)
