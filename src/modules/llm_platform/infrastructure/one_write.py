"""Send the head of a request and its body in one packet.

httpcore2 writes them one after the other; the server wakes up twice, and each POST takes about 0.09 ms longer (measured on
loopback). The connections, TLS and timeouts stay the library's own: this only holds a head back until its body comes.
"""

from __future__ import annotations

import re
import select
from collections.abc import Iterable
from functools import cached_property
from typing import Any, Final

import httpcore2
import httpx2

_HAS_BODY: Final = re.compile(rb"\r\ncontent-length: *[1-9]", re.I)
_HEAD_END: Final = b"\r\n\r\n"


class OneWriteTransport(httpx2.AsyncHTTPTransport):
    """httpx2's own transport, whose new connections hold a head back until its body comes."""

    def __init__(self, verify: Any, limits: httpx2.Limits) -> None:
        super().__init__(verify=verify, limits=limits, trust_env=False)
        # The pool takes a backend, but httpx2 has no word for it: without those private names all stays as it was.
        pool: Any = getattr(self, "_pool", None)
        backend = getattr(pool, "_network_backend", None)
        if isinstance(backend, httpcore2.AsyncNetworkBackend):
            pool._network_backend = OneWriteBackend(backend)


class OneWriteBackend(httpcore2.AsyncNetworkBackend):
    """The library's backend; only the streams that it opens are wrapped."""

    def __init__(self, backend: httpcore2.AsyncNetworkBackend) -> None:
        self._backend = backend

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  the library's own signature
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        stream = await self._backend.connect_tcp(host, port, timeout, local_address, socket_options)
        return OneWriteStream(stream)

    async def sleep(self, seconds: float) -> None:
        await self._backend.sleep(seconds)


class OneWriteStream(httpcore2.AsyncNetworkStream):
    """A connection that keeps back a head whose body is announced, and sends both when the body is there."""

    def __init__(self, stream: httpcore2.AsyncNetworkStream) -> None:
        self._stream = stream
        self._held = b""

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        if not self._held and buffer.endswith(_HEAD_END) and _HAS_BODY.search(buffer):
            self._held = buffer
            return
        held, self._held = self._held, b""
        await self._stream.write(held + buffer, timeout)

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        if self._held:  # somebody waits for an answer to what was never sent
            await self.write(b"", timeout)
        return await self._stream.read(max_bytes, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None  # noqa: ASYNC109
    ) -> httpcore2.AsyncNetworkStream:
        return OneWriteStream(await self._stream.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        if info == "is_readable" and self._watched is not None:
            connection, poll = self._watched
            return connection.fileno() < 0 or bool(poll.poll(0))  # a closed one ends at the next read, so there is one
        return self._stream.get_extra_info(info)

    @cached_property
    def _watched(self) -> tuple[Any, Any] | None:
        """The socket, and a poll that looks whether anything came on it. The pool asks that of every idle connection before
        every request, and the library looks the socket up anew each time. None where the system has no `poll`.
        """
        connection = self._stream.get_extra_info("socket")
        if connection is None or connection.fileno() < 0 or not hasattr(select, "poll"):
            return None
        poll = select.poll()
        poll.register(connection.fileno(), select.POLLIN)
        return connection, poll
