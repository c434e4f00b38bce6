"""Traces of a server and of a worker: content, propagation, and no effect on requests."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.fakes.outcome_store import MemoryOutcomeStore
from tests.fakes.tracing import PARENT, TRACE_ID
from tests.kafka.mock_cluster import MockCluster
from tests.kafka.reference_client import ANSWER, ANSWERED, SEARCH, SEARCHED, TOPICS, ReferenceClient
from tests.support.chat_server import ChatServer, answer, chunk, completion, stream, usage_chunk
from tests.support.forked_command import COMMAND_LINE, PIPE, ForkedPython
from tests.support.loopback_upstream import Exchange, Loopback, head, json_reply, serving, silence
from tests.support.server_process import FORKED, STREAM, TIMEOUT_S, Served, events_of, served, until

from modules.llm_platform.container import build_platform
from modules.llm_platform.domain.dtos.retrieval_dtos import Hit, RagAnswer, RagHits, RagQuestion, RagSearch
from modules.llm_platform.domain.ports.tracing import ITracer, running
from modules.llm_platform.domain.telemetry.spans import (
    COMPLETION_TOKENS,
    MESSAGE_SPAN,
    OF_EVERY_SPAN,
    PROMPT_TOKENS,
    REQUEST_SPAN,
    RESEARCH_SPAN,
    RESULT,
    STAGE_SPAN,
    UPSTREAM_SPAN,
)
from modules.llm_platform.infrastructure.telemetry.from_settings import (
    NOT_INSTALLED,
    OFFLINE,
    UNKNOWN_EXPORTER,
    UNKNOWN_PROTOCOL,
    build_tracer,
)
from modules.llm_platform.infrastructure.telemetry.otel_tracer import FLUSH_S, OtelTracer
from modules.llm_platform.presentation.kafka.worker.handler import RagHandler
from modules.llm_platform.presentation.kafka.worker.worker import Worker, WorkerOptions
from modules.llm_platform.presentation.rest.app import create_app
from modules.llm_platform.testing.waiting import becomes_true
from shared.config import Settings

QUESTION = "What does a zebrafish loop run?"
SECRET_WORD = "zebrafish"
KEY = "sk-a-long-random-key"
ROW = {"title": "Loop", "url": "https://docs.test/loop?q=1", "content": "The loop runs tasks.", "engine": "google"}
USAGE = {"prompt_tokens": 10, "completion_tokens": 5}
ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
HANGING_EXIT_S = 30.0  # far below the export timeout of 10 s and the SDK shutdown timeout of 30 s on a loaded machine


class Traced:
    """An application with real upstreams on loopback, and its finished spans."""

    def __init__(self, client: httpx2.AsyncClient, exporter: InMemorySpanExporter) -> None:
        self.client = client
        self._exporter = exporter

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        return self._exporter.get_finished_spans()

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == name]

    def path(self, span: ReadableSpan) -> list[str]:
        """Return the span names from the root."""
        by_id = {span.context.span_id: span for span in self.spans}
        parent = by_id.get(span.parent.span_id) if span.parent else None
        return [*(self.path(parent) if parent else ()), span.name]


@asynccontextmanager
async def traced_server(search: Loopback, chat: ChatServer, folder: Path, **values: Any) -> AsyncIterator[Traced]:
    exporter = InMemorySpanExporter()
    tracer = OtelTracer("test", "1", SimpleSpanProcessor(exporter))
    settings = Settings(
        _env_file=None,
        SEARXNG_URL=search.url,
        LLM_API_KEY=KEY,
        LLM_BASE_URL=chat.url,
        LLM_MODEL="m",
        LLM_PLATFORM_DATA_DIR=folder,
        CACHE_TTL_S=0,
        RATE_LIMIT_PER_MINUTE=0,
        RATE_LIMIT_GLOBAL_PER_HOUR=0,
        **values,
    )
    app = create_app(build_platform(settings, {ITracer: tracer}), settings)
    transport = httpx2.ASGITransport(app=app)
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=transport, base_url="http://localhost", timeout=TIMEOUT_S) as client,
    ):
        yield Traced(client, exporter)
    await tracer.aclose()


def attributes(span: ReadableSpan) -> Mapping[str, Any]:
    return dict(span.attributes or {})


def span_id_of(headers: Mapping[str, str]) -> str:
    version, trace_id, span_id, flags = headers["traceparent"].split("-")
    assert (version, trace_id, flags) == ("00", TRACE_ID, "01")
    return span_id


@pytest.fixture
async def search() -> AsyncIterator[Loopback]:
    async with serving(json_reply({"results": [ROW], "unresponsive_engines": []})) as upstream:
        yield upstream


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_research_is_one_trace(search: Loopback, tmp_path: Path, streamed: bool) -> None:
    """A run continues the client's trace with spans for the request, the run, its stages and the upstream calls.

    Upstreams receive their span.
    """
    plan = answer(completion(json.dumps(["What is it?", "Which tasks?", "What are callbacks?"]), "stop", USAGE))
    text = "The loop runs tasks [1]."
    events = stream(chunk(text), chunk(finish="stop"), usage_chunk(10, 5))
    written = events if streamed else answer(completion(text, "stop", USAGE))
    body = {"query": QUESTION, "depth": "deep", "stream": streamed}
    queries = answer(completion("Query: tasks of the loop", "stop", USAGE))
    async with ChatServer(plan, queries, written).running() as chat, traced_server(search, chat, tmp_path) as server:
        response = await server.client.post("/research", json=body, headers={"traceparent": PARENT})
        assert response.status_code == 200
        [root] = server.named("POST /research")
        assert {f"{span.context.trace_id:032x}" for span in server.spans} == {TRACE_ID}
        assert f"{root.parent.span_id:016x}" == PARENT.split("-")[2] if root.parent else None
        assert attributes(root)["http.response.status_code"] == 200

        under = ["POST /research", "research deep"]
        llm_name = next(span.name for span in server.spans if span.name.startswith("llm "))
        llms, searches = server.named(llm_name), server.named("search searxng")
        stages = ("plan", "queries", "write")  # a further round asks for queries
        assert sorted(server.path(span) for span in llms) == [[*under, stage, llm_name] for stage in stages]
        assert [server.path(span) for span in searches] == [[*under, "search", "search searxng"]] * len(searches)
        assert len(searches) == len(search.requests) > 3  # searches of the plan and of the round
        assert [attributes(span)[PROMPT_TOKENS] for span in llms] == [10, 10, 10]
        assert [attributes(span)[COMPLETION_TOKENS] for span in llms] == [5, 5, 5]
        assert server.named("verify")

        sent = [exchange.headers for exchange in search.requests]
        assert sorted(map(span_id_of, sent)) == sorted(f"{span.context.span_id:016x}" for span in searches)
        assert [span_id_of(asked.headers) for asked in chat.asked] == [f"{span.context.span_id:016x}" for span in llms]


async def test_spans_are_those_of_the_table_and_tell_nothing(search: Loopback, tmp_path: Path) -> None:
    """Spans of a report have only declared names and attributes, without text of the question, keys or addresses."""
    types = {span_type.name.partition(" ")[0]: span_type for span_type in (REQUEST_SPAN, RESEARCH_SPAN, UPSTREAM_SPAN)}
    async with ChatServer(answer()).running() as chat, traced_server(search, chat, tmp_path) as server:
        await server.client.post("/research", json={"query": QUESTION, "depth": "report"})
        await server.client.get("/search", params={"q": QUESTION})
        await server.client.get(f"/{SECRET_WORD}")
        stages = {span.name for span in server.spans if "llm_platform.stage" in attributes(span)}
        assert {"plan", "queries", "search", "rank", "write", "verify"} <= stages
        for span in server.spans:
            declared = STAGE_SPAN if span.name in stages else types.get(span.name.partition(" ")[0], UPSTREAM_SPAN)
            declared = REQUEST_SPAN if "http.route" in attributes(span) else declared
            assert set(attributes(span)) <= {*declared.attributes, *OF_EVERY_SPAN}, span.name
        for private in (SECRET_WORD, KEY, "docs.test", search.url, chat.url):
            assert private not in "".join(span.to_json() for span in server.spans)
        assert server.named("GET unmatched")


async def test_a_background_research_is_in_the_trace_of_its_request(search: Loopback, tmp_path: Path) -> None:
    """The server that executes a background run adds its spans to the client's trace, however late."""
    async with ChatServer(answer()).running() as chat, traced_server(search, chat, tmp_path) as server:
        body = {"query": QUESTION, "background": True}
        submitted = await server.client.post("/research", json=body, headers={"traceparent": PARENT})
        await server.client.get(f"/research/{submitted.json()['id']}/events")
        await until(lambda: server.named("process research"))
        [research] = server.named("research shallow")
        assert server.path(research) == ["POST /research", "process research", "research shallow"]
        assert f"{research.context.trace_id:032x}" == TRACE_ID


async def test_probes_have_no_spans_and_lines_have_the_trace_id(
    search: Loopback, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """/ready is polled and therefore not traced. The log line of a request has its trace id."""
    caplog.set_level(logging.INFO)
    async with ChatServer(answer()).running() as chat, traced_server(search, chat, tmp_path) as server:
        await server.client.get("/ready")
        assert not server.spans
        await server.client.get("/search", params={"q": "x"}, headers={"traceparent": PARENT})
        await server.client.get("/search", params={"q": "x"}, headers={"traceparent": "00-nonsense"})
    lines = [record for record in caplog.records if record.message == "request"]
    assert lines[0].trace_id == TRACE_ID
    assert len(lines[1].trace_id) == 32
    assert lines[1].trace_id != TRACE_ID


async def test_a_failed_upstream_is_a_failed_span(tmp_path: Path) -> None:
    """The spans of the call and of the request have their error codes, but not the upstream's message."""
    search_down = json_reply({"error": SECRET_WORD}, status=500)
    async with (
        serving(search_down) as broken,
        ChatServer(answer()).running() as chat,
        traced_server(broken, chat, tmp_path) as server,
    ):
        response = await server.client.post("/research", json={"query": QUESTION})
        assert response.status_code >= 500
        assert {attributes(span)[RESULT] for span in server.named("search searxng")} == {"web_search_error"}
        [root] = server.named("POST /research")
        assert attributes(root)[RESULT] == response.json()["code"]
        assert not root.status.is_ok
        assert SECRET_WORD not in "".join(span.to_json() for span in server.spans)


async def test_a_read_page_gets_no_traceparent(tmp_path: Path) -> None:
    """A read page receives no traceparent, which would let its owner link visits."""

    async def page(exchange: Exchange) -> None:
        body = b"<html><head><title>A page</title></head><body><p>Some text.</p></body></html>"
        await exchange.send(head(200, "Content-Type: text/html", length=len(body)) + body)

    tracer = OtelTracer("test", "1")
    async with serving(page) as site:
        settings = Settings(_env_file=None, READER_ALLOWED_HOSTS=site.url.removeprefix("http://"))
        async with build_platform(settings, {ITracer: tracer}) as platform:
            with running(tracer.start(REQUEST_SPAN, "test", {})):
                assert (await platform.pages.read(f"{site.url}/a")).reader == "direct"
    assert not [name for request in site.requests for name in request.headers if name.startswith("trace")]
    await tracer.aclose()


# --- export ---------------------------------------------------------------------------------------------------------------


def exported(collector: Loopback) -> dict[str, str]:
    """Return the span names that the collector received, with their services."""
    found: dict[str, str] = {}
    for exchange in collector.requests:
        assert exchange.path == "/v1/traces"
        for resource in ExportTraceServiceRequest.FromString(exchange.body).resource_spans:
            service = {attribute.key: attribute.value.string_value for attribute in resource.resource.attributes}[
                "service.name"
            ]
            found |= {span.name: service for scope in resource.scope_spans for span in scope.spans}
    return found


async def accepted(exchange: Exchange) -> None:
    await exchange.send(head(200, "Content-Type: application/x-protobuf", length=0))


async def search_once(server: Served) -> None:
    server.search.gate.set()
    response = await server.client.post("/research", json={"query": QUESTION}, headers=STREAM)
    assert events_of(response)[-1]["type"] == "done"


@pytest.mark.parametrize("kind", ["serve", "uvicorn"])
async def test_spans_are_exported_when_the_server_stops(tmp_path: Path, kind: str) -> None:
    """OTEL_EXPORTER_OTLP_ENDPOINT enables export. Remaining spans are exported on SIGTERM."""
    async with serving(accepted) as collector:
        never = {"OTEL_BSP_SCHEDULE_DELAY": "600000", "OTEL_SERVICE_NAME": "mine" if kind == "serve" else ""}
        async with served(kind, tmp_path, **{ENDPOINT: collector.url}, **never) as server:
            await search_once(server)
            assert not collector.requests
            server.process.terminate()
            assert await server.ended() == 0
    service = "mine" if kind == "serve" else "llm-platform"
    assert exported(collector)["POST /research"] == service
    assert "search searxng" in exported(collector)


async def test_a_hanging_collector_does_not_affect_the_server(tmp_path: Path) -> None:
    """While an export hangs, requests are answered, and the server stops without waiting."""
    async with serving(silence) as collector:
        often = {"OTEL_BSP_SCHEDULE_DELAY": "10"}
        async with served(FORKED, tmp_path, **{ENDPOINT: collector.url}, **often) as server:
            await search_once(server)
            await until(lambda: collector.requests)
            for _ in range(20):
                await search_once(server)
            began = asyncio.get_running_loop().time()
            server.process.terminate()
            assert await server.ended() == 0
            assert asyncio.get_running_loop().time() - began < HANGING_EXIT_S
    assert "Traceback" not in (tmp_path / "server.log").read_text()
    assert FLUSH_S < HANGING_EXIT_S


async def test_the_sampler_is_set_by_the_otel_variables(tmp_path: Path) -> None:
    """With OTEL_TRACES_SAMPLER=always_off, upstreams get an unsampled flag, and nothing is exported."""
    async with serving(accepted) as collector:
        off = {ENDPOINT: collector.url, "OTEL_TRACES_SAMPLER": "always_off"}
        async with served(FORKED, tmp_path, **off) as server:
            await search_once(server)
            [exchange] = server.upstream.requests
            assert int(exchange.headers["traceparent"].rpartition("-")[2], 16) & 1 == 0
            server.process.terminate()
            assert await server.ended() == 0
    assert not collector.requests


@pytest.mark.parametrize(
    ("variables", "warning"),
    [
        ({}, None),
        ({"OTEL_SERVICE_NAME": "x"}, None),
        ({ENDPOINT: "http://127.0.0.1:9", "OTEL_SDK_DISABLED": "true"}, None),
        ({ENDPOINT: "http://127.0.0.1:9", "OTEL_TRACES_EXPORTER": "none"}, None),
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, UNKNOWN_EXPORTER),
        ({ENDPOINT: "http://127.0.0.1:9", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, UNKNOWN_PROTOCOL),
        ({ENDPOINT: "http://collector.example:4318", "LLM_PLATFORM_OFFLINE": "true"}, OFFLINE),
    ],
)
async def test_tracing_is_off(
    variables: dict[str, str], warning: str | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Without an exporter nothing is traced. A failed export is one warning and no error."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert not build_tracer(Settings(_env_file=None), "test").is_enabled
    assert [record.message for record in caplog.records] == ([warning] if warning else [])


async def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Without the package the server runs untraced, and the warning has the install command."""
    monkeypatch.setenv(ENDPOINT, "http://127.0.0.1:9")
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    assert not build_tracer(Settings(_env_file=None), "test").is_enabled
    assert [record.message for record in caplog.records] == [NOT_INSTALLED]
    assert 'pip install "llm-platform[otel]"' in NOT_INSTALLED


# --- commands -------------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def command(*arguments: str, **variables: str) -> AsyncIterator[ForkedPython]:
    env = {**os.environ, **variables}
    with ForkedPython(COMMAND_LINE, *arguments, stdout=PIPE, stderr=PIPE, env=env) as process:
        try:
            yield process
        finally:
            process.kill()


def results(collector: Loopback) -> dict[str, str]:
    """Return the results of the exported spans by name, and check that they belong to one trace."""
    spans = [
        span
        for exchange in collector.requests
        for resource in ExportTraceServiceRequest.FromString(exchange.body).resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
    assert len({span.trace_id for span in spans}) == 1
    return {
        span.name: {attribute.key: attribute.value.string_value for attribute in span.attributes}[RESULT]
        for span in spans
    }


@pytest.mark.parametrize("fails", [False, True])
async def test_a_command_is_one_trace(fails: bool) -> None:
    """A command is exported before it ends, also if it fails. Its output is the same as without traces."""
    upstream = (
        json_reply({"error": "x"}, status=500) if fails else json_reply({"results": [ROW], "unresponsive_engines": []})
    )
    async with serving(accepted) as collector, serving(upstream) as search:
        variables = {ENDPOINT: collector.url, "SEARXNG_URL": search.url}
        async with command("research", QUESTION, "--json", **variables) as process:
            out, err = await asyncio.to_thread(process.communicate, timeout=TIMEOUT_S)
        assert process.returncode == int(fails), err
        assert fails or json.loads(out)["sources"]
    code = "web_search_error" if fails else "ok"
    assert {results(collector)[name] for name in ("command research", "research shallow", "search searxng")} == {code}
    assert set(exported(collector).values()) == {"llm-platform-command"}
    assert SECRET_WORD not in "".join(str(exchange.body) for exchange in collector.requests)


async def test_an_interrupted_command_is_exported() -> None:
    """Ctrl-C ends the command with 130, and its spans are marked as cancelled."""
    async with serving(accepted) as collector, serving(silence) as search:
        variables = {ENDPOINT: collector.url, "SEARXNG_URL": search.url}
        async with command("search", QUESTION, **variables) as process:
            await until(lambda: search.requests)
            process.send_signal(signal.SIGINT)
            assert await asyncio.to_thread(process.wait, TIMEOUT_S) == 130
    found = results(collector)
    assert (found["command search"], found["search searxng"]) == ("cancelled", "cancelled")


async def test_spans_of_a_command_are_printed_to_standard_error() -> None:
    """OTEL_TRACES_EXPORTER=console writes to standard error, because standard output contains the answer."""
    async with command("config", "--json", OTEL_TRACES_EXPORTER="console") as process:
        out, err = await asyncio.to_thread(process.communicate, timeout=TIMEOUT_S)
    assert json.loads(out)["settings"]
    assert json.loads(err)["name"] == "command config"


async def test_why_a_command_has_no_traces_is_reported() -> None:
    """An unusable variable is one line on standard error, and the command still works."""
    async with command("config", OTEL_TRACES_EXPORTER="zipkin") as process:
        out, err = await asyncio.to_thread(process.communicate, timeout=TIMEOUT_S)
    assert (process.returncode, err.strip(), bool(out)) == (0, UNKNOWN_EXPORTER, True)


# --- Kafka ----------------------------------------------------------------------------------------------------------------


async def found(request: RagSearch) -> RagHits:
    return RagHits(hits=(Hit(doc_id="doc-10", score=0.9),))


async def answered(request: RagQuestion) -> RagAnswer:
    return RagAnswer(answer="Because.")


async def test_spans_are_linked_across_the_topics() -> None:
    """A worker span is linked to the message that caused it.

    The outcome carries the trace context along with the other headers.
    """
    exporter = InMemorySpanExporter()
    tracer = OtelTracer("test", "1", SimpleSpanProcessor(exporter))
    handler = RagHandler(found, answered, MemoryOutcomeStore(), tracer=tracer)
    with MockCluster(TOPICS) as broker:
        options = WorkerOptions([broker.bootstrap], "team", config={**broker.client, "statistics.interval.ms": 100})
        worker = Worker(handler, options)
        task = asyncio.create_task(worker.run())
        assert await becomes_true(lambda: not worker.not_ready() or task.done(), TIMEOUT_S)
        async with ReferenceClient(broker.bootstrap, "team") as client:
            sent = (("traceparent", PARENT.encode()), ("tenant", b"acme"))
            await client.send(SEARCH, {"request_id": "s", "query": QUESTION}, b"k", sent)
            [hits] = (await client.settled())["s"]
            await client.send(ANSWER, {"request_id": "a", "question": QUESTION}, b"k", hits.headers)
            await client.send(ANSWER, {"request_id": "b", "question": ""}, b"k")
            outcomes = await client.settled()
        worker.stop()
        await task
    await tracer.aclose()
    [answer_] = outcomes["a"]
    assert (hits.topic, answer_.topic) == (SEARCHED, ANSWERED)
    spans = {attributes(span)["llm_platform.request_id"]: span for span in exporter.get_finished_spans()}
    assert all(set(attributes(span)) <= {*MESSAGE_SPAN.attributes, *OF_EVERY_SPAN} for span in spans.values())
    for request_id, outcome, cause in (("s", hits, PARENT), ("a", answer_, dict(hits.headers)["traceparent"].decode())):
        span = spans[request_id]
        [link] = span.links
        assert f"{link.context.trace_id:032x}-{link.context.span_id:016x}" in cause
        headers = dict(outcome.headers)
        assert headers["traceparent"] == f"00-{TRACE_ID}-{span.context.span_id:016x}-01".encode()
        assert headers["tenant"] == b"acme"
    assert spans["b"].parent is None
    assert not spans["b"].links
    assert attributes(spans["b"])[RESULT] == "invalid_payload"
    assert SECRET_WORD not in "".join(span.to_json() for span in spans.values())
