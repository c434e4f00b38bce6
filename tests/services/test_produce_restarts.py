"""What the worker's producer reports as delivered during a restart of Apache Kafka."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from tests.kafka.broker import wait_until
from tests.kafka.real_broker import RealBroker

from modules.llm_platform.presentation.kafka.worker.clients import make_producer, make_producer_config

pytestmark = pytest.mark.services

OUTCOMES, OTHER = "outcomes", "other"
PARTITIONS = 600  # the broker becomes the leader of one partition after another, which takes time
USED = range(0, PARTITIONS, 6)
PRODUCERS, RECORDS = 3, 6
PATIENCE_S = 180.0


def test_delivered_records_are_in_their_partitions() -> None:
    """Each record of a new producer is sent in its own request.

    The broker refuses the first requests for a partition until it is the leader, and knows no sequence number of these
    producers. In each partition the records are in order.
    """
    delivered: list[str] = []

    def report(error: KafkaError | None, message: Message) -> None:
        if error is None and message.topic() == OUTCOMES:
            delivered.append(text_of(message))

    with RealBroker({OUTCOMES: PARTITIONS, OTHER: 1}) as kafka:
        producers = [new_producer(kafka, report) for _ in range(PRODUCERS)]
        kafka.stop()
        kafka.launch()
        for number, producer in enumerate(producers):
            for record in range(RECORDS):
                for partition in USED:
                    producer.produce(
                        OUTCOMES, f"{number}-{partition}-{record}", partition=partition, on_delivery=report
                    )
        for producer in producers:
            assert producer.flush(PATIENCE_S) == 0
        written = read_outcomes(kafka)
    assert len(delivered) == PRODUCERS * RECORDS * len(USED)
    assert sorted(set(delivered) - set(written)) == []
    assert in_order(dict.fromkeys(written)), "a record comes before an earlier one of its producer"


def new_producer(kafka: RealBroker, report: Callable[[KafkaError | None, Message], None]) -> Producer:
    """Return a connected producer that has not yet written to OUTCOMES."""
    settings = {"batch.num.messages": 1, "reconnect.backoff.max.ms": 250}
    producer = make_producer(make_producer_config([kafka.bootstrap], settings), {})
    producer.produce(OTHER, b"", on_delivery=report)
    producer.list_topics(OUTCOMES, timeout=PATIENCE_S)
    assert producer.flush(PATIENCE_S) == 0
    return producer


def read_outcomes(kafka: RealBroker) -> list[str]:
    consumer = Consumer(
        {"bootstrap.servers": kafka.bootstrap, "group.id": "reader", "enable.partition.eof": True, "log_level": 0}
    )
    consumer.assign([TopicPartition(OUTCOMES, partition, 0) for partition in USED])
    values: list[str] = []
    ended: set[int | None] = set()

    def reaches_the_ends() -> bool:
        for message in consumer.consume(1000, 0.1):
            error = message.error()
            if error is None:
                values.append(text_of(message))
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition())
        return len(ended) == len(USED)

    try:
        wait_until(reaches_the_ends, "the ends of the partitions", PATIENCE_S)
    finally:
        consumer.close()
    return values


def text_of(message: Message) -> str:
    value = message.value()
    assert isinstance(value, bytes)
    return value.decode()


def in_order(values: Iterable[str]) -> bool:
    """Return whether each producer's records ascend in each partition."""
    last: dict[str, int] = {}
    for value in values:
        series, _, number = value.rpartition("-")
        if int(number) <= last.get(series, -1):
            return False
        last[series] = int(number)
    return True
