"""A worker with a schema registry. A fake registry on loopback has the requests and responses of Confluent's API."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

import pytest
from tests.fakes.outcome_store import MemoryOutcomeStore
from tests.integration.test_kafka_worker import options as worker_options
from tests.integration.test_kafka_worker import working
from tests.kafka.mock_cluster import MockCluster

from modules.llm_platform.container import build_message_schemas
from modules.llm_platform.domain.dtos.retrieval_dtos import Hit, RagHits, RagSearch
from modules.llm_platform.domain.exceptions import SchemaRegistryError
from modules.llm_platform.infrastructure.confluent_schema_registry import ConfluentSchemaRegistry
from modules.llm_platform.infrastructure.resources import Resources
from modules.llm_platform.presentation.kafka.contract.outcomes import IncomingRecord
from modules.llm_platform.presentation.kafka.contract.requests import CONTRACT_TOPICS, STAGES, Topics
from modules.llm_platform.presentation.kafka.contract.wire_format import MessageSchemas, without_header
from modules.llm_platform.presentation.kafka.worker.handler import HandlerOptions, RagHandler
from modules.llm_platform.presentation.kafka.worker.worker import Worker
from modules.llm_platform.testing.waiting import becomes_true, error_of
from shared.config import Settings, SettingsError

REQUESTS, RESULTS, FAILED = "rag_search_request", "rag_search_result", "rag_failed"
LOGIN = ("key", "a-long-secret")
PATIENCE_S = 60.0


class FakeRegistry:
    """Subjects with their schemas. `incompatible` subjects accept no other schema.

    `broken` answers every request with 500.
    """

    def __init__(self) -> None:
        self.subjects: dict[str, list[tuple[int, str]]] = {}
        self.incompatible: set[str] = set()
        self.calls: list[str] = []
        self.broken = False
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def __enter__(self) -> FakeRegistry:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, path: str, login: str | None, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        self.calls.append(path)
        if self.broken:
            return 500, {"error_code": 50001, "message": "Error in the backend data store"}
        if login != "Basic " + base64.b64encode(":".join(LOGIN).encode()).decode():
            return 401, {"error_code": 401, "message": "Unauthorized"}
        assert body["schemaType"] == "JSON"
        parts = [unquote(part) for part in path.strip("/").split("/")]
        subject = parts[2] if parts[0] == "compatibility" else parts[1]
        versions = self.subjects.get(subject, [])
        known = next((number for number, schema in versions if schema == body["schema"]), None)
        if parts[0] == "compatibility":
            if not versions:
                return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}
            return 200, {"is_compatible": subject not in self.incompatible}
        if len(parts) == 2:
            if known is None:
                return 404, {"error_code": 40403 if versions else 40401, "message": "Schema not found"}
            return 200, {"subject": subject, "id": known, "version": 1, "schema": body["schema"]}
        if known is None:
            if versions and subject in self.incompatible:
                return 409, {"error_code": 409, "message": "incompatible with an earlier schema"}
            known = 100_000 + sum(map(len, self.subjects.values()))
            self.subjects.setdefault(subject, []).append((known, body["schema"]))
        return 200, {"id": known}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                status, answer = registry.answer(self.path, self.headers.get("Authorization"), body)
                data = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                return

        return Handler


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with FakeRegistry() as fake:
        yield fake


@pytest.fixture
def broker() -> Iterator[MockCluster]:
    with MockCluster({REQUESTS: 1, RESULTS: 1, FAILED: 1}) as mock:
        yield mock


def schemas_of(registry: FakeRegistry, *, registers: bool = True, topics: Topics = CONTRACT_TOPICS) -> MessageSchemas:
    return MessageSchemas(ConfluentSchemaRegistry(registry.url, LOGIN), topics, registers=registers)


def handler_of(schemas: MessageSchemas | None, store: MemoryOutcomeStore) -> RagHandler:
    async def search(wanted: RagSearch) -> RagHits:
        return RagHits(hits=(Hit(doc_id=wanted.query, score=0.5),))

    async def answer(_: object) -> Any:
        raise AssertionError

    return RagHandler(search, answer, store, HandlerOptions(schemas=schemas))


def record(value: bytes) -> IncomingRecord:
    return IncomingRecord(REQUESTS, 0, 0, b"k", value)


def request(query: object = "kafka") -> bytes:
    return json.dumps({"request_id": "a", "query": query}).encode()


async def test_outcomes_have_the_id_of_their_schema(registry: FakeRegistry) -> None:
    """The header, with a right or another schema id or without one, does not change a request.

    All outcomes are byte-identical.
    """
    schemas, store = schemas_of(registry), MemoryOutcomeStore()
    await schemas.load(STAGES)
    assert sorted(registry.subjects) == sorted(
        f"{topic}-value" for topic in (*CONTRACT_TOPICS.requests.values(), *CONTRACT_TOPICS.written_by(STAGES))
    )
    handler = handler_of(schemas, store)
    values = [request(), b"\0\0\0\0\7" + request(), b"\0\0\1\0\7" + request()]
    found = [await handler.handle(record(value)) for value in values]
    assert len({outcome.value for outcome in found}) == 1
    assert {outcome.headers for outcome in found} == {()}  # without a header the payload is the same
    [(number, schema)] = registry.subjects["rag_search_result-value"]
    assert found[0].value[:5] == b"\0" + number.to_bytes(4)
    assert json.loads(found[0].value[5:])["hits"][0]["doc_id"] == "kafka"
    assert json.loads(schema)["title"] == RESULTS
    failed = await handler.handle(record(b'{"request_id": "b"}'))
    assert failed.value[:5] == b"\0" + registry.subjects["rag_failed-value"][0][0].to_bytes(4)
    plain = handler_of(None, store)
    assert (await plain.handle(record(request()))).value == found[0].value  # the stored outcome does not change
    assert json.loads((await plain.handle(record(b"\0\0\0\0\7{}"))).value)["error_code"] == "invalid_payload"


async def test_unusable_headers_are_invalid_requests(registry: FakeRegistry) -> None:
    """Each unusable header has one invalid-request outcome, and the worker continues."""
    schemas = schemas_of(registry)
    await schemas.load(STAGES)
    handler = handler_of(schemas, MemoryOutcomeStore())
    for value in (b"", b"\0", b"\0\0\0\0", b"\0\0\0\0\1", b"\0\0\0\0\1\0{}", b"\1\0\0\0\1{}"):
        outcome = await handler.handle(record(value))
        assert json.loads(without_header(outcome.value))["error_code"] == "invalid_payload"


async def test_registry_is_called_at_the_start_only(registry: FakeRegistry) -> None:
    """After the start the registry may be unavailable. Subjects are named after the topics."""
    schemas = schemas_of(registry, topics=Topics({RESULTS: "acme.result/ü"}))
    await schemas.load(["search"])
    assert "acme.result/ü-value" in registry.subjects
    calls = len(registry.calls)
    assert calls == 3
    registry.broken = True
    await schemas.load(["search"])
    assert len(registry.calls) == calls


async def test_missing_schema_is_not_registered_without_permission(registry: FakeRegistry) -> None:
    """The error names the missing subject. Once it is registered, the ids are found."""
    schemas = schemas_of(registry, registers=False)
    error = await error_of(schemas.load(["search"]), SchemaRegistryError)
    assert "rag_search_request-value is not registered" in error.message
    assert registry.subjects == {}
    await schemas_of(registry).load(STAGES)
    await schemas.load(STAGES)
    assert schemas.error is None


async def test_check_reports_each_schema(registry: FakeRegistry) -> None:
    """The check reports registered, compatible, incompatible and missing schemas, or why it failed.

    It registers nothing.
    """

    async def verdicts(**more: Any) -> set[tuple[str, str]]:
        found = await schemas_of(registry, **more).check(["search"])
        assert len(found) == 3
        return {(result.verdict, result.text.partition(":")[0].partition(" with")[0]) for result in found}

    assert await verdicts() == {("ok", "compatible; the worker registers it at its start")}
    assert await verdicts(registers=False) == {("failed", "not registered")}
    assert registry.subjects == {}
    await schemas_of(registry).load(["search"])
    assert await verdicts() == {("ok", "registered")}
    for subject in registry.subjects:
        registry.subjects[subject] = [(1, "{}")]
        registry.incompatible.add(subject)
    assert await verdicts() == {("failed", "incompatible")}
    error = await error_of(schemas_of(registry).load(["search"]), SchemaRegistryError)
    assert "incompatible with an earlier version (409)" in error.message
    registry.broken = True
    assert await verdicts() == {("failed", "the schema registry answered")}


@pytest.mark.parametrize("login", [None, ("key", "wrong-secret")])
async def test_refused_login_is_reported_without_the_secret(
    registry: FakeRegistry, login: tuple[str, str] | None
) -> None:
    """A refused login is reported with its status and without the secret."""
    error = await error_of(ConfluentSchemaRegistry(registry.url, login).register("a", "{}"), SchemaRegistryError)
    assert "does not accept the credentials (401)" in error.message
    assert "wrong-secret" not in error.message


@pytest.mark.parametrize("answer", [{}, {"id": "7"}, {"id": -1}, {"id": 2**31}, {"id": True}])
async def test_answer_without_an_id_is_an_error(
    registry: FakeRegistry, answer: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer without an id means that another server is listening there."""
    monkeypatch.setattr(registry, "answer", lambda *_: (200, answer))
    error = await error_of(ConfluentSchemaRegistry(registry.url, LOGIN).register("a", "{}"), SchemaRegistryError)
    assert "without the id" in error.message


async def test_worker_waits_for_the_registry(
    registry: FakeRegistry, broker: MockCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the registry is down, the worker is not ready with the reason and consumes nothing.

    It starts by itself when the registry is back.
    """
    monkeypatch.setattr("modules.llm_platform.presentation.kafka.contract.wire_format.RETRY_WAITS_S", (0.05,))
    registry.broken = True
    schemas = schemas_of(registry)
    handler = handler_of(schemas, MemoryOutcomeStore())
    worker = Worker(handler, replace(worker_options(broker), schemas=schemas))
    running = asyncio.create_task(worker.run())
    assert await becomes_true(lambda: len(registry.calls) > 2, PATIENCE_S)
    [reason] = [reason for reason in worker.not_ready() if "schema" in reason]
    assert "the schema registry answered with an error (500)" in reason
    registry.broken = False
    assert await becomes_true(lambda: not worker.not_ready(), PATIENCE_S)
    registry.broken = True
    assert worker.not_ready() == []
    worker.stop()
    await running


async def test_worker_stops_while_it_waits_for_the_registry(registry: FakeRegistry, broker: MockCluster) -> None:
    """A worker that waits for the registry stops at once without an error."""
    registry.broken = True
    schemas = schemas_of(registry)
    worker = Worker(handler_of(schemas, MemoryOutcomeStore()), replace(worker_options(broker), schemas=schemas))
    running = asyncio.create_task(worker.run())
    assert await becomes_true(lambda: bool(registry.calls), PATIENCE_S)
    worker.stop()
    async with asyncio.timeout(PATIENCE_S):
        await running


async def test_worker_writes_headers_to_the_topic(registry: FakeRegistry, broker: MockCluster) -> None:
    """Outcomes in the topic have the header."""
    from tests.integration.test_kafka_worker import read, send

    schemas = schemas_of(registry)
    async with working(handler_of(schemas, MemoryOutcomeStore()), replace(worker_options(broker), schemas=schemas)):
        await asyncio.to_thread(send, broker, [b"\0\0\0\0\1" + request()])
        [value] = await asyncio.to_thread(read, broker, RESULTS, 1)
    assert value[:5] == b"\0" + registry.subjects["rag_search_result-value"][0][0].to_bytes(4)


async def test_settings_of_the_registry(registry: FakeRegistry) -> None:
    """Login and other settings require the address of the registry."""
    resources = Resources(Settings())
    assert build_message_schemas(Settings(), resources) is None
    login = {"schema.registry.basic.auth.user.info": ":".join(LOGIN)}
    with pytest.raises(SettingsError, match=r"user\.info\) needs schema\.registry\.url"):
        Settings.load(KAFKA_CONFIG=login)
    settings = Settings(KAFKA_CONFIG={"schema.registry.url": registry.url, **login})
    assert LOGIN[1] in settings.secrets()
    assert LOGIN[1] not in repr(settings) + repr(settings.KAFKA_CONFIG)
    schemas = build_message_schemas(settings, resources)
    assert schemas is not None
    await schemas.load(STAGES)
    await resources.aclose()
