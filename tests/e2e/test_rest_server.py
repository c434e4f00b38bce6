"""The door on a real socket: what clients see of hanging up, slow bodies, large bodies and a stopping server."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.unit.presentation.rest.fake_platform import Scripted, platform_of

from modules.llm_platform.application.services.health_service import DEADLINE_S, HealthService
from modules.llm_platform.presentation.rest import body as body_module
from modules.llm_platform.presentation.rest import server as wire_module
from modules.llm_platform.presentation.rest.body import MAX_BODY_BYTES
from modules.llm_platform.presentation.rest.server import (
    DrainingServer,
    check_address,
    make_server,
    refuse_open_house,
    serve,
)
from shared.config import Settings, SettingsError

PROMPT_S = 10.0  # by then a cancelled research has let go; it would have gone on for a minute
PATIENCE_S = 30.0
HEAD = "{method} {path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n"
QUESTION = b'{"query": "What is Python asyncio?"}'


@asynccontextmanager
async def running(
    scripted: Scripted, health: HealthService | None = None, drain_s: float = 0.0
) -> AsyncIterator[tuple[DrainingServer, int]]:
    """A server on a free port, and its port."""
    settings = Settings(_env_file=None, LLM_PLATFORM_PORT=0, DRAIN_TIMEOUT_S=drain_s)
    server = make_server(platform_of(scripted, health), settings)
    task = asyncio.create_task(server.serve())
    await until(lambda: server.started)
    try:
        yield server, server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        await asyncio.wait_for(task, PATIENCE_S)


async def until(happened: Callable[[], Any], within_s: float = PATIENCE_S) -> None:
    async with asyncio.timeout(within_s):
        while not happened():
            await asyncio.sleep(0.002)


class Wire:
    """One connection, written and read by hand."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def say(self, method: str, path: str, body: bytes = b"", **headers: str) -> None:
        lines = {"Content-Length": str(len(body)), "Content-Type": "application/json"}
        lines.update({name.replace("_", "-"): value for name, value in headers.items()})
        text = "".join(f"{name}: {value}\r\n" for name, value in lines.items() if value)
        self.writer.write(HEAD.format(method=method, path=path, headers=text).encode() + body)

    async def head(self) -> tuple[int, str]:
        async with asyncio.timeout(PATIENCE_S):
            raw = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        return int(raw[9:12]), raw.lower()

    async def answer(self) -> tuple[int, dict[str, Any]]:
        status, head = await self.head()
        length = int(head.split("content-length: ")[1].split("\r\n")[0])
        async with asyncio.timeout(PATIENCE_S):
            return status, json.loads(await self.reader.readexactly(length))

    async def ended(self) -> bool:
        async with asyncio.timeout(PATIENCE_S):
            return await self.reader.read() == b""

    def hang_up(self) -> None:
        self.writer.transport.abort()


@asynccontextmanager
async def dialled(port: int) -> AsyncIterator[Wire]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield Wire(reader, writer)
    finally:
        writer.close()


@pytest.mark.parametrize("path", ["/research", "/research/plan", "/llm-platform/web-search", "/llm-platform/chat"])
@pytest.mark.parametrize("stream", [False, True])
async def test_hanging_up_cancels(path: str, stream: bool, caplog: pytest.LogCaptureFixture) -> None:
    """Whoever hangs up stops the work at once, whole or streamed, and no error is logged for it."""
    scripted = Scripted()
    scripted.delay_s = 60
    asked: dict[str, Any] = {"query": "solar sails", "messages": [{"role": "user", "content": "hi"}], "stream": stream}
    async with running(scripted) as (server, port), dialled(port) as wire:
        wire.say("POST", path, json.dumps(asked).encode())
        await until(lambda: scripted.asked)
        wire.hang_up()
        await until(lambda: scripted.cancelled, PROMPT_S)
        await until(lambda: not server.server_state.tasks)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_events_come_as_they_happen() -> None:
    """The first event is on the wire while the research still runs."""
    scripted = Scripted()
    scripted.delay_s = 60
    async with running(scripted) as (_, port), dialled(port) as wire:
        wire.say("POST", "/research", QUESTION, Accept="text/event-stream")
        status, head = await wire.head()
        assert (status, "transfer-encoding: chunked" in head) == (200, True)
        async with asyncio.timeout(PATIENCE_S):
            assert b"event: started" in await wire.reader.readuntil(b"}")
        wire.hang_up()


async def test_a_connection_is_used_again() -> None:
    """After an answer or a refusal the same connection serves the next request, and says nothing of the server's make."""
    async with running(Scripted()) as (_, port), dialled(port) as wire:
        for body, status in ((b"{}", 422), (QUESTION, 200), (b"[" * 1000, 422), (QUESTION, 200)):
            wire.say("POST", "/research", body)
            assert (await wire.answer())[0] == status
        wire.say("GET", "/ready")
        assert "server:" not in (await wire.head())[1]


async def test_a_large_body_that_is_sent_whole() -> None:
    """A client that first sends everything and then reads gets its 413, and the connection ends."""
    async with running(Scripted()) as (_, port), dialled(port) as wire:
        wire.say("POST", "/research", b"x" * (3 * MAX_BODY_BYTES))
        await wire.writer.drain()
        status, problem = await wire.answer()
        assert (status, problem["code"]) == (413, "body_too_large")
        assert await wire.ended()


async def test_a_large_body_in_chunks() -> None:
    """The limit holds without a declared length."""
    async with running(Scripted()) as (_, port), dialled(port) as wire:
        wire.say("POST", "/research", Content_Length="", Transfer_Encoding="chunked")
        chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
        for _ in range(20):
            wire.writer.write(chunk)
        wire.writer.write(b"0\r\n\r\n")
        assert (await wire.answer())[0] == 413


async def test_a_large_body_that_waits_for_our_word() -> None:
    """Told in advance (Expect: 100-continue), it is refused before it is sent."""
    async with running(Scripted()) as (_, port), dialled(port) as wire:
        wire.say("POST", "/research", Content_Length=str(10 * MAX_BODY_BYTES), Expect="100-continue")
        assert (await wire.answer())[0] == 413


async def test_a_sender_that_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is refused is not read for ever: past a bound of bytes or time the answer comes anyway."""
    monkeypatch.setattr(body_module, "DISCARD_TIMEOUT_S", 0.05)
    async with running(Scripted()) as (_, port), dialled(port) as wire:
        wire.say("POST", "/research", b"x" * 1000, Content_Length=str(2 * MAX_BODY_BYTES))
        assert (await wire.answer())[0] == 413
        assert await wire.ended()


async def test_a_body_that_drips(monkeypatch: pytest.MonkeyPatch) -> None:
    """A body that does not come in time is 408; one that breaks off is nobody's question."""
    monkeypatch.setattr(body_module, "BODY_TIMEOUT_S", 0.05)
    scripted = Scripted()
    async with running(scripted) as (_, port):
        async with dialled(port) as wire:
            wire.say("POST", "/research", QUESTION, Content_Length="1000")
            assert (await wire.answer())[0] == 408
        async with dialled(port) as wire:
            wire.say("POST", "/research", QUESTION, Content_Length="1000")
            wire.hang_up()
        await asyncio.sleep(0.02)
    assert scripted.asked == []


async def test_a_head_that_drips(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who does not finish the head of a request gets a 408 and the connection ends, the first request or a later one."""
    async with running(Scripted()) as (_, port), dialled(port) as wire:
        wire.say("GET", "/ready")
        assert (await wire.answer())[0] == 200
        monkeypatch.setattr(wire_module, "HEAD_TIMEOUT_S", 0.1)
        wire.writer.write(b"GET /ready HTTP/1.1\r\nHost: localhost\r\n")
        status, problem = await wire.answer()
        assert (status, problem["code"]) == (408, "head_timeout")
        assert await wire.ended()


async def test_a_connection_without_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that is opened ahead of need and not used is closed, and nothing is said that was not asked for."""
    monkeypatch.setattr(wire_module, "HEAD_TIMEOUT_S", 0.1)
    async with running(Scripted()) as (_, port), dialled(port) as wire:
        assert await wire.ended()


async def test_what_is_begun_behind_an_answer_can_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """The beginning of a next request does not cut off the answer that is under way."""
    monkeypatch.setattr(wire_module, "HEAD_TIMEOUT_S", 0.1)
    scripted = Scripted()
    scripted.delay_s = 0.5
    async with running(scripted) as (_, port), dialled(port) as wire:
        wire.say("POST", "/research", QUESTION)
        wire.writer.write(b"GET /ready HTTP/1.1\r\n")
        assert (await wire.answer())[0] == 200
        wire.hang_up()


async def test_nonsense_behind_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where an answer is half-way out, what cannot be read ends the connection: a second head would garble the first."""
    scripted = Scripted()
    scripted.delay_s = 60
    async with running(scripted) as (_, port), dialled(port) as wire:
        wire.say("POST", "/research", QUESTION, Accept="text/event-stream")
        assert (await wire.head())[0] == 200
        wire.writer.write(b"nonsense\r\n\r\n")
        async with asyncio.timeout(PATIENCE_S):
            assert b"HTTP/1.1" not in await wire.reader.read()


class Hanging:
    name = "hanging"

    def __init__(self) -> None:
        self.pings = 0

    async def ping(self) -> str:
        self.pings += 1
        await asyncio.sleep(60)
        return "never"


async def test_health_when_everything_hangs() -> None:
    """200 though both upstreams hang, without waiting for them; the next who asks hears what is known."""
    assert DEADLINE_S < 1
    searxng, kimi = Hanging(), Hanging()
    health = HealthService({"searxng": searxng}, {"kimi": kimi})
    async with running(Scripted(), health) as (_, port), dialled(port) as wire:
        wire.say("GET", "/health")
        status, report = await wire.answer()
        assert status == 200
        assert (report["status"], report["searxng_connected"], report["kimi_coding_available"]) == ("unhealthy", False, False)
        assert set(report["components"]) == {"searxng", "kimi"}
        assert set(report["components"]["kimi"]) == {"status", "detail", "checked_at"}
        wire.say("GET", "/health")
        assert (await wire.answer())[0] == 200
    assert (searxng.pings, kimi.pings) == (1, 1)


async def test_a_graceful_stop() -> None:
    """While requests are finished, /ready says no on a new connection and nothing new is begun; then the server ends."""
    scripted = Scripted()
    scripted.gate.clear()
    async with running(scripted, drain_s=PATIENCE_S) as (server, port), dialled(port) as busy, dialled(port) as probe:
        busy.say("POST", "/research", QUESTION)
        await until(lambda: scripted.asked)
        server.should_exit = True
        await until(lambda: not server._door.open)
        probe.say("GET", "/ready")
        status, problem = await probe.answer()
        assert (status, problem["code"]) == (503, "not_serving")
        async with dialled(port) as late:
            late.say("POST", "/research", QUESTION)
            assert (await late.answer())[0] == 503
        scripted.gate.set()
        assert (await busy.answer())[0] == 200
    assert (len(scripted.asked), scripted.cancelled, scripted.closed) == (1, 0, 1)


async def test_a_stop_does_not_wait_for_ever() -> None:
    """Past the drain time what still runs is cancelled, and the platform is closed all the same."""
    scripted = Scripted()
    scripted.delay_s = 60
    began = time.monotonic()
    async with running(scripted, drain_s=0.05) as (server, port), dialled(port) as wire:
        wire.say("POST", "/research", QUESTION)
        await until(lambda: scripted.asked)
        server.should_exit = True
        await until(lambda: scripted.closed)
    assert time.monotonic() - began < PATIENCE_S
    assert scripted.cancelled == 1


def test_an_open_house_is_refused() -> None:
    """Another address than loopback needs keys; the message names both variables."""
    with pytest.raises(SettingsError, match=r"LLM_PLATFORM_HOST.*LLM_PLATFORM_API_KEYS"):
        serve(platform_of(Scripted()), Settings(_env_file=None, LLM_PLATFORM_HOST="0.0.0.0"))
    refuse_open_house(Settings(_env_file=None, LLM_PLATFORM_HOST="0.0.0.0", LLM_PLATFORM_API_KEYS="a-long-random-word"))


def test_an_address_that_cannot_be_had() -> None:
    """A port that is taken, or a name that is none, is told by the variable before anything is started."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SettingsError, match=rf"LLM_PLATFORM_PORT {port} .*--port.*Example: LLM_PLATFORM_PORT=\d+"):
            serve(platform_of(Scripted()), Settings(_env_file=None, LLM_PLATFORM_PORT=port))
    for host in ("nowhere.invalid", "192.0.2.1"):
        with pytest.raises(SettingsError, match=rf"LLM_PLATFORM_HOST {host} is no address of this machine"):
            check_address(host, 8000)
    check_address("127.0.0.1", 0)


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_importing_the_asgi_module_reads_nothing() -> None:
    """The environment is read, and the framework loaded, when the application is asked for."""
    code = "import sys, modules.llm_platform.asgi as a; assert 'fastapi' not in sys.modules; a.nothing"
    done = run("-c", code, LLM_PLATFORM_PORT="not a port")
    assert "AttributeError" in done.stderr
    assert "LLM_PLATFORM_PORT" not in done.stderr


def test_a_setting_that_cannot_be_read() -> None:
    """A server started on a wrong setting ends with its name and an example, and no traceback."""
    done = run("-m", "uvicorn", "modules.llm_platform.asgi:app", "--port", "0", LLM_PLATFORM_PORT="not a port")
    assert done.returncode != 0
    assert "LLM_PLATFORM_PORT" in done.stderr
    assert "Traceback" not in done.stderr


@asynccontextmanager
async def started(*arguments: str, **environment: str) -> AsyncIterator[int]:
    """A server process on a port of its own choosing, and that port."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "uvicorn", *arguments, "--port", "0",
        env={**os.environ, **environment}, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stderr is not None
    try:
        async with asyncio.timeout(30):
            while not (found := re.search(rb"http://127\.0\.0\.1:(\d+)", line := await process.stderr.readline())):
                assert line, "the server did not start"
        yield int(found[1])
    finally:
        process.terminate()
        await process.communicate()


async def test_the_server_of_the_readme(tmp_path: Path) -> None:
    """`uvicorn modules.llm_platform.asgi:app` answers from a folder of documents, without a key and without a network."""
    (tmp_path / "asyncio.md").write_text(
        "# asyncio\n\nPython asyncio is a library to write concurrent code using the async and await syntax.\n"
    )
    environment = {"DOCUMENTS_DIR": str(tmp_path), "LLM_PLATFORM_OFFLINE": "true"}
    async with started("modules.llm_platform.asgi:app", **environment) as port, dialled(port) as wire:
        wire.say("GET", "/health")
        status, report = await wire.answer()
        assert (status, report["status"], list(report["components"])) == (200, "healthy", ["documents"])
        wire.say("POST", "/research", QUESTION, Content_Type="application/x-www-form-urlencoded", X_Request_ID="abc")
        status, answer = await wire.answer()
        assert status == 200
        assert "concurrent code" in answer["synthesis"]
        assert answer["sources"][0]["url"] == "doc:asyncio.md"
        wire.say("GET", "/research/abc/sources/1")
        status, held = await wire.answer()
        quote = answer["citations"][0]
        assert held["text"][quote["quote_start"] : quote["quote_end"]] == quote["quote"]
        wire.say("POST", "/research", QUESTION, Accept="text/event-stream")
        async with asyncio.timeout(PATIENCE_S):
            assert b'"type":"done"' in await wire.reader.readuntil(b"event: done\ndata: {") + await wire.reader.read(200)
