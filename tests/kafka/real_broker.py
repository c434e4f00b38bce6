"""A real Apache Kafka 4 in KRaft mode: one node on loopback, in a temporary folder that is deleted at the end.

    python -m tests.kafka.real_broker --port 9092 --topic rag_search_request=12     # by hand, until Ctrl-C
    python -m tests.kafka.real_broker --archive     # write the archive of classes beside the jars

`make kafka-jars` provides the jars and the archive. The broker is a child that cannot outlive its parent, see child_process.py.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NoReturn

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec  # type: ignore[attr-defined]
from tests.kafka.broker import ROOT, wait_until
from tests.kafka.child_process import START_S, TAIL_CHARS, ServerProcess, free_port

JARS = ROOT / "build" / "kafka"
ARCHIVE = "classes.jsa"  # file beside the jars; Java ignores it if it does not match
CLUSTER_ID = "bGxtLXBsYXRmb3JtLXRlcw"  # any 16 bytes in base64
CALL_S = 60.0
QUICK_START: tuple[str, ...] = ("-Xms128m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
# Options for benchmarks: Java starts more slowly and compiles fully.
FAST: tuple[str, ...] = ("-Xms512m", "-Xmx1g", "-XX:+UseG1GC")
_formatted: dict[int, Mapping[str, bytes]] = {}  # files of a formatted, empty log directory, by node id
_LOGGER = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dorg.slf4j.simpleLogger.showDateTime=true")


class RealBroker(ServerProcess):
    """The Broker of the services suite."""

    name = "kafka"
    node_id = 1
    client: Mapping[str, str | int] = MappingProxyType({"group.protocol": "consumer"})  # KIP-848: quick joins
    extra: Mapping[str, object] = {}  # broker settings that a subclass adds
    replicas = 1

    def __init__(
        self,
        topics: Mapping[str, int] | None = None,
        *,
        port: int = 0,
        jvm: Sequence[str] = QUICK_START,
        jars: Path = JARS,
    ) -> None:
        super().__init__()
        self._topics = dict(topics or {})
        self._jvm = tuple(jvm)
        self._jars = jars
        self._port, self._controller_port = port or free_port(), free_port()
        self.bootstrap = f"127.0.0.1:{self._port}"

    def _begin(self) -> None:
        super()._begin()
        self.create_topics(self._topics)
        if self._topics:
            wait_until(self._coordinates_groups, "a coordinator of groups", START_S)

    def _coordinates_groups(self) -> bool:
        """The first request about a group creates an internal topic of Kafka, which takes seconds on a busy machine."""
        reader = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "nobody", "log_level": 0})
        try:
            reader.committed([TopicPartition(next(iter(self._topics)), 0)], timeout=CALL_S)
        except KafkaException:
            return False
        finally:
            reader.close()
        return True

    def create_topics(self, topics: Mapping[str, int]) -> None:
        if not topics:
            return
        admin = self._admin()
        new = [NewTopic(name, count, self.replicas) for name, count in topics.items()]
        for future in admin.create_topics(new).values():
            future.result(CALL_S)
        wait_until(lambda: self._leads(admin, topics), "the leaders of the new topics")

    def _command(self) -> Sequence[str]:
        return self._java("kafka.Kafka", str(self._properties))

    def _answers(self) -> bool:
        """Return whether the broker listens and its node has registered. Only then can topics be created."""
        with socket.socket() as knock:
            if knock.connect_ex(("127.0.0.1", self._port)):
                return False
        with contextlib.suppress(KafkaException):
            return bool(self._admin().list_topics(timeout=5).brokers)
        return False

    @staticmethod
    def _leads(admin: AdminClient, topics: Mapping[str, int]) -> bool:
        """Ask the leader of each partition, because metadata names a leader before the leader knows."""
        partitions = [TopicPartition(name, number) for name, count in topics.items() for number in range(count)]
        latest: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        asked = admin.list_offsets(dict.fromkeys(partitions, latest), request_timeout=CALL_S)
        try:
            return all(answer.result(CALL_S).offset >= 0 for answer in asked.values())
        except KafkaException:
            return False

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    @property
    def _properties(self) -> Path:
        return self._folder / "server.properties"

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    def _format(self) -> None:
        """Kafka's storage tool starts a separate JVM, so each test process runs it once per node id."""
        self._properties.write_text("".join(f"{key}={value}\n" for key, value in self._settings().items()), "utf-8")
        if files := _formatted.get(self.node_id):
            self._data.mkdir()
            for name, content in files.items():
                (self._data / name).write_bytes(content)
            return
        arguments = ("kafka.tools.StorageTool", "format", "--cluster-id", CLUSTER_ID, "--config", str(self._properties))
        done = subprocess.run(self._java(*arguments), capture_output=True, text=True, check=False, timeout=START_S)
        if done.returncode:
            raise RuntimeError(f"Kafka's storage could not be formatted:\n{(done.stdout + done.stderr)[-TAIL_CHARS:]}")
        _formatted[self.node_id] = {file.name: file.read_bytes() for file in self._data.iterdir()}

    def _java(self, *arguments: str) -> list[str]:
        java = shutil.which("java")
        if java is None:
            raise RuntimeError("no java: `make test-services` installs what it needs")
        if not any(self._jars.glob("kafka_2.13-*.jar")):
            raise RuntimeError("Kafka's jars are not in build/kafka: run `make kafka-jars`")
        archive = self._jars / ARCHIVE
        shared = [f"-XX:SharedArchiveFile={archive}"] if archive.exists() else []
        return [java, *self._jvm, *shared, *_LOGGER, "-cp", str(self._jars / "*"), *arguments]

    def _settings(self) -> dict[str, object]:
        """Return settings of a single node with short KIP-848 heartbeats and sessions (Kafka's defaults: 5 s and 45 s)."""
        return {
            "process.roles": "broker,controller",
            "node.id": self.node_id,
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://127.0.0.1:{self._controller_port}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"{self.node_id}@127.0.0.1:{self._controller_port}",
            "log.dirs": str(self._data),
            "auto.create.topics.enable": "false",
            "offsets.topic.num.partitions": 1,
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.num.partitions": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "share.coordinator.state.topic.num.partitions": 1,
            "share.coordinator.state.topic.replication.factor": 1,
            "share.coordinator.state.topic.min.isr": 1,
            "group.initial.rebalance.delay.ms": 0,
            "group.consumer.min.heartbeat.interval.ms": 200,
            "group.consumer.heartbeat.interval.ms": 200,
            "group.consumer.min.session.timeout.ms": 3000,
            "group.consumer.session.timeout.ms": 6000,
            "broker.session.timeout.ms": 2000,
            "broker.heartbeat.interval.ms": 200,
            "num.network.threads": 2,
            "num.io.threads": 2,
            "log.cleaner.enable": "true",
            **self.extra,
        }


def write_archive() -> None:
    """Start a broker, create a topic and stop the broker cleanly. Java then writes the loaded classes to the archive."""
    archive = JARS / ARCHIVE
    archive.unlink(missing_ok=True)
    unfinished = archive.with_suffix(".tmp")
    with RealBroker({"any": 1}, jvm=(*QUICK_START, f"-XX:ArchiveClassesAtExit={unfinished}")) as broker:
        broker.stop()
    unfinished.replace(archive)


def main() -> None:
    parser = argparse.ArgumentParser(description="A Kafka to try things on: loopback only, nothing is kept")
    parser.add_argument("--port", type=int, default=9092)
    parser.add_argument("--topic", action="append", default=[], metavar="NAME=PARTITIONS")
    parser.add_argument("--archive", action="store_true", help="write the archive of classes beside the jars, and end")
    options = parser.parse_args()
    if options.archive:
        write_archive()
        return
    signal.signal(signal.SIGTERM, _interrupted)  # `kill` and supervisors send it; the broker is removed
    topics = {name: int(count or 1) for name, _, count in (topic.partition("=") for topic in options.topic)}
    with contextlib.suppress(KeyboardInterrupt), RealBroker(topics, port=options.port) as broker:
        sys.stdout.write(f"KAFKA_BOOTSTRAP_SERVERS={broker.bootstrap}\n")
        sys.stdout.flush()
        while True:
            time.sleep(3600)


def _interrupted(_number: int, _frame: object) -> NoReturn:
    signal.signal(
        signal.SIGTERM, signal.SIG_IGN
    )  # a second SIGTERM must not interrupt the cleanup: `make` forwards the signal that its shell got too
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
