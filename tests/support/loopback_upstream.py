"""An HTTP upstream on loopback that plays recordings, and misbehaves in every way, byte by byte."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

RECORDINGS = Path(__file__).parents[1] / "recordings"
SENT_HEADERS = {"content-type", "server-timing", *(f"x-ratelimit-{name}" for name in ("limit", "remaining", "reset"))}


@dataclass
class Exchange:
    """One request, and methods to answer it."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @property
    def parameters(self) -> dict[str, str]:
        """The query parameters of the address."""
        return dict(parse_qsl(self.path.partition("?")[2]))

    @property
    def form(self) -> dict[str, str]:
        return dict(parse_qsl(self.body.decode(), keep_blank_values=True, strict_parsing=True))

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()


Handler = Callable[[Exchange], Awaitable[None]]


class Loopback:
    """A server at `url`. `requests` are the received requests, and `busy` counts requests whose client still waits."""

    def __init__(self, handler: Handler) -> None:
        self.handler = handler
        self.requests: list[Exchange] = []
        self.busy = 0
        self.url = ""
        self.connections = 0

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                await self._serve(await _read(reader, writer))
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client has left, or the handler closed the connection
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _serve(self, exchange: Exchange) -> None:
        self.requests.append(exchange)
        self.busy += 1
        try:
            await self.handler(exchange)
        finally:
            self.busy -= 1


async def _read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Exchange:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.strip().split("\r\n")
    method, path, _ = first.split(" ", 2)
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Exchange(method, path, headers, body, reader, writer)


@asynccontextmanager
async def serving(handler: Handler, port: int = 0) -> AsyncIterator[Loopback]:
    """Run the server during the block. Port 0 means any free port."""
    loopback = Loopback(handler)
    tasks: set[asyncio.Task[None]] = set()

    def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.ensure_future(loopback.accept(reader, writer)))

    server = await asyncio.start_server(accepted, "127.0.0.1", port)
    loopback.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield loopback
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()


def head(status: int, *headers: str, length: int | None = None) -> bytes:
    lines = [f"HTTP/1.1 {status} Whatever", *headers]
    if length is not None:
        lines.append(f"Content-Length: {length}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def reply(status: int, body: bytes = b"", *headers: str) -> Handler:
    """Return a complete answer."""

    async def handle(exchange: Exchange) -> None:
        await exchange.send(head(status, *headers, length=None if status == 204 else len(body)) + body)

    return handle


def json_reply(value: Any, *headers: str, status: int = 200) -> Handler:
    return reply(status, json.dumps(value).encode(), "Content-Type: application/json", *headers)


def recorded(name: str) -> Handler:
    """Return the recorded answer of a real instance with its status and headers."""
    response = json.loads((RECORDINGS / f"{name}.json").read_text("utf-8"))["response"]
    body = response["body"]
    data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    headers = [f"{key}: {value}" for key, value in response["headers"].items() if key in SENT_HEADERS]
    return reply(response["status"], data, *headers)


def recording(name: str) -> Any:
    """Return the body of a recorded answer."""
    return json.loads((RECORDINGS / f"{name}.json").read_text("utf-8"))["response"]["body"]


async def silence(exchange: Exchange) -> None:
    """Take the request and send nothing until the client leaves."""
    await exchange.reader.read()


async def silence_in_body(exchange: Exchange) -> None:
    """Begin an answer and stop."""
    await exchange.send(head(200, "Content-Type: application/json", length=1000) + b'{"results": [')
    await exchange.reader.read()


async def drip(exchange: Exchange) -> None:
    """Send one byte at a time, each within any read timeout."""
    await exchange.send(head(200, "Content-Type: application/json", length=100_000))
    while True:
        await exchange.send(b" ")
        await asyncio.sleep(0.02)


async def hang_up(exchange: Exchange) -> None:
    """Close without an answer."""
    exchange.writer.close()
    raise ConnectionResetError


async def cut_off(exchange: Exchange) -> None:
    """Close in the middle of a body."""
    await exchange.send(head(200, "Content-Type: application/json", length=1000) + b'{"results": [')
    await hang_up(exchange)


def in_turn(*handlers: Handler) -> Handler:
    """Return a handler that uses these handlers in turn, and repeats the last one."""
    left = list(handlers)

    async def handle(exchange: Exchange) -> None:
        await (left.pop(0) if len(left) > 1 else left[0])(exchange)

    return handle


def by_query(answers: Mapping[str, Handler]) -> Handler:
    """Answer by the query, in any field of the address, the form or the JSON body."""

    async def handle(exchange: Exchange) -> None:
        is_form = exchange.headers.get("content-type") == "application/x-www-form-urlencoded"
        if exchange.method == "GET":
            sent = exchange.parameters
        elif is_form:
            sent = exchange.form
        else:
            sent = exchange.json
        query = next(value for value in sent.values() if isinstance(value, str) and value in answers)
        await answers[query](exchange)

    return handle
