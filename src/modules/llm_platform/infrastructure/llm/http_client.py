"""The HTTP client for the openai package: it sends through a shared connection pool and controls what is sent and read.

- Only our own headers, and those of a trace, are sent. The package adds telemetry about the machine, and takes
  organisation, project, key and further headers from OPENAI_… variables, which are meant for one service and not for
  whichever is configured here.
- The key is added here, last, so that no object of the package holds it.
- Redirects are not followed: they would send prompts to an address that is not configured.
- Error bodies are read up to a limit, because the package reads them without one. Successful bodies are left unread.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

import httpx2

from modules.llm_platform.domain.dtos.sent import SentKind
from modules.llm_platform.domain.egress_log import log_not_sent, log_sent
from modules.llm_platform.domain.ports.tracing import current_trace_headers
from modules.llm_platform.infrastructure.http.client import NEVER_SENT, user_agent, via_of
from modules.llm_platform.infrastructure.llm.kinds import LLMConnection

MAX_ERROR_BYTES: Final = 65_536
REQUEST_HEADERS: Final = ("host", "content-type", "content-length", "transfer-encoding", "accept")
ERROR_HEADERS: Final = ("content-type", "retry-after")

_SENT_KIND: ContextVar[SentKind | None] = ContextVar("sent_kind", default=None)  # the package cannot pass it on


@contextmanager
def log_requests_as(kind: SentKind) -> Iterator[None]:
    """Requests inside the block are noted in the egress log as data of this kind; others are not noted."""
    token = _SENT_KIND.set(kind)
    try:
        yield
    finally:
        _SENT_KIND.reset(token)


class SharedPoolClient(httpx2.AsyncClient):
    """Sends through the client `pool`, which stays open when this one is closed."""

    def __init__(self, pool: httpx2.AsyncClient, headers: Mapping[str, str]) -> None:
        super().__init__(transport=httpx2.AsyncBaseTransport(), trust_env=False)  # its own transport is never used
        self._pool = pool
        self._own_headers = dict(headers)

    async def send(self, request: httpx2.Request, **_: Any) -> httpx2.Response:
        """A successful response with its body unread, or an error with at most MAX_ERROR_BYTES of its body."""
        headers = {name: request.headers[name] for name in REQUEST_HEADERS if name in request.headers}
        request.headers = httpx2.Headers({**headers, **self._own_headers, **current_trace_headers()})
        response = await self._send_logged(request)
        return response if response.is_success else await _read_error(response)

    async def _send_logged(self, request: httpx2.Request) -> httpx2.Response:
        kind = _SENT_KIND.get()
        if kind is None:
            return await self._pool.send(request, stream=True, follow_redirects=False)
        size = int(request.headers.get("content-length", 0))
        entry = (request.url.raw_host.decode("ascii"), kind, size, via_of(self._pool))
        log_sent(*entry)
        try:
            return await self._pool.send(request, stream=True, follow_redirects=False)
        except NEVER_SENT:
            log_not_sent(*entry)
            raise


async def _read_error(response: httpx2.Response) -> httpx2.Response:
    headers = {name: response.headers[name] for name in ERROR_HEADERS if name in response.headers}
    try:
        body = await read_at_most(response, MAX_ERROR_BYTES)
    finally:
        await response.aclose()
    return httpx2.Response(response.status_code, headers=headers, content=body or b"", request=response.request)


async def read_at_most(response: httpx2.Response, limit: int) -> bytes | None:
    """The body, or None when it is longer than `limit` bytes."""
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > limit:
            return None
    return bytes(body)


def own_headers(connection: LLMConnection) -> dict[str, str]:
    """The headers that a connection adds to every request."""
    traits = connection.traits
    headers = {
        "user-agent": connection.user_agent or traits.user_agent or user_agent(),
        "accept-encoding": "identity",  # streams arrive unbuffered, and no body expands
    }
    if connection.api_key:
        bearer = traits.key_header == "authorization"
        headers[traits.key_header] = f"Bearer {connection.api_key}" if bearer else connection.api_key
    return headers
