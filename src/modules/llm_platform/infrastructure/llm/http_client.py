"""The HTTP client that the openai package is given: it borrows a pooled one and watches what goes out and comes in.

- Out go our own headers only. The package adds telemetry about this machine, and takes organisation, project, key and
  further headers from OPENAI_… variables, which are meant for one service and not for whichever is configured here.
- The key is set here, at the last moment, so that no object of the package holds it.
- Redirects are not followed: they would carry prompts to an address that nobody configured.
- Error bodies are read to a limit before the package reads them without one. Successful ones come unread.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

import httpx2

from modules.llm_platform.domain.dtos.sent import SentKind
from modules.llm_platform.domain.egress_log import log_not_sent, log_sent
from modules.llm_platform.infrastructure.http.client import NEVER_SENT, user_agent, via_of
from modules.llm_platform.infrastructure.llm.kinds import LLMConnection

MAX_ERROR_BYTES: Final = 65_536
KEPT_HEADERS: Final = ("host", "content-type", "content-length", "transfer-encoding", "accept")
KEPT_OF_ERRORS: Final = ("content-type", "retry-after")

_HOLDS: ContextVar[SentKind | None] = ContextVar("holds", default=None)  # the package has no word for what it is given


@contextmanager
def hold_client(kind: SentKind) -> Iterator[None]:
    """What is sent inside is of this kind, for the ledger."""
    token = _HOLDS.set(kind)
    try:
        yield
    finally:
        _HOLDS.reset(token)


class BorrowedClient(httpx2.AsyncClient):
    """Sends through `pooled`, which stays open when this one is closed."""

    def __init__(self, pooled: httpx2.AsyncClient, headers: Mapping[str, str]) -> None:
        super().__init__(transport=httpx2.AsyncBaseTransport(), trust_env=False)  # a transport of its own is never used
        self._pooled = pooled
        self._own_headers = dict(headers)

    async def send(self, request: httpx2.Request, **_: Any) -> httpx2.Response:
        """The response with its body unread; that of an error is there, and short."""
        kept = {name: request.headers[name] for name in KEPT_HEADERS if name in request.headers}
        request.headers = httpx2.Headers({**kept, **self._own_headers})
        response = await self._noted(request)
        return response if response.is_success else await _short(response)

    async def _noted(self, request: httpx2.Request) -> httpx2.Response:
        holds = _HOLDS.get()
        if holds is None:
            return await self._pooled.send(request, stream=True, follow_redirects=False)
        size = int(request.headers.get("content-length", 0))
        noted = (request.url.raw_host.decode("ascii"), holds, size, via_of(self._pooled))
        log_sent(*noted)
        try:
            return await self._pooled.send(request, stream=True, follow_redirects=False)
        except NEVER_SENT:
            log_not_sent(*noted)
            raise


async def _short(response: httpx2.Response) -> httpx2.Response:
    headers = {name: response.headers[name] for name in KEPT_OF_ERRORS if name in response.headers}
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
    """The headers that a connection sends with every request."""
    traits = connection.traits
    headers = {
        "user-agent": connection.user_agent or traits.user_agent or user_agent(),
        "accept-encoding": "identity",  # streams come unbuffered, and nothing can unpack to more than it is
    }
    if connection.api_key:
        bearer = traits.key_header == "authorization"
        headers[traits.key_header] = f"Bearer {connection.api_key}" if bearer else connection.api_key
    return headers
