"""Transport of httpx2 over aiohttp's connections, which take a third of the CPU time and have a pool of constant cost.

Requests are sent as httpx2 built them: aiohttp adds no header, follows no redirect, stores no cookie and decodes no body.
Its failures are raised as errors of httpx2. https://docs.aiohttp.org/en/stable/client_reference.html
"""

import asyncio
import io
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, Final
from weakref import WeakSet

import aiohttp
import httpx2
from yarl import URL

MAX_HEADER_BYTES: Final = 16_384  # one line of a response's head
LARGE_BODY_BYTES: Final = 1 << 20  # a longer one is written in pieces, so that the event loop is not held up
# Response extension: a function that registers a callback for the end of the body.
ON_BODY_END: Final = "on_body_end"

# Most specific first.
_ERRORS: Final[tuple[tuple[type[Exception], type[httpx2.TransportError]], ...]] = (
    (aiohttp.ConnectionTimeoutError, httpx2.ConnectTimeout),
    (aiohttp.ServerTimeoutError, httpx2.ReadTimeout),
    (aiohttp.ClientConnectorError, httpx2.ConnectError),
    (aiohttp.InvalidURL, httpx2.UnsupportedProtocol),
    (aiohttp.NonHttpUrlClientError, httpx2.UnsupportedProtocol),
    (aiohttp.ClientOSError, httpx2.ReadError),
    (aiohttp.ClientError, httpx2.RemoteProtocolError),
    (ValueError, httpx2.LocalProtocolError),  # a line end in a header
)

_url = lru_cache(maxsize=256)(lambda text: URL(text, encoded=True))
# Of the request of this task: whether it needs a new connection, and whether it got a reused one.
_needs_new: ContextVar[bool] = ContextVar("needs_new", default=False)
_got_reused: ContextVar[bool] = ContextVar("got_reused", default=False)


class AiohttpTransport(httpx2.AsyncBaseTransport):
    """HTTP/1.1 without a proxy. At most `max_connections` requests run at once, and others wait in the order of their arrival.

    Each event loop has its own connections, since a program may call `asyncio.run` several times. Idle connections stay open
    for `keepalive_expiry` seconds, in any number. Servers close idle connections without notice, and llama.cpp's does so after
    each stream. So a request whose reused connection breaks before the first byte of a response is sent again at once.
    """

    def __init__(self, tls: ssl.SSLContext, limits: httpx2.Limits) -> None:
        self._tls = tls
        self._limits = limits
        self._sessions: dict[asyncio.AbstractEventLoop, aiohttp.ClientSession] = {}

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        loop = asyncio.get_running_loop()
        if (session := self._sessions.get(loop)) is None:
            session = self._open(loop)
            await self._close_sessions_of_ended_loops()
        body = await request.aread()
        with _translate_errors():
            response = await self._send_with_retry(session, request, body)
        extensions = {ON_BODY_END: response.content.on_eof}
        return httpx2.Response(
            response.status, headers=list(response.raw_headers), stream=_Body(response), extensions=extensions
        )

    async def _send_with_retry(
        self, session: aiohttp.ClientSession, request: httpx2.Request, body: bytes
    ) -> aiohttp.ClientResponse:
        """Return the response, from a new connection if a reused one was dead."""
        _needs_new.set(False)
        try:
            return await self._send(session, request, body)
        except aiohttp.ClientError as error:
            if not _got_reused.get() or not _is_unanswered(error):
                raise
            first = error
        _needs_new.set(True)
        try:
            return await self._send(session, request, body)
        except aiohttp.ClientConnectorError:  # "nothing was sent", but the request has left this machine before
            raise first from None

    async def _send(
        self, session: aiohttp.ClientSession, request: httpx2.Request, body: bytes
    ) -> aiohttp.ClientResponse:
        return await session.request(
            request.method,
            _url(str(request.url)),
            headers=[(name.decode("ascii"), value.decode("latin-1")) for name, value in request.headers.raw],
            data=io.BytesIO(body) if len(body) > LARGE_BODY_BYTES else body or None,
            allow_redirects=False,
            timeout=_make_timeouts(**request.extensions.get("timeout", {})),
        )

    async def aclose(self) -> None:
        """Close all connections of the current event loop, used or idle, and all connections of event loops that have ended."""
        await self._close_sessions_of_ended_loops()
        session = self._sessions.pop(asyncio.get_running_loop(), None)
        if session is not None:
            await session.close()

    async def _close_sessions_of_ended_loops(self) -> None:
        for loop in [loop for loop in self._sessions if loop.is_closed()]:
            await self._sessions.pop(loop).close()

    def _open(self, loop: asyncio.AbstractEventLoop) -> aiohttp.ClientSession:
        limits = self._limits
        connector = _Connector(
            ssl=self._tls,
            resolver=aiohttp.ThreadedResolver(),  # the system's resolver, even where aiodns is installed
            limit=limits.max_connections or 0,
            keepalive_timeout=limits.keepalive_expiry,
        )
        session = self._sessions[loop] = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
            auto_decompress=False,
            max_line_size=MAX_HEADER_BYTES,
            max_field_size=MAX_HEADER_BYTES,
        )
        return session


class _Connector(aiohttp.TCPConnector):
    """Records whether a connection has served a request before, and opens a new one for a request that needs it."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._used: WeakSet[object] = WeakSet()

    async def connect(self, *arguments: Any, **options: Any) -> Any:
        _got_reused.set(False)  # reset where no connection is made too
        connection = await super().connect(*arguments, **options)
        while _needs_new.get() and connection.protocol in self._used:  # also idle that long, so probably dead
            connection.close()
            connection = await super().connect(*arguments, **options)
        _got_reused.set(connection.protocol in self._used)
        self._used.add(connection.protocol)
        return connection


def _is_unanswered(error: aiohttp.ClientError) -> bool:
    """Return whether the connection broke before the first byte of a response, as far as can be told."""
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return isinstance(error.message, str)  # otherwise it is the part of a response that arrived
    return isinstance(error, aiohttp.ClientOSError) and not isinstance(error, aiohttp.ClientConnectorError)


class _Body(httpx2.AsyncByteStream):
    """The body of a response as it arrives. Closing it before its end closes the connection."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _translate_errors():
            async for chunk in self._response.content.iter_any():
                yield chunk

    async def aclose(self) -> None:
        self._response.release()


@contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except (aiohttp.ClientError, ValueError) as error:
        raise next(ours for theirs, ours in _ERRORS if isinstance(error, theirs))(str(error)) from error


@lru_cache(maxsize=64)
def _make_timeouts(
    connect: float | None = None, read: float | None = None, write: float | None = None, pool: float | None = None
) -> aiohttp.ClientTimeout:
    """Return the timeouts of a request, given in seconds. `write` has no effect, because aiohttp has no write timeout."""
    return aiohttp.ClientTimeout(total=None, connect=pool, sock_connect=connect, sock_read=read)
