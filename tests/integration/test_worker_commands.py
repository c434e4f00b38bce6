"""`worker`, `worker --check`, `kafka send` and `kafka tail` on the mock cluster, as people use them."""

from __future__ import annotations

import io
import json
import logging
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from urllib.error import HTTPError

import pytest
import typer
from confluent_kafka import KafkaError, KafkaException
from tests.kafka.broker import Broker
from tests.kafka.foreign import TOPICS
from tests.kafka.mock_cluster import MockCluster

from modules.llm_platform.domain.exceptions import OutcomeStoreError
from modules.llm_platform.presentation.cli import kafka_dev_client, worker_command
from modules.llm_platform.presentation.cli.console import Console
from modules.llm_platform.presentation.cli.exit_codes import CommandError
from modules.llm_platform.presentation.cli.kafka_dev_client import Sending
from modules.llm_platform.presentation.kafka.contract.outcomes import IncomingRecord
from modules.llm_platform.presentation.kafka.worker.dependencies import Dependencies, of_outcomes
from modules.llm_platform.presentation.kafka.worker.handler import RagHandler
from modules.llm_platform.presentation.kafka.worker.worker import WorkerParts
from modules.llm_platform.testing import MemoryOutcomeStore
from shared.config import Settings, SettingsError

ROOT = Path(__file__).resolve().parents[2]
PEM = ROOT / "tests" / "unit" / "infrastructure" / "reading" / "pages.example.net.pem"
PATIENCE_S = 60.0
NOTE = "the index is this machine's: several machines need QDRANT_URL"

WORKING = """
import sys
from contextlib import asynccontextmanager
from pathlib import Path

from modules.llm_platform.domain.dtos.retrieval_dtos import Hit, RagAnswer, RagHits
from modules.llm_platform.infrastructure.adapters.sqlite_outcome_store import SqliteOutcomeStore
from modules.llm_platform.presentation.cli.console import Console
from modules.llm_platform.presentation.cli.exit_codes import exit_codes
from modules.llm_platform.presentation.cli.worker_command import run_worker_command
from modules.llm_platform.presentation.kafka.worker.handler import RagHandler
from modules.llm_platform.presentation.kafka.worker.worker import WorkerParts

async def search(wanted):
    return RagHits(hits=(Hit(doc_id=wanted.query, score=0.5),))

async def answer(asked):
    return RagAnswer(answer=asked.question)

@asynccontextmanager
async def parts(settings):
    store = SqliteOutcomeStore(Path(sys.argv[1]) / "outcomes.sqlite3", settings.OUTCOME_TTL_DAYS)
    yield WorkerParts(RagHandler(search, answer, store), store, (sys.argv[2],))
    await store.aclose()

console = Console()
with exit_codes(console):
    run_worker_command(console, parts, {}, None)
"""


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with MockCluster(TOPICS) as mock:
        yield mock


@pytest.fixture(autouse=True)
def _logs_as_before() -> Iterator[None]:
    """The commands set the logs of their process up."""
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    yield
    root.setLevel(level)
    root.handlers[:] = handlers


@pytest.fixture
def on_the_broker(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in variables(broker).items():
        monkeypatch.setenv(name, value)


def variables(broker: Broker) -> dict[str, str]:
    return {"KAFKA_BOOTSTRAP_SERVERS": broker.bootstrap, "KAFKA_CONFIG": json.dumps(dict(broker.client))}


@pytest.fixture
def console() -> Console:
    return Console(io.StringIO(), io.StringIO(), io.StringIO())


def printed(console: Console) -> list[str]:
    assert isinstance(console.out, io.StringIO)
    return console.out.getvalue().splitlines()


async def nobody(_: object) -> None:
    raise AssertionError


@asynccontextmanager
async def parts(settings: Settings) -> AsyncIterator[WorkerParts]:
    store = MemoryOutcomeStore()
    yield WorkerParts(RagHandler(nobody, nobody, store), store, (NOTE,))  # type: ignore[arg-type]


@contextmanager
def at_work(broker: Broker, folder: Path, **more: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A worker in a process of its own; its address."""
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, **variables(broker), "WORKER_HTTP_PORT": "0", "PYTHONPATH": path, **more}
    with subprocess.Popen(
        [sys.executable, "-c", WORKING, str(folder), NOTE], stderr=subprocess.PIPE, text=True, env=environment
    ) as child:
        try:
            assert child.stderr is not None
            first = child.stderr.readline()
            yield child, first.rsplit("; ", 1)[-1].split("/ready")[0]
        finally:
            child.kill()


def page(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


@pytest.mark.usefixtures("on_the_broker")
def test_from_a_question_to_the_end(broker: Broker, tmp_path: Path, console: Console) -> None:
    """Start, ready, a request by hand and its outcome, the figures, SIGTERM: done, with 0."""
    with at_work(broker, tmp_path) as (child, address):
        until = time.monotonic() + PATIENCE_S
        while page(f"{address}/ready")[0] != 200:
            assert time.monotonic() < until
            time.sleep(0.1)
        kafka_dev_client.run_send(console, Sending("what is a topic?", "search", "mine", 3, ("lang=en", "lang=de")), PATIENCE_S)
        outcome = json.loads(printed(console)[-1])
        assert outcome["request_id"] == "mine"
        assert outcome["hits"][0]["doc_id"] == "what is a topic?"
        kafka_dev_client.run_send(console, Sending("and a partition?", "answer", None, None, ()), PATIENCE_S)
        assert json.loads(printed(console)[-1])["answer"] == "and a partition?"
        kafka_dev_client.run_send(console, Sending('{"request_id": "odd", "query": 7}', "search", None, None, ()), PATIENCE_S)
        assert json.loads(printed(console)[-1])["error_code"] == "invalid_payload"
        for unreadable in (
            "{broken",
            '{"query": "x"}',
            '{"request_id": 7}',
            "{\udcff}",
            '{"request_id": "a", "request_id": "b"}',
        ):
            kafka_dev_client.run_send(console, Sending(unreadable, "search", None, None, ()), PATIENCE_S)
            told = json.loads(printed(console)[-1])
            assert re.fullmatch(r"unparsable:rag_search_request-\d+-\d+", told["request_id"])
        figures = page(f"{address}/metrics")[1]
        assert re.search(r'llm_platform_worker_outcomes_total\{code="ok",stage="search"\} [1-9]', figures)
        assert re.search(r'llm_platform_worker_outcomes_total\{code="invalid_payload",stage="search"\} [1-9]', figures)
        child.send_signal(signal.SIGTERM)
        assert child.wait(PATIENCE_S) == 0
        assert child.stderr is not None
        said = child.stderr.read()
    assert "outcomes are shared by all workers of this machine" in said
    assert NOTE in said
    again = Console(io.StringIO(), io.StringIO(), io.StringIO())
    kafka_dev_client.run_tail(again, from_start=True, count=1, seconds=PATIENCE_S, request_id="mine", as_json=True)
    assert json.loads(printed(again)[0]) == outcome


def test_one_that_is_not_ready_says_why(tmp_path: Path) -> None:
    """Nobody listens where the broker should be: the worker waits, and tells; a second SIGTERM is not needed."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        nowhere = f"127.0.0.1:{unused.getsockname()[1]}"
        broker = type("Nowhere", (), {"bootstrap": nowhere, "client": {}})()
        with at_work(broker, tmp_path) as (child, address):
            assert page(f"{address}/ready") == (
                503,
                '{"status": "not ready", "detail": "no broker can be reached", "reasons": ["no broker can be reached"]}',
            )  # fmt: skip
            assert page(f"{address}/health")[0] == 200
            began = time.monotonic()
            child.send_signal(signal.SIGTERM)
            assert child.wait(PATIENCE_S) == 0
            assert time.monotonic() - began < PATIENCE_S / 2


def test_two_workers_on_one_machine_need_no_settings(broker: Broker, tmp_path: Path) -> None:
    """Each has a port of its own and says which; one that was told a port that is taken says so and ends."""
    default = {"WORKER_HTTP_PORT": ""}
    with at_work(broker, tmp_path, **default) as (_, first), at_work(broker, tmp_path, **default) as (child, second):
        assert first != second
        assert page(f"{first}/health")[0] == page(f"{second}/health")[0] == 200
        port = second.rpartition(":")[2]
        assert child.stderr is not None
        said = [child.stderr.readline() for _ in range(2)]
        words = f"port 9100 is taken, so readiness and metrics are on port {port}; WORKER_HTTP_PORT chooses another"
        assert any(words in line for line in said)
        with at_work(broker, tmp_path, WORKER_HTTP_PORT=port) as (told, said):
            assert f"WORKER_HTTP_PORT {port} of 127.0.0.1 cannot be listened on" in said
            assert told.wait(PATIENCE_S) != 0


@pytest.mark.usefixtures("on_the_broker")
def test_tail_shows_what_comes(broker: Broker, console: Console) -> None:
    """From now on, with its place; and it ends after so long."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": broker.bootstrap})

    def produce() -> None:
        time.sleep(1)
        producer.produce("rag_failed", b'{"request_id": "late\x1b[31m"}')
        producer.flush(10)

    late = threading.Thread(target=produce)
    late.start()
    kafka_dev_client.run_tail(console, from_start=False, count=1, seconds=PATIENCE_S, request_id=None, as_json=False)
    late.join()
    assert re.fullmatch(r'rag_failed/\d+/\d+ \{"request_id": "late"\}', printed(console)[0])
    kafka_dev_client.run_tail(console, from_start=False, count=None, seconds=0.3, request_id=None, as_json=False)
    assert len(printed(console)) == 1


@pytest.mark.usefixtures("on_the_broker")
def test_no_outcome_in_time_is_a_failure(console: Console) -> None:
    """One line that says what to look at."""
    with pytest.raises(CommandError, match=r"no outcome of lonely within 0.5 s.*worker --check"):
        kafka_dev_client.run_send(console, Sending("anybody?", "search", "lonely", None, ()), 0.5)
    with pytest.raises(CommandError, match=r"no outcome of unparsable:rag_answer_request-\d+-\d+ within 0.5 s"):
        kafka_dev_client.run_send(console, Sending("{broken", "answer", None, None, ()), 0.5)


@pytest.mark.parametrize(
    ("topic", "value", "is_it"),
    [
        ("rag_search_result", b'{"request_id": "mine", "hits": []}', True),
        ("rag_search_result", b'{"request_id": "yours", "hits": []}', False),
        ("rag_answer_result", b'{"request_id": "mine", "answer": ""}', False),
        ("rag_failed", b'{"request_id": "mine", "stage": "search"}', True),
        ("rag_failed", b'{"request_id": "mine", "stage": "answer"}', False),
        ("rag_search_result", b"[" * 100_000, False),
        ("rag_search_result", b'["request_id", "mine"]', False),
        ("rag_search_result", None, False),
    ],
)
def test_a_stage_has_ids_of_its_own(topic: str, value: bytes | None, is_it: bool) -> None:
    """A search is not answered by the outcome of a question that has the same id."""
    outcome = IncomingRecord(topic, 0, 0, None, value, ())
    assert kafka_dev_client.is_outcome_of(outcome, "search", "mine") is is_it


@pytest.mark.usefixtures("on_the_broker")
def test_not_waiting_says_where_it_went(console: Console) -> None:
    """Topic, partition and offset of the request, also of one that is no request."""
    kafka_dev_client.run_send(console, Sending("{broken", "answer", None, None, ()), 0)
    kafka_dev_client.run_send(console, Sending("unawaited", "answer", None, None, ()), 0)
    assert isinstance(console.err, io.StringIO)
    assert re.fullmatch(r"(sent to rag_answer_request/\d+/\d+\n){2}", console.err.getvalue())


@pytest.mark.usefixtures("on_the_broker")
def test_a_filter_that_is_none(console: Console) -> None:
    """Wrong use, with an example."""
    with pytest.raises(typer.BadParameter, match="must be KEY=VALUE, such as lang=en"):
        kafka_dev_client.run_send(console, Sending("x", "search", None, None, ("lang",)), 0)


@pytest.mark.parametrize(
    ("sending", "words"),
    [
        (Sending('{"query": "x"}', "search", "mine", None, ()), "a whole message says this itself"),
        (Sending(' {"query": "x"}', "search", None, 3, ()), "a whole message says this itself"),
        (Sending("{}", "search", None, None, ("lang=en",)), "a whole message says this itself"),
        (Sending("why?", "answer", None, 3, ()), "leave out --stage answer"),
        (Sending("why?", "answer", None, None, ("lang=en",)), "leave out --stage answer"),
        (Sending("why?", "answer", "", None, ()), "leave it out for a new id"),
        (Sending("why\udcff?", "search", None, None, ()), "must be UTF-8"),
    ],
)
def test_what_a_request_has_no_place_for_is_not_dropped(console: Console, sending: Sending, words: str) -> None:
    """An option that would change nothing is wrong use, said before anybody is connected to."""
    with pytest.raises(typer.BadParameter, match=words):
        kafka_dev_client.run_send(console, sending, 0)


@pytest.mark.usefixtures("on_the_broker")
def test_the_check_names_what_it_looked_at(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers, topics, outcomes, notes; the mock tells nothing of rights and settings, which is said and is no failure."""
    monkeypatch.setattr("modules.llm_platform.presentation.kafka.admin.check.ASK_S", 0.3)
    worker_command.check(console, parts, {}, None, as_json=True)
    checks = {each["subject"]: each for each in json.loads("\n".join(printed(console)))["checks"]}
    assert checks["brokers"]["verdict"] == "ok"
    for topic in TOPICS:
        assert "partitions" in checks[f"topic {topic}"]["text"]
    assert checks["settings of rag_search_request"]["verdict"] == "warning"
    assert checks["note"]["text"] == NOTE
    worker_command.check(console, parts, {}, "search", as_json=False)
    assert not [line for line in printed(console) if "rag_answer" in line and line.startswith("!")]


@pytest.mark.usefixtures("on_the_broker")
def test_a_missing_topic_fails_the_check(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the one line that names it."""
    monkeypatch.setattr("modules.llm_platform.presentation.kafka.admin.check.ASK_S", 0.3)
    monkeypatch.setattr("modules.llm_platform.presentation.kafka.admin.acls.FAILED_TOPIC", "not_there")
    with pytest.raises(CommandError, match="failed: topic not_there"):
        worker_command.check(console, parts, {}, None, as_json=False)


@pytest.mark.usefixtures("on_the_broker")
def test_a_store_that_fails_fails_the_check(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing could be answered."""

    class Broken(MemoryOutcomeStore):
        async def probe(self) -> None:
            raise OutcomeStoreError("the file of outcomes is damaged")

    @asynccontextmanager
    async def broken(settings: Settings) -> AsyncIterator[WorkerParts]:
        store = Broken()
        handler = RagHandler(nobody, nobody, store)  # type: ignore[arg-type]
        yield WorkerParts(handler, store, (), Dependencies([of_outcomes(store)]))

    monkeypatch.setattr("modules.llm_platform.presentation.kafka.admin.check.ASK_S", 0.3)
    with pytest.raises(CommandError, match="failed: outcomes"):
        worker_command.check(console, broken, {}, None, as_json=False)


def test_brokers_that_cannot_be_reached_fail_the_check(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what to look at."""
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:9")
    monkeypatch.setattr("modules.llm_platform.presentation.kafka.admin.check.ASK_S", 0.5)
    with pytest.raises(CommandError, match="failed: brokers"):
        worker_command.check(console, parts, {}, None, as_json=False)
    assert any("KAFKA_BOOTSTRAP_SERVERS" in line for line in printed(console))


def brokers_say(console: Console, monkeypatch: pytest.MonkeyPatch, address: str, **config: str) -> str:
    """What `--check` tells about brokers that it cannot reach there."""
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", address)
    monkeypatch.setenv("KAFKA_CONFIG", json.dumps(config))
    monkeypatch.setattr("modules.llm_platform.presentation.kafka.admin.check.ASK_S", 2.0)
    with pytest.raises(CommandError, match="failed: brokers"):
        worker_command.check(console, parts, {}, None, as_json=True)
    checks = json.loads("\n".join(printed(console)))["checks"]
    return next(str(each["text"]) for each in checks if each["subject"] == "brokers")


def test_an_unknown_host_is_named(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not `_TRANSPORT` alone. A name with a part of 64 letters is none: nobody is asked for it."""
    name = f"{'a' * 64}.invalid:9092"
    assert f"unknown host: {name} has no address" in brokers_say(console, monkeypatch, name)


def test_an_unknown_ca_is_named(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the setting that names the right one."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(PEM)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with suppress(OSError):  # until it is closed
                while True:
                    client, _ = server.accept()
                    with client, suppress(OSError), context.wrap_socket(client, server_side=True) as secure:
                        secure.recv(1)

        threading.Thread(target=serve, daemon=True).start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        said = brokers_say(console, monkeypatch, address, **{"security.protocol": "SSL"})
        assert "unknown CA" in said
        assert "ssl.ca.location" in said
        server.shutdown(socket.SHUT_RDWR)


@pytest.mark.usefixtures("on_the_broker")
def test_a_worker_says_at_first_what_it_reads(broker: Broker, tmp_path: Path) -> None:
    """The brokers' addresses, the group and the topics; each line is an entry of the log where that is JSON."""
    with at_work(broker, tmp_path, LOG_FORMAT="json") as (child, address):
        assert child.stderr is not None
        second = json.loads(child.stderr.readline())
        assert second["event"] == (
            f"reading rag_search_request and rag_answer_request as group rag-core from {broker.bootstrap}"
        )
        until = time.monotonic() + PATIENCE_S
        while page(f"{address}/ready")[0] != 200:
            assert time.monotonic() < until
            time.sleep(0.1)
        child.send_signal(signal.SIGTERM)
        assert child.wait(PATIENCE_S) == 0
        for line in child.stderr.read().splitlines():
            assert json.loads(line)["event"]


def test_a_start_that_fails_is_told_in_json_too(broker: Broker, tmp_path: Path) -> None:
    """One entry with the reason, exit code 1; an unknown variable is another one."""
    unreadable = {"KAFKA_CONFIG": '{"acks": "1"}', "KAFKA_GRUOP_ID": "x", "LOG_FORMAT": "json"}
    with at_work(broker, tmp_path, **unreadable) as (child, _):
        assert child.stderr is not None
        assert child.wait(PATIENCE_S) == 1
        last = [json.loads(line) for line in child.stderr.read().splitlines() if line.startswith("{")][-1]
    assert (last["event"], last["level"]) == ("the worker ends", "error")
    assert "acks" in last["reason"]


@pytest.mark.parametrize("command", ["worker", "check", "send"])
def test_without_brokers_the_variable_is_named(console: Console, command: str) -> None:
    """Whatever is started."""
    commands = {
        "worker": lambda: worker_command.run_worker_command(console, parts, {}, None),
        "check": lambda: worker_command.check(console, parts, {}, None, as_json=False),
        "send": lambda: kafka_dev_client.run_send(console, Sending("x", "search", None, None, ()), 0),
    }
    with pytest.raises(SettingsError, match="KAFKA_BOOTSTRAP_SERVERS"):
        commands[command]()


@pytest.mark.usefixtures("on_the_broker")
def test_a_setting_that_breaks_the_promise_stops_the_start(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is read."""
    monkeypatch.setenv("KAFKA_CONFIG", '{"acks": "1"}')
    monkeypatch.setenv("WORKER_HTTP_PORT", "0")
    with pytest.raises(SettingsError, match="acks"):
        worker_command.run_worker_command(console, parts, {}, "search")


@pytest.mark.parametrize("listed", ["search,find", "", ",", "search,"])
def test_a_stage_that_is_none(console: Console, listed: str) -> None:
    """Wrong use with an example, before anything else is looked at; nothing is not everything."""
    for command in (worker_command.run_worker_command, worker_command.check):
        options = {"as_json": False} if command is worker_command.check else {}
        with pytest.raises(typer.BadParameter, match="such as search,answer"):
            command(console, parts, {}, listed, **options)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        (KafkaError._TRANSPORT, "is KAFKA_BOOTSTRAP_SERVERS right"),
        (KafkaError._MSG_TIMED_OUT, "is KAFKA_BOOTSTRAP_SERVERS right"),
        (KafkaError._AUTHENTICATION, "check the user and the password in KAFKA_CONFIG"),
        (KafkaError._UNKNOWN_TOPIC, "create it"),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, "create it"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "the right to write requests and to read outcomes"),
        (KafkaError.INVALID_REQUEST, "beyond help"),
    ],
)
def test_what_kafkas_client_cannot_get_over_has_a_remedy(code: int, remedy: str) -> None:
    """One line, with the client's own name of the error for whoever looks it up."""
    error = KafkaError(code)
    with pytest.raises(CommandError, match=f"{remedy}.*") as caught, worker_command.kafka_errors():
        raise KafkaException(error)
    assert error.name() in str(caught.value)


@pytest.mark.usefixtures("on_the_broker")
def test_nobody_to_send_to(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line names what to look at, not the client's troubles."""
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:9")
    monkeypatch.setattr("modules.llm_platform.presentation.kafka.admin.dev_client.ASK_S", 0.5)
    with pytest.raises(CommandError, match="no broker can be reached: is KAFKA_BOOTSTRAP_SERVERS right"):
        kafka_dev_client.run_send(console, Sending("x", "search", None, None, ()), 1)


@pytest.mark.parametrize("missing", worker_command.OF_THE_EXTRA)
def test_without_the_package_its_extra_is_named(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The exact line to install it."""
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(CommandError, match=re.escape('pip install "llm-platform[kafka]"')), worker_command.kafka_errors():
        pass
