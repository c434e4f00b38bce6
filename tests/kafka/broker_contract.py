"""The tests that every broker of the suites must pass. One of librdkafka and aiokafka writes, the other reads."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator

from confluent_kafka import Consumer, Producer
from tests.kafka.broker import ROOT, Broker, wait_until
from tests.kafka.reference_client import PARTITIONS, SEARCHED, TOPICS, ReferenceClient, Seen

LARGE_BYTES = 900_000
PATIENCE_S = 180.0  # limit for the start or the end of a broker on a busy machine


def quiet(broker: Broker, **settings: str | int | bool) -> dict[str, str | int | bool]:
    """Return settings for librdkafka's clients that keep an unreachable broker out of the test's output."""
    return {"bootstrap.servers": broker.bootstrap, "log_level": 0, **settings}


def producer(broker: Broker) -> Producer:
    return Producer(
        quiet(broker, acks="all", **{"enable.idempotence": True, "delivery.timeout.ms": int(PATIENCE_S * 1000)})
    )


def written(broker: Broker) -> list[Seen]:
    async def read() -> list[Seen]:
        found = await ReferenceClient(broker.bootstrap, "nobody").outcomes()
        return [seen for seens in found.values() for seen in seens]

    return asyncio.run(read())


class BrokerContract:
    """Subclass it with a fixture `broker` that has TOPICS, and with `maker`, the module and class of such brokers."""

    maker: tuple[str, str]

    def test_broker_ends_with_its_starter(self) -> None:
        """A killed test run leaves no broker behind."""
        module, name = self.maker
        starter = (
            f"import time; from {module} import {name}; broker = {name}().__enter__();"
            " print(broker.bootstrap, flush=True); time.sleep(600)"
        )
        process = subprocess.Popen([sys.executable, "-c", starter], cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        assert gone_within(PATIENCE_S, address)

    def test_topics_have_the_requested_partitions(self, broker: Broker) -> None:
        """The suites rely on twelve partitions: with fewer, a test of three workers would prove little."""
        known = producer(broker).list_topics(timeout=PATIENCE_S).topics
        assert {name: len(known[name].partitions) for name in TOPICS} == dict(TOPICS)

    def test_records_keep_key_value_and_headers(self, broker: Broker) -> None:
        """One library writes the record and another reads it."""
        name, sender = f"parts-{uuid.uuid4()}", producer(broker)
        value = b'{"request_id": "%s"}' % name.encode()
        sender.produce(
            SEARCHED, value, key=b"\x00key", headers=[("traceparent", b"00-1"), ("empty", b""), ("none", None)]
        )
        assert sender.flush(PATIENCE_S) == 0
        (seen,) = [one for one in written(broker) if one.value == value]
        assert seen.key == b"\x00key"
        assert seen.headers == (("traceparent", b"00-1"), ("empty", b""), ("none", None))

    def test_large_record_and_tombstone_are_delivered(self, broker: Broker) -> None:
        """Values near the usual limit arrive, and so do null values, which a JSON-only broker would lose."""
        topic = f"sizes-{uuid.uuid4()}"
        broker.create_topics({topic: 1})
        sender = producer(broker)
        for value in (b"x" * LARGE_BYTES, None):
            sender.produce(topic, value, key=b"k")
        assert sender.flush(PATIENCE_S) == 0
        reader = Consumer(quiet(broker, **{"group.id": topic, "auto.offset.reset": "earliest"}, **broker.client))
        reader.subscribe([topic])
        values: list[bytes | None] = []
        try:
            wait_until(lambda: self._collect(reader, values) == 2, "two records", PATIENCE_S)
        finally:
            reader.close()
        assert [None if value is None else len(value) for value in values] == [LARGE_BYTES, None]

    @staticmethod
    def _collect(reader: Consumer, values: list[bytes | None]) -> int:
        values += [message.value() for message in reader.consume(10, timeout=0.1) if message.error() is None]
        return len(values)

    def test_broker_outage_loses_no_record(self, broker: Broker) -> None:
        """A record that could not be sent during the outage arrives once."""
        before, meanwhile = f"before-{uuid.uuid4()}", f"meanwhile-{uuid.uuid4()}"
        sender = producer(broker)
        sender.produce(SEARCHED, b'{"request_id": "%s"}' % before.encode())
        assert sender.flush(PATIENCE_S) == 0
        broker.down()
        sender.produce(SEARCHED, b'{"request_id": "%s"}' % meanwhile.encode())
        assert sender.flush(0.5) == 1, "it was not away"
        broker.up()
        assert sender.flush(PATIENCE_S) == 0
        ids = [seen.request_id for seen in written(broker)]
        assert (ids.count(before), ids.count(meanwhile)) == (1, 1)

    def test_two_members_share_partitions(self, broker: Broker) -> None:
        """Consumer groups work as the workers use them: a second member gets its share within seconds."""
        group = f"members-{uuid.uuid4()}"
        settings = quiet(broker, **{"group.id": group, "enable.auto.commit": False}, **broker.client)
        members = [Consumer(settings), Consumer(settings)]
        try:
            for member in members:
                member.subscribe([SEARCHED])
            wait_until(
                lambda: sorted(self._owned(members)) == list(range(PARTITIONS)), "both to have a part", PATIENCE_S
            )
        finally:
            for member in members:
                member.close()

    @staticmethod
    def _owned(members: list[Consumer]) -> Iterator[int]:
        for member in members:
            member.poll(0.05)
        parts = [[partition.partition for partition in member.assignment()] for member in members]
        return iter([number for part in parts for number in part] if all(parts) else [])


def gone_within(seconds: float, address: str) -> bool:
    """Return whether the address refuses connections within this time."""
    host, port = address.split(":")
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with socket.socket() as knock:
            if knock.connect_ex((host, int(port))):
                return True
        time.sleep(0.05)
    return False
