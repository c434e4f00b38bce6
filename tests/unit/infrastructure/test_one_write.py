"""The head of a request waits for its body, and for nothing else."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from typing import Any

import httpcore2
import httpx2
import pytest
from tests.loopback_upstream import json_reply, serving, silence

from modules.llm_platform.infrastructure.http import make_client
from modules.llm_platform.infrastructure.one_write import OneWriteBackend, OneWriteStream, OneWriteTransport
from modules.llm_platform.testing.patience import CLOSES_WITHIN_S, becomes

HEAD = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n"


class Wire(httpcore2.AsyncNetworkStream):
    """A connection that remembers what went over it."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.closed = False
        self.secured: str | None = None

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self.writes.append(buffer)

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return b"HTTP/1.1 200 OK\r\n\r\n"[:max_bytes]

    async def aclose(self) -> None:
        self.closed = True

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> Wire:
        inner = Wire()
        inner.secured = server_hostname
        return inner

    def get_extra_info(self, info: str) -> Any:
        return None if info == "socket" else f"wire {info}"  # no socket behind it, as in a test of one's own


async def test_head_and_body_leave_in_one_write() -> None:
    """Two pieces in, one out: the server wakes up once."""
    wire = Wire()
    stream = OneWriteStream(wire)
    await stream.write(HEAD)
    assert wire.writes == []
    await stream.write(b"body")
    assert wire.writes == [HEAD + b"body"]


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 4\r\n",
    ],
)
async def test_what_announces_no_body_is_not_held(head: bytes) -> None:
    """A head without a body of known length, or half a head, goes out at once."""
    wire = Wire()
    await OneWriteStream(wire).write(head)
    assert wire.writes == [head]


async def test_pieces_of_a_long_body_follow_as_they_come() -> None:
    """Only the first one travels with the head; a piece that looks like a head goes out before anything is read."""
    wire = Wire()
    stream = OneWriteStream(wire)
    for piece in (HEAD, b"bo", b"dy", HEAD):
        await stream.write(piece)
    assert wire.writes == [HEAD + b"bo", b"dy"]
    await stream.read(100)
    assert wire.writes == [HEAD + b"bo", b"dy", HEAD]


async def test_reading_sends_what_is_held() -> None:
    """Who waits for an answer has asked: a head is never kept for ever."""
    wire = Wire()
    stream = OneWriteStream(wire)
    await stream.write(HEAD)
    assert await stream.read(8) == b"HTTP/1.1"
    assert wire.writes == [HEAD]
    await stream.read(8)
    assert wire.writes == [HEAD]


async def test_closing_sends_nothing() -> None:
    """A request given up between head and body leaves no half request at the server."""
    wire = Wire()
    stream = OneWriteStream(wire)
    await stream.write(HEAD)
    await stream.aclose()
    assert (wire.writes, wire.closed) == ([], True)


async def test_tls_is_wrapped_too_and_questions_are_passed_on() -> None:
    """The connection inside TLS is the one that is written to."""
    stream = OneWriteStream(Wire())
    secure = await stream.start_tls(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), "example.org")
    assert isinstance(secure, OneWriteStream)
    inner = secure._stream
    assert isinstance(inner, Wire)
    assert inner.secured == "example.org"
    await secure.write(HEAD)
    await secure.write(b"body")
    assert inner.writes == [HEAD + b"body"]
    assert stream.get_extra_info("is_readable") == "wire is_readable"


async def test_the_backend_wraps_what_it_connects() -> None:
    """Connections are the library's own, wrapped; its sleep is its own."""
    slept: list[float] = []

    class Backend(httpcore2.AsyncNetworkBackend):
        async def connect_tcp(self, host: str, port: int, *_: Any) -> Wire:  # type: ignore[override]
            return Wire()

        async def sleep(self, seconds: float) -> None:
            slept.append(seconds)

    backend = OneWriteBackend(Backend())
    assert isinstance(await backend.connect_tcp("a", 1), OneWriteStream)
    await backend.sleep(0.5)
    assert slept == [0.5]


@pytest.mark.parametrize("missing", ["_pool", "_network_backend"])
async def test_without_the_librarys_private_names_it_is_the_plain_transport(
    missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A version of httpx2 that renames them costs the saving, not the service."""
    plain = httpx2.AsyncHTTPTransport.__init__

    def renamed(self: Any, *args: Any, **options: Any) -> None:
        plain(self, *args, **options)
        if missing == "_pool":
            self.renamed = self.__dict__.pop("_pool")
        else:
            self._pool.renamed = self._pool.__dict__.pop("_network_backend")

    monkeypatch.setattr(httpx2.AsyncHTTPTransport, "__init__", renamed)
    transport = OneWriteTransport(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), httpx2.Limits())
    pool: Any = vars(transport).get("_pool") or vars(transport)["renamed"]
    backend = vars(pool).get("_network_backend") or vars(pool)["renamed"]
    assert not isinstance(backend, OneWriteBackend)


async def test_a_server_sees_ordinary_requests() -> None:
    """With and without a body, one after another on one connection."""
    async with serving(json_reply({"ok": True})) as upstream, make_client(upstream.url) as client:
        for content in (b"q=1", b"", b"q=" + b"x" * 200_000):
            assert (await client.post("/search", content=content)).json() == {"ok": True}
        assert (await client.get("/search")).json() == {"ok": True}
    assert [len(request.body) for request in upstream.requests] == [3, 0, 200_002, 0]
    assert upstream.connections == 1


async def test_a_body_that_fails_leaves_no_half_request() -> None:
    """The server never hears of a request whose body could not be made, and the client serves the next one."""

    async def broken() -> AsyncIterator[bytes]:
        yield b""
        raise LookupError("no body")

    async with serving(json_reply({})) as upstream, make_client(upstream.url) as client:
        with pytest.raises(LookupError):
            await client.post("/search", content=broken(), headers={"Content-Length": "5"})
        assert (await client.post("/search", content=b"q=1")).status_code == 200
    assert [request.body for request in upstream.requests] == [b"q=1"]


async def test_cancelling_closes_the_connection() -> None:
    """Held back or sent, a cancelled request leaves nothing open."""
    async with serving(silence) as upstream, make_client(upstream.url) as client:
        asking = asyncio.create_task(client.post("/search", content=b"q=1"))
        while not upstream.busy:
            await asyncio.sleep(0.005)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert await becomes(lambda: not upstream.busy, CLOSES_WITHIN_S)


async def test_a_connection_that_the_server_closed_is_not_used_again() -> None:
    """The pool learns of it before the next request, however the socket is watched: no request is lost to a dead one."""
    served, closed = 0, 0

    async def one_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal served, closed
        served += 1
        await reader.readuntil(b"q=1")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        await writer.drain()
        await asyncio.sleep(0.02)
        writer.close()  # without having said so in a header, as servers do after a while of silence
        closed += 1

    server = await asyncio.start_server(one_answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, make_client(f"http://127.0.0.1:{port}") as client:
        for number in range(1, 4):
            assert (await client.post("/search", content=b"q=1")).json() == {}
            assert await becomes(lambda: closed == number, CLOSES_WITHIN_S)  # noqa: B023  it is awaited here
            await asyncio.sleep(0.06)
    assert served == 3


async def test_an_idle_connection_that_is_open_is_used_again() -> None:
    """Watching the socket does not take a quiet connection for a dead one."""
    async with serving(json_reply({})) as upstream, make_client(upstream.url) as client:
        for _ in range(3):
            await client.post("/search", content=b"q=1")
            await asyncio.sleep(0.03)
    assert upstream.connections == 1
