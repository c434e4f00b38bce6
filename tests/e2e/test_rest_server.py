"""The server on a real socket: disconnects, slow and large requests, shutdown."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.forked_command import UVICORN, run_forked
from tests.unit.presentation.rest.fake_platform import FakeServices, platform_of

from modules.llm_platform.application.services.health_service import DEADLINE_S, HealthService
from modules.llm_platform.presentation.rest.http import body as body_module
from modules.llm_platform.presentation.rest.http import connection as connection_module
from modules.llm_platform.presentation.rest.http.body import MAX_BODY_BYTES
from modules.llm_platform.presentation.rest.server import (
    DrainingServer,
    check_address,
    make_server,
    require_api_keys,
    serve,
)
from shared.config import Settings, SettingsError

CANCEL_TIMEOUT_S = 45.0  # shorter than the minute that the request takes
TIMEOUT_S = 60.0
START_S = 180.0  # for starting a process on a busy machine
HEAD = "{method} {path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n"
QUESTION = b'{"query": "What is Python asyncio?"}'


@asynccontextmanager
async def running(
    services: FakeServices, health: HealthService | None = None, drain_s: float = 0.0
) -> AsyncIterator[tuple[DrainingServer, int]]:
    """Yield a server on a free port, and the port."""
    settings = Settings(_env_file=None, LLM_PLATFORM_PORT=0, DRAIN_TIMEOUT_S=drain_s)
    server = make_server(platform_of(services, health), settings)
    task = asyncio.create_task(server.serve())
    await wait_until(lambda: server.started)
    try:
        yield server, server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        await asyncio.wait_for(task, TIMEOUT_S)


async def wait_until(condition: Callable[[], Any], within_s: float = TIMEOUT_S) -> None:
    async with asyncio.timeout(within_s):
        while not condition():
            await asyncio.sleep(0.002)


class Connection:
    """A raw client connection without an HTTP library."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def send(self, method: str, path: str, body: bytes = b"", **headers: str) -> None:
        lines = {"Content-Length": str(len(body)), "Content-Type": "application/json"}
        lines.update({name.replace("_", "-"): value for name, value in headers.items()})
        text = "".join(f"{name}: {value}\r\n" for name, value in lines.items() if value)
        self.writer.write(HEAD.format(method=method, path=path, headers=text).encode() + body)

    async def head(self) -> tuple[int, str]:
        async with asyncio.timeout(TIMEOUT_S):
            raw = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        return int(raw[9:12]), raw.lower()

    async def response(self) -> tuple[int, dict[str, Any]]:
        status, head = await self.head()
        length = int(head.split("content-length: ")[1].split("\r\n")[0])
        async with asyncio.timeout(TIMEOUT_S):
            return status, json.loads(await self.reader.readexactly(length))

    async def ended(self) -> bool:
        async with asyncio.timeout(TIMEOUT_S):
            return await self.reader.read() == b""

    def disconnect(self) -> None:
        self.writer.transport.abort()


@asynccontextmanager
async def connect(port: int) -> AsyncIterator[Connection]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield Connection(reader, writer)
    finally:
        writer.close()


@pytest.mark.parametrize("path", ["/research", "/research/plan", "/llm-platform/web-search", "/llm-platform/chat"])
@pytest.mark.parametrize("stream", [False, True])
async def test_disconnect_cancels_the_request(path: str, stream: bool, caplog: pytest.LogCaptureFixture) -> None:
    """A disconnect cancels the request, streamed or not, and no error is logged."""
    services = FakeServices()
    services.delay_s = 60
    asked: dict[str, Any] = {"query": "solar sails", "messages": [{"role": "user", "content": "hi"}], "stream": stream}
    async with running(services) as (server, port), connect(port) as connection:
        connection.send("POST", path, json.dumps(asked).encode())
        await wait_until(lambda: services.requests)
        connection.disconnect()
        await wait_until(lambda: services.cancelled, CANCEL_TIMEOUT_S)
        await wait_until(lambda: not server.server_state.tasks)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_events_are_sent_immediately() -> None:
    """The first event is sent while the research run is still running."""
    services = FakeServices()
    services.delay_s = 60
    async with running(services) as (_, port), connect(port) as connection:
        connection.send("POST", "/research", QUESTION, Accept="text/event-stream")
        status, head = await connection.head()
        assert (status, "transfer-encoding: chunked" in head) == (200, True)
        async with asyncio.timeout(TIMEOUT_S):
            assert b"event: started" in await connection.reader.readuntil(b"}")
        connection.disconnect()


async def test_connection_is_reused() -> None:
    """A connection can be reused after a response or an error. Responses have no Server header."""
    async with running(FakeServices()) as (_, port), connect(port) as connection:
        for body, status in ((b"{}", 422), (QUESTION, 200), (b"[" * 1000, 422), (QUESTION, 200)):
            connection.send("POST", "/research", body)
            assert (await connection.response())[0] == status
        connection.send("GET", "/ready")
        assert "server:" not in (await connection.head())[1]


async def test_large_body_gets_413() -> None:
    """A client that sends its whole body before it reads gets 413, and the connection is closed."""
    async with running(FakeServices()) as (_, port), connect(port) as connection:
        connection.send("POST", "/research/plan", b"x" * (3 * MAX_BODY_BYTES))
        await connection.writer.drain()
        status, problem = await connection.response()
        assert (status, problem["code"]) == (413, "body_too_large")
        assert await connection.ended()


async def test_large_chunked_body_gets_413() -> None:
    """The limit also applies to a body without Content-Length."""
    async with running(FakeServices()) as (_, port), connect(port) as connection:
        connection.send("POST", "/research", Content_Length="", Transfer_Encoding="chunked")
        chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
        for _ in range(20):
            connection.writer.write(chunk)
        connection.writer.write(b"0\r\n\r\n")
        assert (await connection.response())[0] == 413


async def test_large_body_with_expect_gets_413_at_once() -> None:
    """With `Expect: 100-continue`, a large body is refused before it is sent."""
    async with running(FakeServices()) as (_, port), connect(port) as connection:
        connection.send("POST", "/research/plan", Content_Length=str(10 * MAX_BODY_BYTES), Expect="100-continue")
        assert (await connection.response())[0] == 413


async def test_refused_body_is_read_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest of a refused body is read up to a limit in bytes and time."""
    monkeypatch.setattr(body_module, "DISCARD_TIMEOUT_S", 0.05)
    async with running(FakeServices()) as (_, port), connect(port) as connection:
        connection.send("POST", "/research/plan", b"x" * 1000, Content_Length=str(2 * MAX_BODY_BYTES))
        assert (await connection.response())[0] == 413
        assert await connection.ended()


@pytest.mark.parametrize("path", ["/research", "/mcp", "/tavily/search"])
async def test_slow_body_gets_408(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A body that is not complete in time returns 408. After a disconnect no service is called."""
    monkeypatch.setattr(body_module, "BODY_TIMEOUT_S", 0.05)
    services = FakeServices()
    async with running(services) as (_, port):
        async with connect(port) as connection:
            connection.send("POST", path, QUESTION, Content_Length="1000")
            assert (await connection.response())[0] == 408
        async with connect(port) as connection:
            connection.send("POST", path, QUESTION, Content_Length="1000")
            connection.disconnect()
        await asyncio.sleep(0.02)
    assert services.requests == []


async def test_slow_head_gets_408(monkeypatch: pytest.MonkeyPatch) -> None:
    """An incomplete head returns 408 and closes the connection, also on a reused connection."""
    async with running(FakeServices()) as (_, port), connect(port) as connection:
        connection.send("GET", "/ready")
        assert (await connection.response())[0] == 200
        monkeypatch.setattr(connection_module, "HEAD_TIMEOUT_S", 0.1)
        connection.writer.write(b"GET /ready HTTP/1.1\r\nHost: localhost\r\n")
        status, problem = await connection.response()
        assert (status, problem["code"]) == (408, "head_timeout")
        assert await connection.ended()


async def test_idle_connection_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An unused connection is closed without a response."""
    monkeypatch.setattr(connection_module, "HEAD_TIMEOUT_S", 0.1)
    async with running(FakeServices()) as (_, port), connect(port) as connection:
        assert await connection.ended()


async def test_pipelined_request_does_not_interrupt_the_response(monkeypatch: pytest.MonkeyPatch) -> None:
    """An incomplete pipelined head does not interrupt the current response."""
    monkeypatch.setattr(connection_module, "HEAD_TIMEOUT_S", 0.1)
    services = FakeServices()
    services.delay_s = 0.5
    async with running(services) as (_, port), connect(port) as connection:
        connection.send("POST", "/research", QUESTION)
        connection.writer.write(b"GET /ready HTTP/1.1\r\n")
        assert (await connection.response())[0] == 200
        connection.disconnect()


async def test_malformed_pipelined_request_closes_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """A malformed pipelined request closes the connection after the current response, without a second response."""
    services = FakeServices()
    services.delay_s = 60
    async with running(services) as (_, port), connect(port) as connection:
        connection.send("POST", "/research", QUESTION, Accept="text/event-stream")
        assert (await connection.head())[0] == 200
        connection.writer.write(b"nonsense\r\n\r\n")
        async with asyncio.timeout(TIMEOUT_S):
            assert b"HTTP/1.1" not in await connection.reader.read()


class Hanging:
    name = "hanging"

    def __init__(self) -> None:
        self.pings = 0

    async def ping(self) -> str:
        self.pings += 1
        await asyncio.sleep(60)
        return "never"


async def test_health_responds_while_upstreams_hang() -> None:
    """/health returns 200 within the deadline, and the next request gets the cached result."""
    assert DEADLINE_S < 1
    searxng, kimi = Hanging(), Hanging()
    health = HealthService({"searxng": searxng}, {"kimi": kimi})
    async with running(FakeServices(), health) as (_, port), connect(port) as connection:
        connection.send("GET", "/health")
        status, report = await connection.response()
        assert status == 200
        assert (report["status"], report["searxng_connected"], report["kimi_coding_available"]) == (
            "unhealthy",
            False,
            False,
        )
        assert set(report["components"]) == {"searxng", "kimi"}
        assert set(report["components"]["kimi"]) == {"kind", "status", "detail", "checked_at"}
        connection.send("GET", "/health")
        assert (await connection.response())[0] == 200
    assert (searxng.pings, kimi.pings) == (1, 1)


async def test_running_requests_finish_before_shutdown() -> None:
    """During the drain, /ready and new requests return 503, and running requests finish."""
    services = FakeServices()
    services.gate.clear()
    async with running(services, drain_s=TIMEOUT_S) as (server, port), connect(port) as busy, connect(port) as probe:
        busy.send("POST", "/research", QUESTION)
        await wait_until(lambda: services.requests)
        server.should_exit = True
        await wait_until(lambda: not server._state.is_ready)
        probe.send("GET", "/ready")
        status, problem = await probe.response()
        assert (status, problem["code"]) == (503, "not_serving")
        async with connect(port) as late:
            late.send("POST", "/research", QUESTION)
            assert (await late.response())[0] == 503
        services.gate.set()
        assert (await busy.response())[0] == 200
    assert (len(services.requests), services.cancelled, services.closed) == (1, 0, 1)


async def test_requests_are_cancelled_after_the_drain_timeout() -> None:
    """After the drain timeout, requests are cancelled and the platform is closed."""
    services = FakeServices()
    services.delay_s = 60
    async with running(services, drain_s=0.05) as (server, port), connect(port) as connection:
        connection.send("POST", "/research", QUESTION)
        await wait_until(lambda: services.requests)
        server.should_exit = True
        await wait_until(lambda: services.closed)
    assert services.cancelled == 1
    assert services.cancelled == 1


def test_public_address_requires_api_keys() -> None:
    """A non-loopback address requires API keys. The message names both variables."""
    with pytest.raises(SettingsError, match=r"LLM_PLATFORM_HOST.*LLM_PLATFORM_API_KEYS"):
        serve(platform_of(FakeServices()), Settings(_env_file=None, LLM_PLATFORM_HOST="0.0.0.0"))
    require_api_keys(Settings(_env_file=None, LLM_PLATFORM_HOST="0.0.0.0", LLM_PLATFORM_API_KEYS="a-long-random-word"))


def test_unavailable_address_is_a_settings_error() -> None:
    """A port in use or an unknown host is reported with its variable before the server starts."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SettingsError, match=rf"LLM_PLATFORM_PORT {port} .*--port.*Example: LLM_PLATFORM_PORT=\d+"):
            serve(platform_of(FakeServices()), Settings(_env_file=None, LLM_PLATFORM_PORT=port))
    for host in ("nowhere.invalid", "192.0.2.1"):
        with pytest.raises(SettingsError, match=rf"LLM_PLATFORM_HOST {host} is not an address of this machine"):
            check_address(host, 8000)
    check_address("127.0.0.1", 0)


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=START_S,
        check=False,
    )


def test_importing_the_asgi_module_has_no_effect() -> None:
    """Importing the module imports no framework and reads no settings. The first access to `app` does."""
    code = "import sys, modules.llm_platform.asgi as a; assert 'fastapi' not in sys.modules; a.nothing"
    done = run("-c", code, LLM_PLATFORM_PORT="not a port")
    assert "AttributeError" in done.stderr
    assert "LLM_PLATFORM_PORT" not in done.stderr


def test_invalid_setting_exits_without_traceback() -> None:
    """A server with an invalid setting exits with the name of the setting and an example, without a traceback."""
    arguments = ("modules.llm_platform.asgi:app", "--port", "0")
    done = run_forked(UVICORN, *arguments, env={**os.environ, "LLM_PLATFORM_PORT": "not a port"}, timeout=START_S)
    assert done.returncode != 0
    assert "LLM_PLATFORM_PORT" in done.stderr
    assert "Traceback" not in done.stderr


@asynccontextmanager
async def started(*arguments: str, **environment: str) -> AsyncIterator[int]:
    """Start a server process on a free port, and yield the port."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "uvicorn",
        *arguments,
        "--port",
        "0",
        env={**os.environ, **environment},
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    try:
        async with asyncio.timeout(START_S):
            while not (found := re.search(rb"http://127\.0\.0\.1:(\d+)", line := await process.stderr.readline())):
                assert line, "the server did not start"
        yield int(found[1])
    finally:
        process.terminate()
        await process.communicate()


async def test_uvicorn_command_of_the_readme_works(tmp_path: Path) -> None:
    """`uvicorn modules.llm_platform.asgi:app` answers from a folder of documents, without a key or a network."""
    (tmp_path / "asyncio.md").write_text(
        "# asyncio\n\nPython asyncio is a library to write concurrent code using the async and await syntax.\n"
    )
    environment = {"DOCUMENTS_DIR": str(tmp_path), "LLM_PLATFORM_OFFLINE": "true"}
    async with started("modules.llm_platform.asgi:app", **environment) as port, connect(port) as connection:
        connection.send("GET", "/health")
        status, report = await connection.response()
        assert (status, report["status"], list(report["components"])) == (200, "healthy", ["documents"])
        connection.send(
            "POST", "/research", QUESTION, Content_Type="application/x-www-form-urlencoded", X_Request_ID="abc"
        )
        status, answer = await connection.response()
        assert status == 200
        assert "concurrent code" in answer["synthesis"]
        assert answer["sources"][0]["url"] == "doc:asyncio.md"
        connection.send("GET", "/research/abc/sources/1")
        status, held = await connection.response()
        quote = answer["citations"][0]
        assert held["text"][quote["quote_start"] : quote["quote_end"]] == quote["quote"]
        connection.send("POST", "/research", QUESTION, Accept="text/event-stream")
        async with asyncio.timeout(TIMEOUT_S):
            await connection.reader.readuntil(b"event: done\ndata: {")
            assert b'"type":"done"' in await connection.reader.read(200)
