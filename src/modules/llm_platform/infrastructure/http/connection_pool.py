"""A connection pool for one upstream. A request costs the same however many connections are open.

httpcore2's own pool looks at every connection twice for each request, and at the socket of every idle one: with fifty
connections that is a quarter of the CPU time of a search, with a thousand most of it. The connections are httpcore2's.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple, Protocol, cast

import httpcore2
import httpx2

Address = tuple[bytes, bytes, int]  # scheme, host, port


class _Idle(NamedTuple):
    connection: httpcore2.AsyncConnectionInterface
    since: float


class ConnectionPool(httpcore2.AsyncConnectionPool):
    """HTTP/1.1 without a proxy. At most `max_connections` requests run at once; the others wait in the order of their arrival.

    The connection that was used last is used next, so that those that are not needed expire.
    """

    def __init__(self, tls: ssl.SSLContext, limits: httpx2.Limits) -> None:
        super().__init__(ssl_context=tls, keepalive_expiry=limits.keepalive_expiry)
        self._slots = None if limits.max_connections is None else asyncio.Semaphore(limits.max_connections)
        self._max_idle = limits.max_keepalive_connections
        self._expiry_s = limits.keepalive_expiry
        self._idle: dict[Address, deque[_Idle]] = {}
        self._active: set[httpcore2.AsyncConnectionInterface] = set()

    async def handle_async_request(self, request: httpcore2.Request) -> httpcore2.Response:
        if request.url.scheme not in (b"http", b"https"):
            raise httpcore2.UnsupportedProtocol("The address has no scheme, or one other than http and https.")
        origin = request.url.origin
        address = (origin.scheme, origin.host, origin.port)
        await self._acquire_slot(request.extensions.get("timeout", {}).get("pool"))
        connection = response = None
        try:
            connection = await self._idle_connection(address) or self.create_connection(origin)
            self._active.add(connection)
            response = await connection.handle_async_request(request)
        finally:
            if response is None:  # it failed or was cancelled, and the connection has closed itself
                self._release_slot(connection)
        used = connection

        async def release() -> None:
            self._release_slot(used)
            await self._store(address, used)

        body = _Body(cast("_Stream", response.stream), release)
        return httpcore2.Response(
            response.status, headers=response.headers, content=body, extensions=response.extensions
        )

    async def aclose(self) -> None:
        """Close all connections, also those of requests that run."""
        connections = [*self._active, *(each.connection for idle in self._idle.values() for each in idle)]
        self._active.clear()
        self._idle.clear()
        for connection in connections:
            await connection.aclose()

    async def _acquire_slot(self, timeout_s: float | None) -> None:
        if self._slots is None:
            return
        if not self._slots.locked():
            await self._slots.acquire()  # does not wait
            return
        try:
            async with asyncio.timeout(timeout_s):
                await self._slots.acquire()
        except TimeoutError:
            raise httpcore2.PoolTimeout from None

    def _release_slot(self, connection: httpcore2.AsyncConnectionInterface | None) -> None:
        if connection is not None:
            self._active.discard(connection)
        if self._slots is not None:
            self._slots.release()

    async def _idle_connection(self, address: Address) -> httpcore2.AsyncConnectionInterface | None:
        """An idle connection that its server has not closed."""
        idle = self._idle.get(address)
        while idle:
            connection = idle.pop().connection
            if not connection.has_expired():
                return connection
            await connection.aclose()
        return None

    async def _store(self, address: Address, connection: httpcore2.AsyncConnectionInterface) -> None:
        """Keep a connection that can serve another request, and close one that has been idle for too long."""
        if not connection.is_idle():
            return
        if _has_unread_bytes(connection):
            await connection.aclose()
            return
        idle, now = self._idle.setdefault(address, deque()), time.monotonic()
        idle.append(_Idle(connection, now))
        is_surplus = self._max_idle is not None and len(idle) > self._max_idle
        if is_surplus or (self._expiry_s is not None and idle[0].since + self._expiry_s < now):
            await idle.popleft().connection.aclose()


def _has_unread_bytes(connection: httpcore2.AsyncConnectionInterface) -> bool:
    """Return whether the server sent more than the response: the next request would read the rest as its own.

    httpcore2 looks at the socket only. It has no name for what h11 and TLS have read from it.
    """
    http11: Any = cast("Any", connection)._connection
    if http11._h11_state.trailing_data[0]:
        return True
    tls = http11._network_stream.get_extra_info("ssl_object")
    return tls is not None and bool(tls.pending() or http11._network_stream._stream._read_bio.pending)


class _Stream(Protocol):
    """A stream of httpcore2."""

    def __aiter__(self) -> AsyncIterator[bytes]: ...

    async def aclose(self) -> None: ...


class _Body:
    """The body of a response, and what happens once when it is closed."""

    def __init__(self, stream: _Stream, release: Callable[[], Awaitable[None]]) -> None:
        self._stream = stream
        self._release: Callable[[], Awaitable[None]] | None = release

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._stream.__aiter__()

    async def aclose(self) -> None:
        release, self._release = self._release, None
        if release is None:
            return
        try:
            await self._stream.aclose()
        finally:
            await release()


class PooledTransport(httpx2.AsyncHTTPTransport):
    """httpx2's transport with a `ConnectionPool`."""

    def __init__(self, tls: ssl.SSLContext, limits: httpx2.Limits) -> None:
        super().__init__(verify=tls, limits=limits, trust_env=False)
        self._pool = ConnectionPool(tls, limits)
