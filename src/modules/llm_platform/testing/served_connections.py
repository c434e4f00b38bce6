"""A network without a network: whoever connects meets a function that plays the server."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeAlias

import httpcore2

Headers: TypeAlias = Mapping[str, str] | Iterable[tuple[str, str]]
Body: TypeAlias = bytes | str | Iterable[bytes] | AsyncIterable[bytes]
Answer: TypeAlias = tuple[int, Headers, Body]
Respond: TypeAlias = Callable[[str, int, str, str], Answer | Awaitable[Answer]]


class ServedConnections(httpcore2.AsyncNetworkBackend):
    """Every connection reaches `respond(ip, port, host, target)`; TLS is taken for granted. An OSError of it is a server
    that cannot be reached. `dialled` holds what was connected to, in order; `open` how many connections are.
    """

    def __init__(self, respond: Respond) -> None:
        self.dialled: list[tuple[str, int]] = []
        self.open = 0
        self._respond = respond

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  the library's own signature
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        self.dialled.append((host, port))
        self.open += 1
        return _Stream(self, host, port, self._respond)


class _Stream(httpcore2.AsyncNetworkStream):
    def __init__(self, owner: ServedConnections, ip: str, port: int, respond: Respond) -> None:
        self._owner: ServedConnections | None = owner
        self._ip, self._port, self._respond = ip, port, respond
        self._sent = b""
        self._answer: AsyncIterator[bytes] | None = None
        self._left = b""

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        self._sent += buffer

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        if self._answer is None:
            self._answer = self._served()
        while not self._left:
            try:
                self._left = await anext(self._answer)
            except StopAsyncIteration:
                return b""
            except OSError as error:
                raise httpcore2.ReadError(str(error)) from error
        piece, self._left = self._left[:max_bytes], self._left[max_bytes:]
        return piece

    async def aclose(self) -> None:
        if self._owner is not None:
            self._owner.open -= 1
            self._owner = None

    async def start_tls(
        self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None  # noqa: ASYNC109
    ) -> httpcore2.AsyncNetworkStream:
        return self

    def get_extra_info(self, info: str) -> Any:
        return None

    async def _served(self) -> AsyncIterator[bytes]:
        target, host = _asked(self._sent)
        try:
            given = self._respond(self._ip, self._port, host, target)
            status, headers, body = await given if inspect.isawaitable(given) else given
        except OSError as error:
            raise httpcore2.ConnectError(str(error)) from error
        pairs = list(headers.items() if isinstance(headers, Mapping) else headers)
        if isinstance(body, str):
            body = body.encode()
        if isinstance(body, bytes) and not {"content-length", "transfer-encoding"} & {name.lower() for name, _ in pairs}:
            pairs.append(("Content-Length", str(len(body))))
        yield f"HTTP/1.1 {status} Played\r\n".encode() + b"".join(map(_line, pairs)) + b"\r\n"
        async for piece in _pieces(body):
            yield piece


def _asked(sent: bytes) -> tuple[str, str]:
    first, *lines = sent.decode("ascii").split("\r\n")
    netloc = next(line[5:].strip() for line in lines if line.lower().startswith("host:"))
    host = netloc[1:].partition("]")[0] if netloc.startswith("[") else netloc.partition(":")[0]
    return first.split(" ")[1], host


def _line(pair: tuple[str, str]) -> bytes:
    text = f"{pair[0]}: {pair[1]}\r\n"
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")


async def _pieces(body: bytes | Iterable[bytes] | AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    if isinstance(body, bytes):
        yield body
    elif isinstance(body, AsyncIterable):
        async for piece in body:
            yield piece
    else:
        for piece in body:
            yield piece
