"""The command `worker` on the mock cluster during faults that only its operator can fix."""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO
from unittest.mock import patch
from urllib.error import HTTPError

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from tests.crash.checker import judge, read_topics
from tests.kafka.broker import Broker
from tests.kafka.mock_cluster import MockCluster
from tests.kafka.reference_client import TOPICS
from tests.support.forked_command import COMMAND_LINE, PIPE, ForkedPython
from tests.support.small_disk import in_a_mount_namespace

from modules.llm_platform.__main__ import wiring
from modules.llm_platform.presentation.cli.console import Console
from modules.llm_platform.presentation.cli.main import run

pytestmark = pytest.mark.usefixtures("restored_logging")  # commands run in this process

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 90.0
GROUP = "rag-core"
WORKER = f"""
from modules.llm_platform.presentation.kafka.admin import check
from modules.llm_platform.presentation.kafka.worker import dependencies, group_watch
dependencies.LOCAL_INTERVAL_S = dependencies.REMOTE_INTERVAL_S = 0.5  # seconds between probes
group_watch.CHECK_INTERVAL_S = check.QUERY_TIMEOUT_S = 1.0  # the mock cluster leaves questions about rights unanswered
{COMMAND_LINE}
"""
COULD_ANSWER_S = 1.0  # within this time a worker that consumes would have answered
REQUESTS = 12
NOTE = "Sessions\n\nA session token stays valid for thirty minutes after the last request.\n"
QUESTION = "How long does a session token stay valid?"
ANSWER = "A session token stays valid for thirty minutes after the last request [1]."


class Model(ThreadingHTTPServer):
    """A model service on loopback that rejects the key while `refuses` is set."""

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
    """A running worker and its log."""

    child: subprocess.Popen[bytes] | ForkedPython
    log: Path

    @property
    def lines(self) -> list[dict[str, object]]:
        text = self.log.read_text("utf-8")
        return [
            json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()
        ]  # the worker may still be writing the last line

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

    def waits_for(self, words: str) -> bool:
        """Return whether the worker is not ready with a reason that contains these words."""
        status, reasons = self.ready()
        return status == 503 and words in reasons


def environment(broker: Broker, folder: Path, **more: str) -> dict[str, str]:
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    ours = {
        "KAFKA_BOOTSTRAP_SERVERS": broker.bootstrap,
        "KAFKA_CONFIG": json.dumps(dict(broker.client)),
        "LLM_PLATFORM_DATA_DIR": str(folder / "data"),
        "EMBEDDER": "none",
        "WORKER_HTTP_PORT": "0",
        "PYTHONPATH": path,
        "LOG_FORMAT": "json",
    }
    return {**os.environ, **ours, **more}


def started(command: Sequence[str], env: Mapping[str, str], out: IO[bytes]) -> subprocess.Popen[bytes] | ForkedPython:
    if command:
        return subprocess.Popen(command, stdout=out, stderr=out, env=dict(env))
    return ForkedPython(WORKER, "worker", env=env, stdout=out, stderr=out)


@contextmanager
def worker(variables: Mapping[str, str], folder: Path, command: Sequence[str] = ()) -> Iterator[Running]:
    """Start a worker in a forked process, or with `command`."""
    log = folder / "worker.log"
    with log.open("wb") as out, started(command, variables, out) as child:
        try:
            yield Running(child, log)
        finally:
            child.kill()


def index(variables: Mapping[str, str], folder: Path) -> None:
    (folder / "notes").mkdir()
    (folder / "notes" / "sessions.md").write_text(NOTE, "utf-8")
    console = Console(io.StringIO(), io.StringIO(), io.StringIO())
    with (
        patch.dict(os.environ, variables),
        ThreadPoolExecutor(1) as thread,
    ):  # the event loop of the test may run in this thread
        assert thread.submit(run, ["index", str(folder / "notes")], wiring(), console).result() == 0


def indexed(variables: Mapping[str, str], folder: Path) -> Path:
    """Return a data folder with an index, for a disk that is mounted later."""
    index({**variables, "LLM_PLATFORM_DATA_DIR": str(folder / "indexed")}, folder)
    return folder / "indexed"


def send(broker: Broker, stage: str, asked: Mapping[str, str], prefix: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(REQUESTS):
        producer.produce(f"rag_{stage}_request", json.dumps({"request_id": f"{prefix}-{number}", **asked}), f"{number}")
    assert producer.flush(PATIENCE_S) == 0


def outcomes(broker: Broker, topic: str) -> int:
    """Return the number of outcomes."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "reader"})
    ends = [
        consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=10)[1]
        for partition in range(TOPICS[topic])
    ]
    consumer.close()
    return sum(ends)


def committed(broker: Broker, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": GROUP})
    positions = consumer.committed(
        [TopicPartition(topic, partition) for partition in range(TOPICS[topic])], timeout=PATIENCE_S
    )
    consumer.close()
    return sum(max(0, position.offset) for position in positions)


def until(seen: object) -> None:
    assert callable(seen)
    end = time.monotonic() + PATIENCE_S
    while not seen():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.1)


def test_without_an_index_nothing_is_consumed(broker: MockCluster, tmp_path: Path) -> None:
    """Without an index the worker is not ready, logs the reason once, and writes no outcome and no offset.

    With an index all requests are answered.
    """
    variables = environment(broker, tmp_path)
    send(broker, "search", {"query": QUESTION}, "early")
    with worker(variables, tmp_path) as running:
        until(lambda: "there is no collection" in running.ready()[1])
        assert running.ready()[0] == 503
        time.sleep(COULD_ANSWER_S)
        assert [outcomes(broker, topic) for topic in ("rag_search_result", "rag_failed")] == [0, 0]
        assert committed(broker, "rag_search_request") == 0
        stopped = [line for line in running.lines if line["level"] == "error"]
        assert [(line["dependency"], line["cause"]) for line in stopped] == [("index", "vector_store_config")]
        index(variables, tmp_path)
        until(lambda: outcomes(broker, "rag_search_result") == REQUESTS)
        assert outcomes(broker, "rag_failed") == 0
        until(lambda: running.ready()[0] == 200 and committed(broker, "rag_search_request") == REQUESTS)


def test_a_key_that_is_rejected_later_consumes_nothing(broker: MockCluster, model: Model, tmp_path: Path) -> None:
    """If the model rejects its key, the worker writes neither quotes nor failures.

    With a valid key the model answers the same requests. SIGTERM stops a waiting worker at once, and its requests are
    read again.
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
        assert running.child.wait(15) == 0  # a drain waits up to 20 s for started requests
        assert committed(broker, "rag_answer_request") == 0
    with worker(variables, tmp_path) as running:
        until(lambda: "refuses the key (401)" in running.ready()[1])
        model.refuses = False
        until(lambda: outcomes(broker, "rag_answer_result") == REQUESTS)
        assert outcomes(broker, "rag_failed") == 0


ON_A_FULL_DISK = """
mount -t tmpfs -o size=200m tmpfs "$LLM_PLATFORM_DATA_DIR"
cp -a "$1/." "$LLM_PLATFORM_DATA_DIR" || exit 99
head -c 300m /dev/zero > "$LLM_PLATFORM_DATA_DIR/filling" 2> /dev/null
exec "$0" -c "$2" worker --check
"""


def test_a_data_folder_that_is_full_at_start_is_reported(broker: MockCluster, tmp_path: Path) -> None:
    """The worker reports a data folder that is full at the start.

    The embedded index maps sparse files, so writing to a full memory disk would end the process with SIGBUS. The test
    needs its own mount namespace, which unprivileged users may create if the kernel allows it.
    """
    unshare = in_a_mount_namespace(tmp_path)
    variables = environment(broker, tmp_path)
    (tmp_path / "data").mkdir()
    command = [*unshare, "sh", "-c", ON_A_FULL_DISK, sys.executable, str(indexed(variables, tmp_path)), WORKER]
    done = subprocess.run(command, capture_output=True, text=True, env=variables, timeout=PATIENCE_S, check=False)
    assert done.returncode == 1, (done.returncode, done.stderr)
    failed = {line.split()[2]: line for line in done.stdout.splitlines() if "failed" in line}
    assert {"outcomes", "index"} <= set(failed)
    assert all(
        "its disk is full" in failed[name] and "LLM_PLATFORM_DATA_DIR" in failed[name] for name in ("outcomes", "index")
    )


IN_A_DISK_OF_ITS_OWN = """
mount -t tmpfs -o size=200m tmpfs "$LLM_PLATFORM_DATA_DIR"
cp -a "$1/." "$LLM_PLATFORM_DATA_DIR" || exit 99
[ "$2" = rw ] || mount -o remount,bind,ro "$LLM_PLATFORM_DATA_DIR"  # without `bind` only root may
exec "$0" -c "$3" worker
"""


@contextmanager
def worker_on_a_disk(
    variables: Mapping[str, str], folder: Path, mode: str
) -> Iterator[tuple[Running, Path, list[str]]]:
    """Yield a worker whose data folder is a small disk, mounted `rw` or `ro`, the folder as seen from here, and the
    command prefix that can mount there.
    """
    unshare = in_a_mount_namespace(folder)
    data = Path(variables["LLM_PLATFORM_DATA_DIR"])
    data.mkdir()
    log = folder / "worker.log"
    words = (sys.executable, str(indexed(variables, folder)), mode, WORKER)
    command = [*unshare, "sh", "-euc", IN_A_DISK_OF_ITS_OWN, *words]
    with log.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=out, env=dict(variables)) as child:
        try:
            of_the_user = ["--user", "--preserve-credentials"] if "--user" in unshare else []
            enter = ["nsenter", "--mount", *of_the_user, "--target", str(child.pid)]
            yield Running(child, log), Path(f"/proc/{child.pid}/root{data}"), enter
        finally:
            child.kill()


def answered_once_each(broker: Broker, prefix: str) -> None:
    """Check that every request has one outcome and is committed, and that nothing failed."""
    until(lambda: committed(broker, "rag_search_request") == outcomes(broker, "rag_search_result"))
    verdict = judge(asyncio.run(read_topics(broker.bootstrap)))
    assert (verdict.problems, outcomes(broker, "rag_failed")) == ((), 0), prefix


def test_the_worker_waits_for_a_full_disk(broker: MockCluster, tmp_path: Path) -> None:
    """With a full disk the worker is not ready, logs one error, and writes no outcome and no commit.

    With free space it answers the waiting requests.
    """
    variables = environment(broker, tmp_path)
    with worker_on_a_disk(variables, tmp_path, "rw") as (running, data, _):
        until(lambda: running.ready()[0] == 200)
        send(broker, "search", {"query": QUESTION}, "before")
        until(lambda: committed(broker, "rag_search_request") == REQUESTS)
        with (data / "filling").open("wb") as file, suppress(OSError):
            while True:
                file.write(bytes(1024 * 1024))
        until(lambda: "its disk is full" in running.ready()[1])
        assert running.ready()[0] == 503
        send(broker, "search", {"query": QUESTION}, "full")
        time.sleep(COULD_ANSWER_S)
        assert (outcomes(broker, "rag_search_result"), committed(broker, "rag_search_request")) == (REQUESTS, REQUESTS)
        (data / "filling").unlink()
        until(lambda: outcomes(broker, "rag_search_result") == 2 * REQUESTS)
        until(lambda: running.ready()[0] == 200)
        answered_once_each(broker, "full")
        assert {line["dependency"] for line in running.lines if line["level"] == "error"} <= {"outcomes", "index"}


def test_the_worker_waits_for_a_read_only_data_folder(broker: MockCluster, tmp_path: Path) -> None:
    """With a read-only disk the worker is not ready from the start. It answers once the disk is writable again."""
    variables = environment(broker, tmp_path)
    with worker_on_a_disk(variables, tmp_path, "ro") as (running, data, enter):
        until(lambda: "LLM_PLATFORM_DATA_DIR" in running.ready()[1])
        status, reasons = running.ready()
        assert status == 503
        assert re.search("read-?only", reasons, re.IGNORECASE), reasons
        send(broker, "search", {"query": QUESTION}, "read-only")
        time.sleep(COULD_ANSWER_S)
        assert (outcomes(broker, "rag_search_result"), committed(broker, "rag_search_request")) == (0, 0)
        mounted = str(variables["LLM_PLATFORM_DATA_DIR"])
        subprocess.run([*enter, "mount", "-o", "remount,bind,rw", mounted], check=True, timeout=PATIENCE_S)
        until(lambda: outcomes(broker, "rag_search_result") == REQUESTS)
        until(lambda: running.ready()[0] == 200)
        answered_once_each(broker, "read-only")
        assert data.is_dir()


def test_a_second_data_folder_in_the_group_is_reported(broker: MockCluster, tmp_path: Path) -> None:
    """A worker with another data folder than its group logs a warning, and `--check` reports it.

    It learns of the other folder from the commits.
    """
    folders = [tmp_path / "first", tmp_path / "second"]
    for number, folder in enumerate(folders):
        folder.mkdir()
        variables = environment(broker, folder)
        index(variables, folder)
        with worker(variables, folder) as running:
            until(lambda running=running: running.ready()[0] == 200)  # type: ignore[misc]
            if number == 0:
                time.sleep(1)  # meanwhile the id of its store is committed
                send(broker, "search", {"query": QUESTION}, "first")
                until(lambda: committed(broker, "rag_search_request") == REQUESTS)
            else:
                until(lambda running=running: others_in(running) != [])  # type: ignore[misc]
                [said] = others_in(running)
                assert said["level"] == "warning"
                assert said["store"] not in said["other_stores"]  # type: ignore[operator]
            running.child.send_signal(signal.SIGTERM)
            assert running.child.wait(PATIENCE_S) == 0
    for folder, verdict in zip(folders, ("ok", "warning"), strict=True):
        command = (WORKER, "worker", "--check", "--json")
        with ForkedPython(*command, env=environment(broker, folder), stdout=PIPE) as child:
            out, _ = child.communicate(timeout=PATIENCE_S)
        checks = {check["subject"]: check for check in json.loads(out)["checks"]}
        assert checks["outcome store"]["verdict"] == verdict
    assert "LLM_PLATFORM_DATA_DIR" in checks["outcome store"]["text"]


def others_in(running: Running) -> list[dict[str, object]]:
    return [line for line in running.lines if "another outcome store" in str(line["event"])]
