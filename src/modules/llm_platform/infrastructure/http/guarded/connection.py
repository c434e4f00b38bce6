"""One request over a new connection to a checked IP address, with the host name in the Host header and for TLS."""

import ssl
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import httpcore2
import httpx2

from modules.llm_platform.domain.exceptions import PageConnectionError
from modules.llm_platform.domain.privacy.egress_log import log_not_sent, log_sent
from modules.llm_platform.infrastructure.http.client import get_default_tls
from modules.llm_platform.infrastructure.http.guarded.guard import Checked
from modules.llm_platform.infrastructure.http.guarded.url import PageAddress

PAGE_CONNECT_TIMEOUT_S: Final = 5.0  # limit for each address of the name
MAX_ADDRESSES_TRIED: Final = 4


class PinnedConnections:
    """Connects to checked addresses only. `backend` opens sockets (default: the system's), `tls` has the trusted
    authorities (default: the usual ones).

    It uses no proxy, cookies, environment or connection pool: the next page is most likely on another host.
    """

    def __init__(self, backend: httpcore2.AsyncNetworkBackend | None = None, tls: ssl.SSLContext | None = None) -> None:
        self._backend = backend or httpcore2.AnyIOBackend()
        self._tls = tls

    @asynccontextmanager
    async def request(
        self, checked: Checked, headers: Mapping[str, str], method: str = "GET", body: bytes | None = None
    ) -> AsyncIterator[httpx2.Response]:
        """Yield the response, with an unread body. Raises PageConnectionError and the errors of httpcore2."""
        address = checked.address
        for number, ip in enumerate(checked.ips[:MAX_ADDRESSES_TRIED], 1):
            connection = httpcore2.AsyncHTTPConnection(
                origin=httpcore2.Origin(address.scheme.encode(), address.host.encode(), address.port),
                ssl_context=(self._tls or get_default_tls()) if address.scheme == "https" else None,
                network_backend=_Pinned(self._backend, str(ip)),
            )
            size = len(address.url)
            try:
                log_sent(address.host, "url", size)
                try:
                    answer = await connection.handle_async_request(_request(address, headers, method, body))
                except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                    log_not_sent(address.host, "url", size)
                    if number == min(len(checked.ips), MAX_ADDRESSES_TRIED):
                        raise PageConnectionError(
                            "The page's server cannot be reached: no connection, or TLS failed"
                        ) from error
                    continue
                yield httpx2.Response(answer.status, headers=answer.headers, stream=_Body(answer))
                return
            finally:
                await connection.aclose()


class _Pinned(httpcore2.AsyncNetworkBackend):
    """Connects to one IP address, whatever the host name."""

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


def _request(address: PageAddress, headers: Mapping[str, str], method: str, body: bytes | None) -> httpcore2.Request:
    url = httpcore2.URL(
        scheme=address.scheme.encode(), host=address.host.encode(), port=address.port, target=address.target.encode()
    )
    length = {} if body is None else {"Content-Length": str(len(body))}
    all_headers = {"Host": address.netloc, **headers, **length, "Connection": "close"}
    return httpcore2.Request(
        method.encode(),
        url,
        headers=[(name.encode(), value.encode()) for name, value in all_headers.items()],
        content=body,
        extensions={"timeout": {"connect": PAGE_CONNECT_TIMEOUT_S}},
    )
