"""`worker`, `worker --check`, `kafka send` and `kafka tail` on the mock cluster, as users run them."""

from __future__ import annotations

import io
import json
import logging
import os
import re
import signal
import socket
import ssl
import sys
import threading
import time
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest
from confluent_kafka import KafkaError, KafkaException
from tests.fakes.outcome_store import MemoryOutcomeStore
from tests.kafka.broker import Broker
from tests.kafka.mock_cluster import MockCluster
from tests.kafka.reference_client import TOPICS
from tests.support.forked_command import PIPE, ForkedPython

from modules.llm_platform.domain.exceptions import OutcomeStoreError
from modules.llm_platform.presentation.cli.commands import kafka, worker
from modules.llm_platform.presentation.cli.console import Console
from modules.llm_platform.presentation.cli.exit_codes import CommandError
from modules.llm_platform.presentation.cli.main import run
from modules.llm_platform.presentation.cli.setup import Wiring
from modules.llm_platform.presentation.kafka.contract.outcomes import IncomingRecord
from modules.llm_platform.presentation.kafka.contract.requests import CONTRACT_TOPICS
from modules.llm_platform.presentation.kafka.worker.dependencies import Dependencies, make_outcome_store_dependency
from modules.llm_platform.presentation.kafka.worker.handler import RagHandler
from modules.llm_platform.presentation.kafka.worker.worker import WorkerParts
from shared.config import Settings

ROOT = Path(__file__).resolve().parents[2]
PEM = ROOT / "tests" / "unit" / "infrastructure" / "http" / "guarded" / "pages.example.net.pem"
PATIENCE_S = 60.0
NOTE = "the index is this machine's: several machines need QDRANT_URL"

WORKING = """
import sys
from contextlib import asynccontextmanager
from pathlib import Path

from modules.llm_platform.domain.dtos.retrieval_dtos import Hit, RagAnswer, RagHits
from modules.llm_platform.infrastructure.stores.outcomes.sqlite import SqliteOutcomeStore
from modules.llm_platform.presentation.cli.main import run
from modules.llm_platform.presentation.cli.setup import Wiring
from modules.llm_platform.presentation.kafka.contract.requests import Topics
from modules.llm_platform.presentation.kafka.worker.handler import HandlerOptions, RagHandler
from modules.llm_platform.presentation.kafka.worker.worker import WorkerParts

async def search(wanted):
    return RagHits(hits=(Hit(doc_id=wanted.query, score=0.5),))

async def answer(asked):
    return RagAnswer(answer=asked.question)

@asynccontextmanager
async def parts(settings):
    store = SqliteOutcomeStore(Path(sys.argv[1]) / "outcomes.sqlite3", settings.OUTCOME_TTL_DAYS)
    handler = RagHandler(search, answer, store, HandlerOptions(topics=Topics(settings.kafka_topics())))
    yield WorkerParts(handler, store, (sys.argv[2],))
    await store.aclose()

sys.exit(run(["worker"], Wiring(None, None, None, None, parts)))
"""


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """One broker for each test process, because the tests of this file are distributed individually."""
    with MockCluster(TOPICS) as mock:
        yield mock


@pytest.fixture(autouse=True)
def _logs_as_before() -> Iterator[None]:
    """Restore the logging configuration, which the commands change."""
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


def command(console: Console, *arguments: str, build_parts: Callable[..., Any] = parts) -> int:
    """Return the exit code of a command line whose worker has these parts."""
    return run(arguments, Wiring(None, None, None, None, build_parts), console)  # type: ignore[arg-type]


def send(console: Console, *arguments: str, wait: float = PATIENCE_S) -> int:
    return command(console, "kafka", "send", *arguments, "--wait", str(wait))


def errors(console: Console) -> str:
    assert isinstance(console.err, io.StringIO)
    return console.err.getvalue()


@contextmanager
def at_work(broker: Broker, folder: Path, **more: str) -> Iterator[tuple[ForkedPython, str]]:
    """Yield a worker process and its HTTP address."""
    environment = {**os.environ, **variables(broker), "WORKER_HTTP_PORT": "0", **more}
    with ForkedPython(WORKING, folder, NOTE, stderr=PIPE, env=environment) as child:
        try:
            assert child.stderr is not None
            first = child.stderr.readline()
            yield child, first.rsplit("; status at ", 1)[-1].split("/ready")[0]
        finally:
            child.kill()


def page(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


@pytest.mark.usefixtures("on_the_broker")
def test_worker_answers_sent_requests_and_stops_on_sigterm(broker: Broker, tmp_path: Path, console: Console) -> None:
    """The worker starts, gets ready, answers a request sent by hand, reports metrics, and exits with 0 on SIGTERM."""
    with at_work(broker, tmp_path) as (child, address):
        until = time.monotonic() + PATIENCE_S
        while page(f"{address}/ready")[0] != 200:
            assert time.monotonic() < until
            time.sleep(0.1)
        filters = ("--filter", "lang=en", "--filter", "lang=de")
        assert send(console, "what is a topic?", "--id", "mine", "--top-k", "3", *filters) == 0
        outcome = json.loads(printed(console)[-1])
        assert outcome["request_id"] == "mine"
        assert outcome["hits"][0]["doc_id"] == "what is a topic?"
        assert send(console, "and a partition?", "--stage", "answer") == 0
        assert json.loads(printed(console)[-1])["answer"] == "and a partition?"
        assert send(console, '{"request_id": "odd", "query": 7}') == 0
        assert json.loads(printed(console)[-1])["error_code"] == "invalid_payload"
        for unreadable in (
            "{broken",
            '{"query": "x"}',
            '{"request_id": 7}',
            "{\udcff}",
            '{"request_id": "a", "request_id": "b"}',
        ):
            assert send(console, unreadable) == 0
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
    tail = ("kafka", "tail", "--from-start", "--count", "1", "--seconds", str(PATIENCE_S), "--id", "mine", "--json")
    assert command(again, *tail) == 0
    assert json.loads(printed(again)[0]) == outcome


@pytest.mark.usefixtures("on_the_broker")
def test_topics_may_have_other_names(
    broker: Broker, tmp_path: Path, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Worker, check, send, tail and the AsyncAPI document use the topics of KAFKA_CONFIG only."""
    names = {name: f"acme.{name.replace('_', '-')}.v1" for name in TOPICS}
    broker.create_topics(dict.fromkeys(names.values(), 1))
    config = json.dumps({f"topic.{name}": own for name, own in names.items()})
    monkeypatch.setenv("KAFKA_CONFIG", config)
    with at_work(broker, tmp_path, KAFKA_CONFIG=config):
        assert send(console, "what is a topic?", "--id", "own name") == 0
        assert json.loads(printed(console)[-1])["hits"][0]["doc_id"] == "what is a topic?"
        assert send(console, '{"request_id": "own name 2", "query": 7}') == 0
        assert json.loads(printed(console)[-1])["error_code"] == "invalid_payload"
        tail = ("kafka", "tail", "--from-start", "--seconds", str(PATIENCE_S), "--count", "1")
        assert command(console, *tail, "--id", "own name") == 0
        assert printed(console)[-1].startswith("acme.rag-search-result.v1/0/")
    document = Console(io.StringIO(), io.StringIO(), io.StringIO())
    assert command(document, "kafka", "asyncapi") == 0
    channels = json.loads("\n".join(printed(document)))["channels"]
    assert {name: channel["address"] for name, channel in channels.items()} == names


def test_ready_reports_unreachable_brokers(tmp_path: Path) -> None:
    """If no broker is reachable, the worker waits and reports it. One SIGTERM stops it."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        nowhere = f"127.0.0.1:{unused.getsockname()[1]}"
        broker = type("Nowhere", (), {"bootstrap": nowhere, "client": {}})()
        with at_work(broker, tmp_path) as (child, address):
            status, text = page(f"{address}/ready")
            assert (status, json.loads(text)["status"]) == (503, "not ready")
            assert json.loads(text)["detail"].startswith("no broker can be reached")
            assert page(f"{address}/health")[0] == 200
            child.send_signal(signal.SIGTERM)
            assert child.wait(PATIENCE_S) == 0


def test_two_workers_on_one_machine_need_no_settings(broker: Broker, tmp_path: Path) -> None:
    """Each worker uses a free port and logs it. A worker with a fixed port that is in use reports it and exits."""
    default = {"WORKER_HTTP_PORT": ""}
    with at_work(broker, tmp_path, **default) as (_, first), at_work(broker, tmp_path, **default) as (child, second):
        assert first != second
        assert page(f"{first}/health")[0] == page(f"{second}/health")[0] == 200
        port = second.rpartition(":")[2]
        assert child.stderr is not None
        said = [child.stderr.readline() for _ in range(2)]
        words = f"port 9100 is taken, so readiness and metrics are on port {port}; to choose another port, set WORKER_HTTP_PORT"
        assert any(words in line for line in said)
        with at_work(broker, tmp_path, WORKER_HTTP_PORT=port) as (told, said):
            assert f"WORKER_HTTP_PORT {port} of 127.0.0.1 cannot be used" in said
            assert told.wait(PATIENCE_S) != 0


@pytest.mark.usefixtures("on_the_broker")
def test_tail_prints_new_outcomes_with_their_position(broker: Broker, console: Console) -> None:
    """`tail` prints new outcomes with their offsets, and ends after the given time."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": broker.bootstrap})

    has_ended = threading.Event()

    def produce() -> None:
        """Send repeatedly, because the start of the command's subscription is unknown."""
        while not has_ended.wait(0.5):
            producer.produce("rag_failed", b'{"request_id": "late\x1b[31m"}')
            producer.flush(PATIENCE_S)

    late = threading.Thread(target=produce)
    late.start()
    try:
        assert command(console, "kafka", "tail", "--count", "1", "--seconds", str(PATIENCE_S)) == 0
    finally:
        has_ended.set()
        late.join()
    assert re.fullmatch(r'rag_failed/\d+/\d+ \{"request_id": "late"\}', printed(console)[0])
    assert command(console, "kafka", "tail", "--seconds", "0.3") == 0
    assert len(printed(console)) == 1


@pytest.mark.usefixtures("on_the_broker")
def test_missing_outcome_fails_after_the_wait(console: Console) -> None:
    """After the wait, one line says what to check."""
    assert send(console, "anybody?", "--id", "lonely", wait=0.5) == 1
    assert send(console, "{broken", "--stage", "answer", wait=0.5) == 1
    first, second = errors(console).splitlines()
    assert re.search(r"no outcome of lonely within 0.5 s.*worker --check", first)
    assert re.search(r"no outcome of unparsable:rag_answer_request-\d+-\d+ within 0.5 s", second)


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
def test_outcome_belongs_to_a_request_of_the_same_stage(topic: str, value: bytes | None, is_it: bool) -> None:
    """An outcome of the answer stage with the same id does not answer a search."""
    outcome = IncomingRecord(topic, 0, 0, None, value, ())
    assert kafka.is_outcome_of(outcome, CONTRACT_TOPICS, "search", "mine") is is_it


@pytest.mark.usefixtures("on_the_broker")
def test_send_without_wait_prints_topic_partition_and_offset(console: Console) -> None:
    """The output is the topic, partition and offset of the request, also for an invalid request."""
    assert send(console, "{broken", "--stage", "answer", wait=0) == 0
    assert send(console, "unawaited", "--stage", "answer", wait=0) == 0
    assert re.fullmatch(r"(sent to rag_answer_request/\d+/\d+\n){2}", errors(console))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (('{"query": "x"}', "--id", "mine"), "a complete message has its own"),
        ((' {"query": "x"}', "--top-k", "3"), "a complete message has its own"),
        (("{}", "--filter", "lang=en"), "a complete message has its own"),
        (("why?", "--stage", "answer", "--top-k", "3"), "leave out --stage answer"),
        (("why?", "--stage", "answer", "--filter", "lang=en"), "leave out --stage answer"),
        (("why?", "--stage", "answer", "--id", ""), "leave it out for a new id"),
        (("why\udcff?",), "must be UTF-8"),
        (("why?", "--filter", "lang"), "must be KEY=VALUE, such as lang=en"),
        (("why?", "--stage", "find"), "'find' is not one of"),
    ],
)
def test_option_without_a_field_in_the_request_is_wrong_use(
    console: Console, arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """An option without a field in the request is refused before a connection is made."""
    assert send(console, *arguments, wait=0) == 2
    assert words in capsys.readouterr().err


@pytest.mark.usefixtures("on_the_broker")
def test_check_lists_brokers_topics_and_notes(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check lists brokers, topics, outcomes and notes.

    The mock has no ACLs or configs, which is reported and is no failure.
    """
    monkeypatch.setattr("modules.llm_platform.presentation.kafka.admin.check.QUERY_TIMEOUT_S", 0.3)
    assert command(console, "worker", "--check", "--json") == 0
    checks = {check["subject"]: check for check in json.loads("\n".join(printed(console)))["checks"]}
    assert checks["brokers"]["verdict"] == "ok"
    for topic in TOPICS:
        assert "partitions" in checks[f"topic {topic}"]["text"]
    assert checks["settings of rag_search_request"]["verdict"] == "warning"
    assert checks["note"]["text"] == NOTE
    assert command(console, "worker", "--check", "--stages", "search", "--offline") == 0
    assert not [line for line in printed(console) if "rag_answer" in line and line.startswith("!")]


@pytest.mark.usefixtures("on_the_broker")
def test_missing_topic_fails_the_check(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line names the missing topic."""
    monkeypatch.setattr("modules.llm_platform.presentation.kafka.admin.check.QUERY_TIMEOUT_S", 0.3)
    monkeypatch.setenv("KAFKA_CONFIG", '{"topic.rag_failed": "not_there"}')
    assert command(console, "worker", "--check") == 1
    assert errors(console) == "llm-platform: failed: topic not_there\n"


@pytest.mark.usefixtures("on_the_broker")
def test_doctor_sums_up_the_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The doctor prints one line if all is right, and one line for each problem of `worker --check`."""
    monkeypatch.setattr("modules.llm_platform.presentation.kafka.admin.check.QUERY_TIMEOUT_S", 0.3)
    settings = Settings.load()
    first, *rest = worker.check_brokers(settings)
    assert (first.subject, first.verdict) == ("kafka", "ok")
    assert first.text.startswith(settings.KAFKA_BOOTSTRAP_SERVERS[0])
    assert {result.verdict for result in rest} <= {"warning"}
    monkeypatch.setenv("KAFKA_CONFIG", '{"topic.rag_failed": "not_there"}')
    failed = [result for result in worker.check_brokers(Settings.load()) if result.verdict == "failed"]
    assert [result.subject for result in failed] == ["kafka topic not_there"]


def test_doctor_names_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Configured brokers without the extra are a failed check with the install command, and the doctor continues."""
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    (result,) = worker.check_brokers(Settings(KAFKA_BOOTSTRAP_SERVERS="127.0.0.1:9"))
    assert (result.subject, result.verdict, result.text) == ("kafka", "failed", worker.NOT_INSTALLED)


@pytest.mark.usefixtures("on_the_broker")
def test_failing_outcome_store_fails_the_check(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an outcome store no request could be answered."""

    class Broken(MemoryOutcomeStore):
        async def probe(self) -> None:
            raise OutcomeStoreError("the file of outcomes is damaged")

    @asynccontextmanager
    async def broken(settings: Settings) -> AsyncIterator[WorkerParts]:
        store = Broken()
        handler = RagHandler(nobody, nobody, store)  # type: ignore[arg-type]
        yield WorkerParts(handler, store, (), Dependencies([make_outcome_store_dependency(store)]))

    monkeypatch.setattr("modules.llm_platform.presentation.kafka.admin.check.QUERY_TIMEOUT_S", 0.3)
    assert command(console, "worker", "--check", build_parts=broken) == 1
    assert errors(console) == "llm-platform: failed: outcomes\n"


def test_unreachable_brokers_fail_the_check(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says what to check."""
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:9")
    monkeypatch.setattr("modules.llm_platform.presentation.kafka.admin.check.QUERY_TIMEOUT_S", 0.5)
    assert command(console, "worker", "--check") == 1
    assert errors(console) == "llm-platform: failed: brokers\n"
    assert any("KAFKA_BOOTSTRAP_SERVERS" in line for line in printed(console))


def brokers_say(console: Console, monkeypatch: pytest.MonkeyPatch, address: str, **config: str) -> str:
    """Return what `--check` reports about brokers at an unreachable address."""
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", address)
    monkeypatch.setenv("KAFKA_CONFIG", json.dumps(config))
    monkeypatch.setattr("modules.llm_platform.presentation.kafka.admin.check.QUERY_TIMEOUT_S", 2.0)
    assert command(console, "worker", "--check", "--json") == 1
    checks = json.loads("\n".join(printed(console)))["checks"]
    return next(str(check["text"]) for check in checks if check["subject"] == "brokers")


def test_unknown_host_is_named(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the host, not only `_TRANSPORT`.

    A name with a label of 64 letters is invalid and is not resolved.
    """
    name = f"{'a' * 64}.invalid:9092"
    assert f"unknown host: {name} has no address" in brokers_say(console, monkeypatch, name)


def test_unknown_ca_is_named(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the setting for the right CA."""
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
def test_worker_reports_brokers_group_and_topics_at_start(broker: Broker, tmp_path: Path) -> None:
    """The start logs the broker addresses, the group and the topics, as log entries if the log is JSON."""
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


def test_failed_start_is_logged_as_json(broker: Broker, tmp_path: Path) -> None:
    """The log has one entry with the reason, and another one for an unknown variable. The exit code is 1."""
    unreadable = {"KAFKA_CONFIG": '{"acks": "1"}', "KAFKA_GRUOP_ID": "x", "LOG_FORMAT": "json"}
    with at_work(broker, tmp_path, **unreadable) as (child, _):
        assert child.stderr is not None
        assert child.wait(PATIENCE_S) == 1
        last = [json.loads(line) for line in child.stderr.read().splitlines() if line.startswith("{")][-1]
    assert (last["event"], last["level"]) == ("the worker ends", "error")
    assert "acks" in last["reason"]


@pytest.mark.parametrize("arguments", ["worker", "worker --check", "kafka send x", "kafka tail"])
def test_missing_brokers_setting_is_named(console: Console, arguments: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every Kafka command names the missing variable."""
    monkeypatch.setenv("LOG_FORMAT", "console")
    assert command(console, *arguments.split()) == 1
    assert "KAFKA_BOOTSTRAP_SERVERS names no broker" in errors(console)


@pytest.mark.usefixtures("on_the_broker")
def test_setting_that_breaks_the_delivery_guarantee_stops_the_start(
    console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The setting is refused before anything is read."""
    monkeypatch.setenv("KAFKA_CONFIG", '{"acks": "1"}')
    monkeypatch.setenv("WORKER_HTTP_PORT", "0")
    monkeypatch.setenv("LOG_FORMAT", "console")
    assert command(console, "worker", "--stages", "search") == 1
    assert "acks" in errors(console)


@pytest.mark.parametrize("check", [(), ("--check",)])
@pytest.mark.parametrize("stages", ["search,find", "", ",", "search,"])
def test_unknown_stage_is_wrong_use(
    console: Console, stages: str, check: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """The error has an example and precedes all other checks. An empty list does not mean all stages."""
    assert command(console, "worker", "--stages", stages, *check) == 2
    assert "such as search,answer" in capsys.readouterr().err


def test_json_needs_check(console: Console, capsys: pytest.CaptureFixture[str]) -> None:
    """A running worker prints nothing, so --json without --check is refused."""
    assert command(console, "worker", "--json") == 2
    assert "--json: needs --check" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        (KafkaError._TRANSPORT, "check KAFKA_BOOTSTRAP_SERVERS"),
        (KafkaError._MSG_TIMED_OUT, "check KAFKA_BOOTSTRAP_SERVERS"),
        (KafkaError._AUTHENTICATION, "check sasl.username and sasl.password of KAFKA_CONFIG"),
        (KafkaError._UNKNOWN_TOPIC, "create it"),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, "create it"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "the right to write requests and to read outcomes"),
        (KafkaError.INVALID_REQUEST, "Kafka's client failed"),
    ],
)
def test_fatal_error_of_the_client_has_a_remedy(code: int, remedy: str) -> None:
    """The error is one line with librdkafka's error name for reference."""
    error = KafkaError(code)
    with pytest.raises(CommandError, match=f"{remedy}.*") as caught, worker.kafka_errors():
        raise KafkaException(error)
    assert error.name() in str(caught.value)


@pytest.mark.usefixtures("on_the_broker")
def test_send_to_unreachable_brokers_names_the_setting(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line names the setting to check, without librdkafka's details."""
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:9")
    monkeypatch.setattr("modules.llm_platform.presentation.kafka.admin.dev_client.QUERY_TIMEOUT_S", 0.5)
    assert send(console, "x", wait=1) == 1
    assert "no broker can be reached: check KAFKA_BOOTSTRAP_SERVERS" in errors(console)


@pytest.mark.parametrize("missing", worker.KAFKA_PACKAGES)
def test_missing_package_names_its_extra(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message is the exact install command."""
    monkeypatch.setitem(sys.modules, missing, None)
    with (
        pytest.raises(CommandError, match=re.escape('pip install "llm-platform[kafka]"')),
        worker.kafka_errors(),
    ):
        pass
