"""The command `worker` on the mock cluster, while something that only its operator can mend is wrong."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.error import HTTPError

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from tests.kafka.foreign import TOPICS
from tests.kafka.mock_cluster import MockCluster

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 90.0
GROUP = "rag-core"
REQUESTS = 12
NOTE = "Sessions\n\nA session token stays valid for thirty minutes after the last request.\n"
QUESTION = "How long does a session token stay valid?"
ANSWER = "A session token stays valid for thirty minutes after the last request [1]."


class Model(ThreadingHTTPServer):
    """A model's service on loopback; while `refuses` it does not know the key."""

    def __init__(self) -> None:
        self.refuses = False
        self.refused = 0
        super().__init__(("127.0.0.1", 0), _ModelHandler)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class _ModelHandler(BaseHTTPRequestHandler):
    server: Model

    def do_GET(self) -> None:
        self._answer({"data": []})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": ANSWER}}
        self._answer({"id": "1", "object": "chat.completion", "model": body["model"], "choices": [choice]})

    def _answer(self, content: Mapping[str, object]) -> None:
        status = 401 if self.server.refuses else 200
        self.server.refused += self.server.refuses
        data = json.dumps({"error": {"code": "invalid_api_key"}} if self.server.refuses else content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def broker() -> Iterator[MockCluster]:
    with MockCluster(TOPICS) as mock:
        yield mock


@pytest.fixture
def model() -> Iterator[Model]:
    with Model() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@dataclass
class Running:
    """A worker, and what it says."""

    child: subprocess.Popen[bytes]
    log: Path

    @property
    def lines(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.log.read_text("utf-8").splitlines()]

    def ready(self) -> tuple[int, str]:
        port = re.search(r"http://127\.0\.0\.1:(\d+)", self.log.read_text("utf-8"))
        if port is None:
            return 0, ""
        try:
            with urllib.request.urlopen(f"{port[0]}/ready", timeout=PATIENCE_S) as answer:
                return answer.status, answer.read().decode()
        except HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""


def environment(broker: MockCluster, folder: Path, **more: str) -> dict[str, str]:
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    ours = {
        "KAFKA_BOOTSTRAP_SERVERS": broker.bootstrap, "KAFKA_CONFIG": json.dumps(dict(broker.client)),
        "LLM_PLATFORM_DATA_DIR": str(folder / "data"), "EMBEDDER": "none", "WORKER_HTTP_PORT": "0", "PYTHONPATH": path,
        "LOG_FORMAT": "json",
    }  # fmt: skip
    return {**os.environ, **ours, **more}


@contextmanager
def worker(variables: Mapping[str, str], folder: Path) -> Iterator[Running]:
    log = folder / "worker.log"
    with (
        log.open("wb") as out,
        subprocess.Popen(
            [sys.executable, "-m", "modules.llm_platform", "worker"], stdout=out, stderr=out, env=dict(variables)
        ) as child,
    ):
        try:
            yield Running(child, log)
        finally:
            child.kill()


def index(variables: Mapping[str, str], folder: Path) -> None:
    (folder / "notes").mkdir()
    (folder / "notes" / "sessions.md").write_text(NOTE, "utf-8")
    command = [sys.executable, "-m", "modules.llm_platform", "index", str(folder / "notes")]
    subprocess.run(command, check=True, env=dict(variables), capture_output=True, timeout=PATIENCE_S)


def send(broker: MockCluster, stage: str, asked: Mapping[str, str], prefix: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(REQUESTS):
        producer.produce(f"rag_{stage}_request", json.dumps({"request_id": f"{prefix}-{number}", **asked}), f"{number}")
    assert producer.flush(PATIENCE_S) == 0


def outcomes(broker: MockCluster, topic: str) -> int:
    """How many there are."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "reader"})
    ends = [consumer.get_watermark_offsets(TopicPartition(topic, each), timeout=10)[1] for each in range(TOPICS[topic])]
    consumer.close()
    return sum(ends)


def committed(broker: MockCluster, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": GROUP})
    places = consumer.committed([TopicPartition(topic, each) for each in range(TOPICS[topic])], timeout=PATIENCE_S)
    consumer.close()
    return sum(max(0, place.offset) for place in places)


def until(seen: object) -> None:
    assert callable(seen)
    end = time.monotonic() + PATIENCE_S
    while not seen():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.1)


def test_without_an_index_nothing_is_consumed(broker: MockCluster, tmp_path: Path) -> None:
    """Not ready, with the reason, which is logged once; no outcome and no offset. With an index all are answered."""
    variables = environment(broker, tmp_path)
    send(broker, "search", {"query": QUESTION}, "early")
    with worker(variables, tmp_path) as running:
        until(lambda: "there is no collection" in running.ready()[1])
        assert running.ready()[0] == 503
        time.sleep(2)  # in which it could consume them
        assert [outcomes(broker, topic) for topic in ("rag_search_result", "rag_failed")] == [0, 0]
        assert committed(broker, "rag_search_request") == 0
        stopped = [line for line in running.lines if line["level"] == "error"]
        assert [(line["dependency"], line["cause"]) for line in stopped] == [("index", "vector_store_config")]
        index(variables, tmp_path)
        until(lambda: outcomes(broker, "rag_search_result") == REQUESTS)
        assert outcomes(broker, "rag_failed") == 0
        until(lambda: running.ready()[0] == 200 and committed(broker, "rag_search_request") == REQUESTS)


def test_a_key_that_is_refused_half_way_consumes_nothing(broker: MockCluster, model: Model, tmp_path: Path) -> None:
    """No quotes in the model's stead, no failure; when the key is good again the same requests are answered by the model.
    SIGTERM ends a worker that waits at once, and its requests are read again.
    """
    variables = environment(
        broker, tmp_path, LLM_KIND="vllm", LLM_BASE_URL=model.address, LLM_MODEL="m", LLM_API_KEY="k" * 9
    )
    index(variables, tmp_path)
    with worker(variables, tmp_path) as running:
        until(lambda: running.ready()[0] == 200)
        model.refuses = True
        send(broker, "answer", {"question": QUESTION}, "refused")
        until(lambda: "refuses the key (401)" in running.ready()[1])
        assert [outcomes(broker, topic) for topic in ("rag_answer_result", "rag_failed")] == [0, 0]
        running.child.send_signal(signal.SIGTERM)
        assert running.child.wait(15) == 0  # a drain waits 20 s for what has begun
        assert committed(broker, "rag_answer_request") == 0
    with worker(variables, tmp_path) as running:
        until(lambda: "refuses the key (401)" in running.ready()[1])
        model.refuses = False
        until(lambda: outcomes(broker, "rag_answer_result") == REQUESTS)
        assert outcomes(broker, "rag_failed") == 0
