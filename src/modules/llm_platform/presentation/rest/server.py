"""uvicorn for this application: HTTP timeouts and errors, draining before shutdown, garbage collector settings."""

from __future__ import annotations

import asyncio
import errno
import gc
import re
import socket
import sys
from collections.abc import Callable
from http import HTTPStatus
from typing import Final

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from modules.llm_platform.application.platform import LLMPlatform
from modules.llm_platform.application.services.research_service import new_request_id
from modules.llm_platform.presentation.rest.app import create_app
from modules.llm_platform.presentation.rest.http.problems import (
    REQUEST_ID,
    BadRequestError,
    HeadTimeoutError,
    RestError,
    problem_response,
)
from modules.llm_platform.presentation.rest.http.responses import ServerState
from shared.config import Settings, SettingsError

HEAD_TIMEOUT_S = 8.0  # for the head of a request, from its first byte or from the start of the connection
CANCELLATION_GRACE_S = 1  # after the drain, for cancelled requests to end
EXAMPLE_PORT = 8001
GC_YOUNG_THRESHOLD: Final = 50_000  # allocations before a collection; a research request allocates about 10,000
GC_OLDER_THRESHOLD: Final = 20  # collections of one generation before the next older one is collected
_UPGRADE_HEADER = re.compile(rb"\r\nupgrade:[^\r\n]*", re.IGNORECASE)


class HttpProtocol(HttpToolsProtocol):
    """One HTTP/1.1 connection of uvicorn with three changes.

    A malformed request gets a problem object. The head of a request has a time limit. An Upgrade header is removed
    (RFC 9110, 7.8): there is no other protocol, and the parser would read the body of such a request, which Java's client
    sends with every POST, as that protocol.
    """

    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_head_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_head_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if b"pgrade" in data and not self._is_responding():
            head, end, body = data.partition(b"\r\n\r\n")
            data = _UPGRADE_HEADER.sub(b"", head) + end + body
        super().data_received(data)

    def on_message_begin(self) -> None:
        if self._head_timer is None:
            self._start_head_timer()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._stop_head_timer()
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        self._refuse(BadRequestError())

    def _start_head_timer(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_TIMEOUT_S, self._on_head_timeout)

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _on_head_timeout(self) -> None:
        if self.headers is None:  # no request has begun: browsers open connections in advance
            self.transport.close()
        elif self._is_responding():
            self._start_head_timer()  # the next request waits for the current response
        else:
            self._refuse(HeadTimeoutError())

    def _refuse(self, error: RestError) -> None:
        """Send the error unless a response has started, and close the connection."""
        self._stop_head_timer()
        if self.transport.is_closing():
            return
        if not self._is_responding() or not self.cycle.response_started:
            self.transport.write(_serialized_response(error))
        self.transport.close()

    def _is_responding(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete


def _serialized_response(error: RestError) -> bytes:
    request_id = new_request_id()
    response = problem_response(error, {"path": "/", REQUEST_ID: request_id})
    headers = [*response.raw_headers, (b"connection", b"close"), (b"x-request-id", request_id.encode())]
    status_line = f"HTTP/1.1 {error.status_code} {HTTPStatus(error.status_code).phrase}\r\n".encode()
    return status_line + b"".join(b"%b: %b\r\n" % header for header in headers) + b"\r\n" + bytes(response.body)


def tune_gc() -> None:
    """Exclude all loaded objects from garbage collection and collect less often.

    The modules of a server are half a million objects that live as long as the process; scanning them took a fifth of the
    CPU time of research requests with fifty clients. The settings apply to the whole process.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_YOUNG_THRESHOLD, GC_OLDER_THRESHOLD, GC_OLDER_THRESHOLD)


def serve(platform: LLMPlatform | Callable[[], LLMPlatform], settings: Settings) -> None:
    """Serve until a signal arrives.

    Raises SettingsError if the address is in use or does not exist, or is not a loopback address and no API key is set.
    """
    require_api_keys(settings)
    check_address(settings.LLM_PLATFORM_HOST, settings.LLM_PLATFORM_PORT)
    server = make_server(platform, settings)
    tune_gc()
    server.run()


def make_server(platform: LLMPlatform | Callable[[], LLMPlatform], settings: Settings) -> DrainingServer:
    """Return the server, not started."""
    app = create_app(platform, settings)
    config = uvicorn.Config(
        app,
        host=settings.LLM_PLATFORM_HOST,
        port=settings.LLM_PLATFORM_PORT,
        http=HttpProtocol,
        proxy_headers=False,  # by default uvicorn trusts forwarded addresses from any local process
        server_header=False,
        access_log=False,
        log_config=None,
        lifespan="on",
        ws="none",
        timeout_graceful_shutdown=CANCELLATION_GRACE_S,
    )
    return DrainingServer(config, app.state.server, settings.DRAIN_TIMEOUT_S)


def require_api_keys(settings: Settings) -> None:
    """Raise SettingsError if other machines can reach the server and no API key is set: requests can cost money."""
    if settings.lacks_api_keys():
        raise SettingsError(
            "LLM_PLATFORM_HOST is not a loopback address, so other machines could use this server: set "
            "LLM_PLATFORM_API_KEYS, or listen on 127.0.0.1. Example: LLM_PLATFORM_API_KEYS=a-long-random-word"
        )


def check_address(host: str, port: int) -> None:
    """Raise SettingsError if the server cannot listen there. uvicorn would report that after everything has started."""
    try:
        infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, protocol, _, address in infos:
            with socket.socket(family, kind, protocol) as probe:
                if sys.platform != "win32":  # the option has another meaning there
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(address)
    except OSError as error:
        if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
            raise SettingsError(
                f"LLM_PLATFORM_HOST {host} is not an address of this machine. Example: LLM_PLATFORM_HOST=127.0.0.1"
            ) from None
        raise SettingsError(
            f"LLM_PLATFORM_PORT {port} is not available on {host} ({error.strerror}): choose another port with --port. "
            f"Example: LLM_PLATFORM_PORT={EXAMPLE_PORT}"
        ) from None


class DrainingServer(uvicorn.Server):
    """Drains before it stops listening, also when it stops without a signal (`should_exit`)."""

    def __init__(self, config: uvicorn.Config, state: ServerState, drain_timeout_s: float) -> None:
        super().__init__(config)
        self._state = state
        self._drain_timeout_s = drain_timeout_s

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if not self.force_exit:
            await self._state.requests.drain(self._drain_timeout_s)
        await super().shutdown(sockets)
