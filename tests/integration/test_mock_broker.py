"""The broker of the quick suites: librdkafka's mock cluster."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from tests.kafka import mock_api
from tests.kafka.broker import Broker, wait_until
from tests.kafka.broker_contract import BrokerContract, quiet
from tests.kafka.mock_cluster import MockCluster, read_endpoint
from tests.kafka.reference_client import TOPICS


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with MockCluster(TOPICS) as mock:
        yield mock


class TestMockBroker(BrokerContract):
    """The mock cluster supports what the suites need."""

    maker = ("tests.kafka.mock_cluster", "MockCluster")


def test_endpoint_file_has_the_address() -> None:
    """The endpoint file exists when the broker is ready, and is deleted with it."""
    with MockCluster() as mock:
        assert read_endpoint(mock.endpoint) == mock.bootstrap
        file = mock.endpoint
    with pytest.raises(RuntimeError, match="no broker"):
        read_endpoint(file)


def test_endpoint_file_of_an_ended_process_is_refused(tmp_path: Path) -> None:
    """A stale endpoint file, as after a power failure, is refused."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    (tmp_path / "endpoint.json").write_text(f'{{"pid": {ended.pid}, "bootstrap": "127.0.0.1:1"}}', "utf-8")
    with pytest.raises(RuntimeError, match="no broker"):
        read_endpoint(tmp_path / "endpoint.json")


def test_unknown_command_is_refused() -> None:
    """After an unknown command, the request and response lines of the process stay in step."""
    with MockCluster() as mock:
        with pytest.raises(RuntimeError, match="partition"):
            mock.create_topics({"none": -5})
        mock.create_topics({"one": 1})
        assert len(Producer(quiet(mock)).list_topics("one", timeout=10).topics["one"].partitions) == 1


class TestPlainWay:
    """If librdkafka's mock functions cannot be called, a producer setting starts the same broker."""

    def test_plain_mock_accepts_records(self) -> None:
        """Topics are created on demand with four partitions."""
        with MockCluster({"plain": 4}, plain=True) as mock:
            sender = Producer(quiet(mock, acks="all"))
            reports: list[object] = []
            sender.produce("plain", b"x", on_delivery=lambda error, _: reports.append(error))
            wait_until(lambda: sender.poll(0.05) >= 0 and bool(reports), "the delivery")
            assert reports == [None]

    def test_plain_mock_refuses_unsupported_commands(self) -> None:
        """A suite that needs twelve partitions is refused instead of running on four."""
        with pytest.raises(RuntimeError, match="4 partitions a topic, not 12"), MockCluster({"plain": 12}, plain=True):
            raise AssertionError

    def test_library_without_mock_functions_is_detected(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """A build of librdkafka without mock functions raises the error that triggers the fallback."""
        (tmp_path / "librdkafka.so").write_bytes(b"no library")
        monkeypatch.setattr(mock_api, "library", lambda: tmp_path / "librdkafka.so")
        with pytest.raises(mock_api.MockUnavailable):
            mock_api.load()
