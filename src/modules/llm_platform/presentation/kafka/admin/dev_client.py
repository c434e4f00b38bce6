"""A small client of the contract, for people who want to try it: sends a request, shows outcomes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from modules.llm_platform.presentation.kafka.contract.outcomes import IncomingRecord
from modules.llm_platform.presentation.kafka.contract.requests import FAILED_TOPIC, RESERVED_ID, RESULT_TOPICS
from modules.llm_platform.presentation.kafka.worker.clients import (
    Config,
    admin_config,
    make_consumer,
    make_producer,
    producer_config,
)
from modules.llm_platform.presentation.kafka.worker.request import record_of

ASK_S: Final = 10.0
POLL_S: Final = 0.2
SEND_S: Final = 10.0
_OWN_GROUP: Final = "llm-platform-by-hand"  # the client wants a name; nothing is committed and nothing is shared


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where it is, and KAFKA_CONFIG."""

    brokers: Sequence[str]
    config: Config = field(repr=False)  # with its passwords


@dataclass(frozen=True, slots=True)
class Place:
    """Where a record lies."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}/{self.offset}"

    @property
    def made_up_id(self) -> str:
        """The id in the outcome of a request that has none to be read."""
        return f"{RESERVED_ID}{self.topic}-{self.partition}-{self.offset}"


def send_request(cluster: Cluster, topic: str, value: bytes, key: bytes | None, headers: Mapping[str, str]) -> Place:
    """Write one request; where it lies. Raises KafkaException."""
    config = {**producer_config(cluster.brokers, cluster.config), "message.timeout.ms": int(SEND_S * 1000)}
    producer = make_producer(config, {})
    places: list[Place] = []
    refusals: list[KafkaError] = []

    def report(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            refusals.append(error)
        else:
            places.append(Place(topic, message.partition() or 0, message.offset() or 0))

    producer.produce(topic, value, key, on_delivery=report, headers=list(headers.items()) or None)
    producer.flush(SEND_S + 1)
    if refusals:
        raise KafkaException(refusals[0])
    if not places:
        raise KafkaException(KafkaError(KafkaError._MSG_TIMED_OUT))
    return places[0]


class OutcomeTail:
    """Reads the topics of outcomes, in no group: from their ends at the time when this is made, or from the start."""

    def __init__(self, cluster: Cluster, *, from_start: bool = False) -> None:
        config = {**admin_config(cluster.brokers, cluster.config), "group.id": _OWN_GROUP, "enable.auto.commit": False}
        with ExitStack() as undo:
            self._consumer = make_consumer(config, {})
            undo.callback(self._consumer.close)
            self._consumer.assign(list(_starts(self._consumer, from_start)))
            undo.pop_all()

    def outcomes(self, for_s: float | None) -> Iterator[IncomingRecord]:
        """As they come, until `for_s` seconds are over; None: for ever. Raises KafkaException."""
        until = None if for_s is None else time.monotonic() + for_s
        while until is None or time.monotonic() < until:
            message = self._consumer.poll(POLL_S)
            if message is None:
                continue
            error = message.error()
            if error is None:
                yield record_of(message)
            elif error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
                continue  # the client asks about a group that nothing here is done in
            elif error.fatal() or not error.retriable():
                raise KafkaException(error)

    def close(self) -> None:
        """Disconnect."""
        self._consumer.close()


def _starts(consumer: Consumer, from_start: bool) -> Iterator[TopicPartition]:
    for topic in (*RESULT_TOPICS.values(), FAILED_TOPIC):
        about = consumer.list_topics(topic, timeout=ASK_S).topics[topic]
        if about.error is not None:
            continue  # a stage that nobody runs here needs no topic
        for number in about.partitions:
            place = TopicPartition(topic, number)
            # The end is asked for now: "wherever it is when the reading begins" would miss what comes in between.
            end = consumer.get_watermark_offsets(place, timeout=ASK_S)[1]
            yield TopicPartition(topic, number, OFFSET_BEGINNING if from_start else end)
