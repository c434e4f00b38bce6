"""Shows what the direct page reader does with a URL, on a fake network without sockets."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import httpcore2

from shared.exceptions import AppException

if TYPE_CHECKING:
    from modules.llm_platform.infrastructure.parsing.parser_process import Parsed
    from shared.config import Settings

READ: Final = "read"

Resolve: TypeAlias = Callable[[str], Sequence[str] | Awaitable[Sequence[str]]]
Headers: TypeAlias = Mapping[str, str] | Iterable[tuple[str, str]]
Body: TypeAlias = bytes | str | Iterable[bytes] | AsyncIterable[bytes]
Answer: TypeAlias = tuple[int, Headers, Body]
Respond: TypeAlias = Callable[[str, int, str, str], Answer | Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class ReaderProbe:
    """The result of a read.

    - `outcome` is "read" or the code of the error.
    - `connections` are the (ip, port) pairs of all connections, in order.
    """

    outcome: str
    connections: list[tuple[str, int]]


async def probe_reader(url: str, resolve: Resolve, respond: Respond, settings: Settings | None = None) -> ReaderProbe:
    """Read a URL with the direct reader on a fake resolver and server, without a socket.

    - `resolve(host)` replaces DNS and returns IP addresses. Any exception means that the name does not exist.
    - `respond(ip, port, host, target)` replaces the server and returns status, headers (a mapping or pairs) and body (bytes
      or an iterable of bytes, which may be endless). An OSError means that the server is unreachable.
    - `settings` configure the reader. With None, the defaults apply, and not the environment.

    Both functions may be coroutine functions.
    """
    from modules.llm_platform.infrastructure.http.guarded.connection import PinnedConnections
    from modules.llm_platform.infrastructure.http.guarded.guard import AllowedHosts, Guard
    from modules.llm_platform.infrastructure.pages.direct import DirectPageReader
    from modules.llm_platform.infrastructure.pages.fetch import SafeFetcher
    from modules.llm_platform.infrastructure.pages.robots import Robots

    network = FakeNetwork(respond)
    guard = Guard(_FakeResolver(resolve), AllowedHosts(settings.READER_ALLOWED_HOSTS if settings else ()))
    fetcher = SafeFetcher(guard, PinnedConnections(network))
    reader = DirectPageReader(
        fetcher,
        _InProcessParsers(),
        robots=Robots(fetcher) if settings and "direct-robots" in settings.READERS else None,
    )
    try:
        await reader.read(url)
    except AppException as error:
        return ReaderProbe(error.code, network.connections)
    return ReaderProbe(READ, network.connections)


class FakeNetwork(httpcore2.AsyncNetworkBackend):
    """A network in which `respond(ip, port, host, target)` plays every server, without TLS.

    An OSError of `respond` means that the server is unreachable. `connections` has the (ip, port) pairs of all connections,
    in order. `open` is the number of open ones.
    """

    def __init__(self, respond: Respond) -> None:
        self.connections: list[tuple[str, int]] = []
        self.open = 0
        self._respond = respond

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  the signature of the library
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        self.connections.append((host, port))
        self.open += 1
        return _Stream(self, host, port, self._respond)


class _Stream(httpcore2.AsyncNetworkStream):
    def __init__(self, owner: FakeNetwork, ip: str, port: int, respond: Respond) -> None:
        self._owner: FakeNetwork | None = owner
        self._ip, self._port, self._respond = ip, port, respond
        self._sent = b""
        self._answer: AsyncIterator[bytes] | None = None
        self._unread = b""

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        self._sent += buffer

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        if self._answer is None:
            self._answer = self._serve()
        while not self._unread:
            try:
                self._unread = await anext(self._answer)
            except StopAsyncIteration:
                return b""
            except OSError as error:
                raise httpcore2.ReadError(str(error)) from error
        part, self._unread = self._unread[:max_bytes], self._unread[max_bytes:]
        return part

    async def aclose(self) -> None:
        if self._owner is not None:
            self._owner.open -= 1
            self._owner = None

    async def start_tls(
        self,
        ssl_context: Any,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> httpcore2.AsyncNetworkStream:
        return self

    def get_extra_info(self, info: str) -> Any:
        return None

    async def _serve(self) -> AsyncIterator[bytes]:
        first, *lines = self._sent.decode("ascii").split("\r\n")
        target = first.split(" ")[1]
        netloc = next(line[5:].strip() for line in lines if line.lower().startswith("host:"))
        host = netloc[1:].partition("]")[0] if netloc.startswith("[") else netloc.partition(":")[0]
        try:
            result = self._respond(self._ip, self._port, host, target)
            status, headers, body = await result if inspect.isawaitable(result) else result
        except OSError as error:
            raise httpcore2.ConnectError(str(error)) from error
        pairs = list(headers.items() if isinstance(headers, Mapping) else headers)
        if isinstance(body, str):
            body = body.encode()
        if isinstance(body, bytes) and not {"content-length", "transfer-encoding"} & {
            name.lower() for name, _ in pairs
        }:
            pairs.append(("Content-Length", str(len(body))))
        yield f"HTTP/1.1 {status} OK\r\n".encode() + b"".join(map(_header_line, pairs)) + b"\r\n"
        async for part in _parts(body):
            yield part


def _header_line(pair: tuple[str, str]) -> bytes:
    text = f"{pair[0]}: {pair[1]}\r\n"
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")


async def _parts(body: bytes | Iterable[bytes] | AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    if isinstance(body, bytes):
        yield body
    elif isinstance(body, AsyncIterable):
        async for part in body:
            yield part
    else:
        for part in body:
            yield part


class _FakeResolver:
    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        [answer] = await asyncio.gather(self._resolve_host(host), return_exceptions=True)
        if isinstance(answer, BaseException):  # any exception means that the name does not exist
            raise OSError("no such name") from answer
        return answer

    async def _resolve_host(self, host: str) -> Sequence[str]:
        answer: Any = self._resolve(host)
        return list(await answer if inspect.isawaitable(answer) else answer)


class _InProcessParsers:
    """Parses HTML without a child process: the pages of a probe are trusted, and there may be hundreds of them."""

    async def prepare(self) -> None:
        return

    async def html(self, html: str) -> Parsed:
        from modules.llm_platform.infrastructure.parsing.html_page import read_page
        from modules.llm_platform.infrastructure.parsing.parser_process import read_answer

        return read_answer(await asyncio.to_thread(read_page, html))

    async def linked_html(self, html: str, *, is_whole: bool = False) -> Parsed:
        return await self.html(html)  # a probe reads one page

    async def pdf(self, data: bytes) -> Parsed:
        from modules.llm_platform.infrastructure.pages.content import PageParsers

        parsers = PageParsers()
        try:
            return await parsers.pdf(data)
        finally:
            await parsers.aclose()
