"""One HTTP/1.1 connection: where a request ends, how many wait, and clients that do not read. With sockets, in this process."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import weakref
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field

import pytest
import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from tests.support.cases import for_each
from tests.support.garbage import no_collections
from tests.unit.presentation.rest.fake_platform import FakeServices, platform_of

from modules.llm_platform.domain.dtos.answer_dtos import ResearchResponse
from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest
from modules.llm_platform.domain.dtos.research_job_dtos import JobEvent
from modules.llm_platform.presentation.rest.app import create_app
from modules.llm_platform.presentation.rest.http import connection as http_connection
from modules.llm_platform.presentation.rest.http.admission import ResearchAdmission
from modules.llm_platform.presentation.rest.http.connection import MAX_WAITING, HttpConnection
from modules.llm_platform.presentation.rest.http.sse import EventStream
from shared.config import Settings

GUARD_S = 60.0
QUESTION = b'{"query": "solar sails"}'
OFFER = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAA\r\n"


@dataclass
class App:
    """Answers at once on /early, after the body elsewhere; on /gated when `gate` is set, on /endless without an end."""

    targets: list[str] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        self.targets.append(scope["path"])
        if scope["path"] != "/early":
            self.bodies.append(await _body(receive))
        if scope["path"] == "/gated":
            await self.gate.wait()
        names = dict(scope["headers"])
        headers = [(b"x-request-id", names.get(b"x-request-id", b"")), (b"x-upgrade", names.get(b"upgrade", b"none"))]
        await send(
            {"type": "http.response.start", "status": 200, "headers": [*headers, (b"x-path", scope["raw_path"])]}
        )
        if scope["path"] == "/endless":
            await self._send_until_disconnected(receive, send)
        await send({"type": "http.response.body", "body": b"x"})

    async def _send_until_disconnected(self, receive: Receive, send: Send) -> None:
        watcher = asyncio.ensure_future(receive())
        part: Message = {"type": "http.response.body", "body": b"x" * 65536, "more_body": True}
        while not watcher.done():
            await send(part)
            await asyncio.sleep(0)
        self.ended.set()


async def _body(receive: Receive) -> bytes:
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            return body


@asynccontextmanager
async def serving(app: ASGIApp) -> AsyncIterator[int]:
    config = uvicorn.Config(app, port=0, http=HttpConnection, lifespan="off", log_config=None, ws="none")
    server = uvicorn.Server(config)
    listener = socket.create_server(("127.0.0.1", 0))
    server.capture_signals = nullcontext  # type: ignore[method-assign]
    task = asyncio.create_task(server.serve([listener]))
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = server.force_exit = True
        await task
        listener.close()


async def answers(port: int, *parts: bytes) -> bytes:
    """Send the parts one after another, and return the responses until the server closes the connection."""
    async with asyncio.timeout(GUARD_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            for part in parts:
                writer.write(part)
                await writer.drain()
                await asyncio.sleep(0.02)
            return await reader.read()
        finally:
            writer.close()


def paths(received: bytes) -> list[bytes]:
    return re.findall(rb"x-path: ([^\r]*)", received)


@for_each(
    "rest, body",
    [
        (b"Content-Length: 5\r\n\r\n", b"hello"),
        (b"Transfer-Encoding: chunked\r\n\r\n", b"5\r\nhello\r\n0\r\n\r\n"),
        (b"Content-Length: 60\r\n\r\n", b"GET /hidden HTTP/1.1\r\nHost: x\r\n\r\n"),
    ],
)
async def test_an_answer_before_the_body_ends_the_connection(rest: bytes, body: bytes) -> None:
    """The response says that the connection closes, the client can read it, and later bytes are not parsed as a
    request.
    """
    app = App()
    async with serving(app) as port:
        head = b"POST /early HTTP/1.1\r\nHost: x\r\n" + rest
        received = await answers(port, head, body, b"GET /next HTTP/1.1\r\nHost: x\r\n\r\n")
    assert received.lower().count(b"connection: close") == 1
    assert paths(received) == [b"/early"]
    assert app.targets == ["/early"]


async def test_an_answer_behind_the_body_keeps_the_connection() -> None:
    """Also where the application did not read the body that had arrived."""
    app = App()
    one = b"POST /early HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"
    async with serving(app) as port:
        received = await answers(port, one, one, one.replace(b"Host: x", b"Host: x\r\nConnection: close"))
    assert paths(received) == [b"/early"] * 3


@for_each("size", [1 << 20, 120, 1])
async def test_an_offer_to_upgrade_is_declined(size: int) -> None:
    """The body and the next request are read, however they are split."""
    app = App()
    sent = b"POST /a HTTP/1.1\r\nHost: x\r\n" + OFFER + b"Content-Length: 24\r\n\r\n" + QUESTION
    sent += b"POST /b HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 24\r\n\r\n" + QUESTION
    async with serving(app) as port:
        async with asyncio.timeout(GUARD_S):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for start in range(0, len(sent), size):
                writer.write(sent[start : start + size])
                await writer.drain()
                await asyncio.sleep(0)
            received = await reader.read()
            writer.close()
    assert paths(received) == [b"/a", b"/b"]
    assert received.count(b"x-upgrade: none") == 2
    assert app.bodies == [QUESTION] * 2


async def test_a_body_may_hold_an_upgrade_line() -> None:
    """No byte of a body is lost."""
    app = App()
    body = json.dumps({"query": "x"}).encode() + b"\r\nUpgrade: h2c\r\nupgrade:y\r\n"
    head = b"POST /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body)
    async with serving(app) as port:
        await answers(port, head, body)
    assert app.bodies == [body]


async def test_connect_is_refused() -> None:
    """It is no offer that could be declined: there is no tunnel."""
    app = App()
    async with serving(app) as port:
        received = await answers(port, b"CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test\r\n\r\n")
    assert received.startswith(b"HTTP/1.1 400")
    assert app.targets == []


async def test_pipelined_requests_are_answered_in_order() -> None:
    """As many as may wait, and more when those are answered."""
    app = App()
    many = b"".join(b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n" % number for number in range(MAX_WAITING))
    end = b"GET /end HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    async with serving(app) as port:
        received = await answers(port, many, many, end)
    assert paths(received) == [b"/%d" % number for number in range(MAX_WAITING)] * 2 + [b"/end"]


async def test_few_pipelined_requests_wait() -> None:
    """Requests up to the limit are answered, the last response announces the close, and no further request is started."""
    app = App()
    first = b"GET /gated HTTP/1.1\r\nHost: x\r\n\r\n"
    many = b"".join(b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n" % number for number in range(1000))
    async with serving(app) as port:
        asking = asyncio.create_task(answers(port, first, many))
        async with asyncio.timeout(GUARD_S):
            while not app.targets:
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        app.gate.set()
        received = await asking
    assert paths(received) == [b"/gated", *(b"/%d" % number for number in range(MAX_WAITING))]
    assert received.lower().count(b"connection: close") == 1
    assert received.rpartition(b"HTTP/1.1 200")[2].lower().count(b"connection: close") == 1


async def test_reading_is_paused_while_a_request_waits() -> None:
    """A client that sends on fills the buffers of the kernel, not the memory of the server."""
    app = App()
    async with serving(app) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /gated HTTP/1.1\r\nHost: x\r\n\r\n")
        async with asyncio.timeout(GUARD_S):
            while not app.targets:
                await asyncio.sleep(0.01)
        writer.write(b"POST /waiting HTTP/1.1\r\nHost: x\r\nContent-Length: 67108864\r\n\r\n")
        await asyncio.sleep(0.1)
        writer.write(b"x" * (64 << 20))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1.0):
                await writer.drain()
        writer.transport.abort()
        app.gate.set()  # from Python 3.12 on a server that stops waits for its connections
        del reader


async def ask_without_reading(client: socket.socket, port: int, target: bytes) -> None:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.setblocking(False)
    await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", port))
    await asyncio.get_running_loop().sock_sendall(client, b"GET " + target + b" HTTP/1.1\r\nHost: x\r\n\r\n")


async def test_a_client_that_takes_no_byte_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    """After WRITE_TIMEOUT_S, so that its response ends."""
    monkeypatch.setattr(http_connection, "WRITE_TIMEOUT_S", 1.0)
    app = App()
    async with serving(app) as port:
        with socket.socket() as client:
            await ask_without_reading(client, port, b"/endless")
            async with asyncio.timeout(GUARD_S):
                await app.ended.wait()


async def test_a_finished_run_with_an_unread_stream_frees_its_slot() -> None:
    """When the run ends, the slot is freed even if the client keeps the connection open."""
    slots, ended = ResearchAdmission(1), asyncio.Event()

    async def events() -> AsyncGenerator[JobEvent, None]:
        for number in range(1, 401):
            yield JobEvent(number, "token", "x" * 65536)
        ended.set()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await EventStream(slots.admit(events()))(scope, receive, send)

    async with serving(app) as port:
        with socket.socket() as client:
            await ask_without_reading(client, port, b"/")
            async with asyncio.timeout(GUARD_S):
                await ended.wait()
                while slots.running:
                    await asyncio.sleep(0.01)


class RememberingServices(FakeServices):
    """Remembers its answers as long as they are referenced elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.answered: list[weakref.ref[ResearchResponse]] = []

    def _research_response(self, request: ResearchRequest, request_id: str | None) -> ResearchResponse:
        response = super()._research_response(request, request_id)
        self.answered.append(weakref.ref(response))
        return response


@for_each("fields", [b"", b', "stream": true'])
async def test_an_answer_that_was_sent_is_not_kept(fields: bytes) -> None:
    """It is freed at once: left to the garbage collector, hundreds of answers with their pages would wait for it."""
    services = RememberingServices()
    app = create_app(platform_of(services), Settings.without_environment())
    body = QUESTION[:-1] + fields + b"}"
    head = b"POST /research HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    head += b"Content-Length: %d\r\n\r\n" % len(body)
    async with app.router.lifespan_context(app), serving(app) as port:
        with no_collections():
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(head + body)
            async with asyncio.timeout(GUARD_S):
                await reader.readuntil(b"[1]")
                while services.answered[0]() is not None:
                    await asyncio.sleep(0.01)
            writer.close()
    assert len(services.answered) == 1
