"""What the Kafka benchmarks share: a broker, workers as processes, requests, and how many outcomes there are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.common import ROOT, stopped_at_the_end
from confluent_kafka import Consumer, Producer, TopicPartition
from tests.kafka.broker import Broker

REQUEST, RESULT = "rag_search_request", "rag_search_result"
PARTITIONS = 12
TOPICS = dict.fromkeys((REQUEST, RESULT, "rag_answer_request", "rag_answer_result", "rag_failed"), PARTITIONS)
LOOK_S = 0.1  # each look asks for the end of every partition, and broker and worker share the processors with it
DEADLINE_S = 60.0
KB = 1024
MakeBroker = Callable[[], AbstractContextManager[Broker]]


@dataclass(frozen=True, slots=True)
class Told:
    """How one worker works. `stage_s`: what its stage waits; the floor has none."""

    program: str  # kafka_worker or kafka_floor
    concurrency: int = 64
    stage_s: float = 0.0


@contextmanager
def started(broker: Broker, told: Told, count: int = 1) -> Iterator[Sequence[subprocess.Popen[str]]]:
    """So many of them in one group, on one folder of data. They run when this begins, and end with it."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT)))}
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-kafka-"))
        words = json.dumps(
            {
                "bootstrap": broker.bootstrap,
                "group": f"bench-{Path(folder).name}",
                "client": dict(broker.client),
                "data_dir": folder,
                "concurrency": told.concurrency,
                "stage_s": told.stage_s,
            }
        )
        command = [sys.executable, "-m", f"benchmarks.{told.program}", words]
        running = [
            stack.enter_context(
                stopped_at_the_end(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env))
            )
            for _ in range(count)
        ]
        for process in running:
            said = process.stdout.readline() if process.stdout else ""
            if said != "started\n":
                raise RuntimeError(f"{told.program} did not start")
        yield running


class Load:
    """Writes requests, and counts outcomes by the ends of their topic."""

    def __init__(self, broker: Broker) -> None:
        self._producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5, "log_level": 0})
        self._quick = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0, "log_level": 0})
        self._reader = Consumer(
            {"bootstrap.servers": broker.bootstrap, "group.id": "reader", "log_level": 0, **broker.client}
        )
        self.sent = 0

    def send(self, count: int) -> None:
        """So many new ones, evenly over the partitions. They are written when this returns."""
        for number in range(self.sent, self.sent + count):
            while True:
                try:
                    self._producer.produce(REQUEST, _request(number), b"key-%d" % number, number % PARTITIONS)
                except BufferError:
                    self._producer.poll(LOOK_S)
                else:
                    break
        self.sent += count
        self._written(self._producer)

    def answered(self) -> int:
        """Outcomes that lie in the topic of results."""
        return sum(end.offset for end in self._ends())

    def _ends(self) -> list[TopicPartition]:
        partitions = [TopicPartition(RESULT, number) for number in range(PARTITIONS)]
        return [TopicPartition(RESULT, at.partition, self._end(at)) for at in partitions]

    def _end(self, partition: TopicPartition) -> int:
        found = self._reader.get_watermark_offsets(partition, DEADLINE_S)
        if found is None:
            raise TimeoutError("the broker does not say how many outcomes there are")
        return found[1]

    def wait_for(self, outcomes: int, within_s: float = DEADLINE_S) -> tuple[float, int]:
        """Return when there are so many outcomes or more (monotonic seconds), and how many."""
        until = time.monotonic() + within_s
        while (count := self.answered()) < outcomes:
            if time.monotonic() > until:
                raise TimeoutError(f"{count} of {outcomes} outcomes after {within_s:.0f} s")
            time.sleep(LOOK_S)
        return time.monotonic(), count

    def round_trips(self, count: int) -> list[float]:
        """Seconds from the writing of a request to the reading of its outcome, one after the other."""
        self._reader.assign(self._ends())
        self._reader.poll(1.0)
        return [self._round_trip() for _ in range(count)]

    def _round_trip(self) -> float:
        number, self.sent = self.sent, self.sent + 1
        began = time.perf_counter()
        self._quick.produce(REQUEST, _request(number), b"key-%d" % number)
        self._quick.poll(0)
        until = time.monotonic() + DEADLINE_S
        while time.monotonic() < until:
            message = self._reader.poll(1.0)
            if message is not None and message.error() is None:
                return time.perf_counter() - began
        raise TimeoutError("no outcome")

    @staticmethod
    def _written(producer: Producer) -> None:
        if producer.flush(DEADLINE_S):
            raise RuntimeError("the broker does not take the requests")


def _request(number: int) -> bytes:
    asked: Mapping[str, object] = {
        "request_id": f"request-{number}",
        "trace_id": f"trace-{number}",
        "query": f"vector databases, case {number}",
        "top_k": 5,
        "filters": {"lang": ["en"]},
        "metadata": {"tenant": "acme"},
    }
    return json.dumps(asked).encode()


def cpu_s(process: subprocess.Popen[str]) -> float:
    """Processor time of a process so far, where /proc tells it."""
    fields = Path(f"/proc/{process.pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mb(process: subprocess.Popen[str]) -> float:
    """Memory of a process that is its own: without the pages of mapped files, which the system takes back as it likes."""
    lines = Path(f"/proc/{process.pid}/status").read_text("ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) / KB
