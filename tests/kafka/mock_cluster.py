"""A mock cluster in a separate process, with an endpoint file, so that many processes can use it.

    python -m tests.kafka.mock_cluster --endpoint FILE --topic rag_search_request=12

It takes commands as lines (`topic NAME PARTITIONS`, `down`, `up`, `delay MS`, `refuse CODE`) and answers each with `ok` or the
reason of the failure. It ends when its standard input ends, so it never outlives its parent, even if the parent is killed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.kafka.broker import ROOT, wait_until
from tests.kafka.mock_api import CMockCluster, MockUnavailable, PlainMockCluster

AnyMock = CMockCluster | PlainMockCluster


class MockCluster:
    """The Broker of the quick suites. `client` keeps fetch waits short, because the mock never wakes a waiting fetch."""

    name = "mock"
    client: Mapping[str, str | int] = {
        "fetch.wait.max.ms": 10,
        "group.protocol": "consumer",
        "reconnect.backoff.max.ms": 250,
    }

    def __init__(self, topics: Mapping[str, int] | None = None, *, plain: bool = False) -> None:
        self._topics = dict(topics or {})
        self._plain = plain
        self._folder = tempfile.TemporaryDirectory(prefix="mock-kafka-")
        self.endpoint = Path(self._folder.name) / "endpoint.json"
        self.bootstrap = ""
        self._process: subprocess.Popen[str] | None = None

    @property
    def pid(self) -> int:
        return self._running().pid

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "tests.kafka.mock_cluster", "--endpoint", str(self.endpoint)]
        self._process = subprocess.Popen(
            [*command, *(["--plain"] if self._plain else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        try:
            wait_until(lambda: self.endpoint.exists() or self._running().poll() is not None, "the mock cluster")
            self.bootstrap = read_endpoint(self.endpoint)
            self.create_topics(self._topics)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def create_topics(self, topics: Mapping[str, int]) -> None:
        for name, partitions in topics.items():
            self._command(f"topic {name} {partitions}")

    def down(self) -> None:
        self._command("down")

    def up(self) -> None:
        self._command("up")

    def delay_replies(self, delay_ms: int) -> None:
        self._command(f"delay {delay_ms}")

    def refuse_next_produce(self, code: int) -> None:
        """Answer the next produce request of any client with this KafkaError code, and write nothing."""
        self._command(f"refuse {code}")

    def close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()  # type: ignore[union-attr]
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()  # type: ignore[union-attr]
        self._folder.cleanup()

    def _command(self, line: str) -> None:
        process = self._running()
        process.stdin.write(line + "\n")  # type: ignore[union-attr]
        process.stdin.flush()  # type: ignore[union-attr]
        answer = process.stdout.readline().strip()  # type: ignore[union-attr]
        if answer != "ok":
            raise RuntimeError(answer or "the mock cluster is gone")

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None:
            raise RuntimeError("the mock cluster is not running: use it with `with`")
        return self._process


def read_endpoint(file: Path) -> str:
    """Return the address in an endpoint file. Any process may call it. Raises RuntimeError if the broker is gone."""
    try:
        endpoint = json.loads(file.read_text("utf-8"))
        os.kill(int(endpoint["pid"]), 0)
    except (OSError, ValueError) as error:
        raise RuntimeError(f"no broker behind {file.name}") from error
    return str(endpoint["bootstrap"])


def _write_endpoint(file: Path, bootstrap: str) -> None:
    """Write the file atomically, so that a process that polls for it never reads half of it."""
    half = file.with_suffix(".tmp")
    half.write_text(json.dumps({"pid": os.getpid(), "bootstrap": bootstrap}), "utf-8")
    half.replace(file)


def _make(plain: bool) -> AnyMock:
    if plain:
        return PlainMockCluster()
    try:
        return CMockCluster()
    except MockUnavailable as error:
        sys.stderr.write(f"{error}; taking the plain way\n")
        return PlainMockCluster()


def _obey(cluster: AnyMock, line: str) -> None:
    match line.split():
        case ["topic", name, partitions]:
            cluster.create_topic(name, int(partitions))
        case ["down"]:
            cluster.down()
        case ["up"]:
            cluster.up()
        case ["delay", delay_ms]:
            cluster.delay_replies(int(delay_ms))
        case ["refuse", code]:
            cluster.refuse_next_produce(int(code))
        case _:
            raise RuntimeError("not a command: topic NAME PARTITIONS, down, up, delay MS or refuse CODE")


def main() -> None:
    parser = argparse.ArgumentParser(description="Kafka's wire protocol on a port of loopback, in memory")
    parser.add_argument("--endpoint", type=Path, required=True, help="file to write the address into, as JSON")
    parser.add_argument("--topic", action="append", default=[], metavar="NAME=PARTITIONS")
    parser.add_argument("--plain", action="store_true", help="without librdkafka's C functions")
    options = parser.parse_args()
    cluster = _make(options.plain)
    try:
        for topic in options.topic:
            name, _, partitions = topic.partition("=")
            cluster.create_topic(name, int(partitions))
        _write_endpoint(options.endpoint, cluster.bootstrap)
        for line in sys.stdin:
            try:
                _obey(cluster, line)
            except (RuntimeError, ValueError) as error:
                answer = str(error)
            else:
                answer = "ok"
            sys.stdout.write(answer + "\n")
            sys.stdout.flush()
    finally:
        options.endpoint.unlink(missing_ok=True)
        cluster.close()


if __name__ == "__main__":
    main()
