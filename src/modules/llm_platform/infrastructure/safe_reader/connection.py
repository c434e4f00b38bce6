"""One request over one new connection to an IP address that was checked; the name stays in Host header and certificate."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import httpcore2
import httpx2

from modules.llm_platform.domain.egress_log import log_not_sent, log_sent
from modules.llm_platform.domain.exceptions import PageConnectionError
from modules.llm_platform.infrastructure.safe_reader.guard import Checked
from modules.llm_platform.infrastructure.safe_reader.url import PageAddress

CONNECTS_WITHIN_S: Final = 5.0  # to one address of the name; then the next one is tried
ADDRESSES_TRIED: Final = 4

NOT_REACHED = "The page's server cannot be reached: nothing answers there, or no TLS connection comes about"


class PinnedConnections:
    """Opens connections through `backend` (None: real sockets; a test gives its own) to checked addresses only. `tls`
    knows the authorities that are trusted (None: the usual ones).

    No proxy, no cookies, nothing from the environment, and no connection is kept: the next page is most likely elsewhere.
    """

    def __init__(self, backend: httpcore2.AsyncNetworkBackend | None = None, tls: ssl.SSLContext | None = None) -> None:
        self._backend = backend or httpcore2.AnyIOBackend()
        self._tls = tls

    @asynccontextmanager
    async def get(self, checked: Checked, headers: Mapping[str, str]) -> AsyncIterator[httpx2.Response]:
        """The answer, its body not read yet. Raises PageConnectionError and the errors of httpcore2."""
        address = checked.address
        for number, ip in enumerate(checked.ips[:ADDRESSES_TRIED], 1):
            connection = self._connection(address, str(ip))
            size = len(address.url)
            try:
                log_sent(address.host, "url", size)
                try:
                    answer = await connection.handle_async_request(_request(address, headers))
                except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                    log_not_sent(address.host, "url", size)
                    if number == min(len(checked.ips), ADDRESSES_TRIED):
                        raise PageConnectionError(NOT_REACHED) from error
                    continue
                yield httpx2.Response(answer.status, headers=answer.headers, stream=_Body(answer))
                return
            finally:
                await connection.aclose()

    def _connection(self, address: PageAddress, ip: str) -> httpcore2.AsyncHTTPConnection:
        return httpcore2.AsyncHTTPConnection(
            origin=_origin(address),
            ssl_context=self._tls_context() if address.scheme == "https" else None,
            network_backend=_Pinned(self._backend, ip),
        )

    def _tls_context(self) -> ssl.SSLContext:
        if self._tls is None:  # loading the authorities takes 16 ms: once, and not before it is needed
            self._tls = httpx2.create_ssl_context(trust_env=False)
        return self._tls


class _Pinned(httpcore2.AsyncNetworkBackend):
    """Dials one IP address, whatever name it is asked for."""

    def __init__(self, backend: httpcore2.AsyncNetworkBackend, ip: str) -> None:
        self._backend = backend
        self._ip = ip

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  the library's own signature
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        return await self._backend.connect_tcp(self._ip, port, timeout, local_address, socket_options)


class _Body(httpx2.AsyncByteStream):
    def __init__(self, answer: httpcore2.Response) -> None:
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._answer.aiter_stream():
            yield chunk


def _origin(address: PageAddress) -> httpcore2.Origin:
    return httpcore2.Origin(address.scheme.encode(), address.host.encode(), address.port)


def _request(address: PageAddress, headers: Mapping[str, str]) -> httpcore2.Request:
    url = httpcore2.URL(
        scheme=address.scheme.encode(), host=address.host.encode(), port=address.port, target=address.target.encode()
    )
    every = {"Host": address.netloc, **headers, "Connection": "close"}
    return httpcore2.Request(
        b"GET",
        url,
        headers=[(name.encode(), value.encode()) for name, value in every.items()],
        extensions={"timeout": {"connect": CONNECTS_WITHIN_S}},
    )
