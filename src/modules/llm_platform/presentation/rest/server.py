"""uvicorn for this application: no trust in forwarded addresses, and /ready goes first when the server stops."""

from __future__ import annotations

import asyncio
import errno
import gc
import re
import socket
import sys
import uuid
from collections.abc import Callable
from http import HTTPStatus
from typing import Final

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from modules.llm_platform.application.platform import LLMPlatform
from modules.llm_platform.presentation.rest.app import create_app
from modules.llm_platform.presentation.rest.problems import (
    REQUEST_ID,
    BadRequestError,
    HeadTimeoutError,
    RestError,
    problem_response,
)
from modules.llm_platform.presentation.rest.responses import ServerState
from shared.config import LOOPBACK_HOSTS, Settings, SettingsError

# HTTP/1.1 as uvicorn speaks it, with three words of our own.
# What cannot be read as HTTP is refused as a problem, like every other error. A head that does not come to its end is
# not waited for. And an offer to upgrade is passed over (RFC 9110, 7.8): there is nothing to upgrade to, and the parser
# would take the body of such a request (Java's client sends one with every POST) for the other protocol's first bytes.


HEAD_TIMEOUT_S = 8.0  # from the first byte of a request, or from the connection's beginning, to the end of its head
_UPGRADE = re.compile(rb"\r\nupgrade:[^\r\n]*", re.IGNORECASE)


class HttpProtocol(HttpToolsProtocol):
    """One connection."""

    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._wait_no_longer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if b"pgrade" in data and not self._is_answering():
            head, end, body = data.partition(b"\r\n\r\n")
            data = _UPGRADE.sub(b"", head) + end + body
        super().data_received(data)

    def on_message_begin(self) -> None:
        if self._waiting is None:
            self._wait()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._wait_no_longer()
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        self._refuse(BadRequestError())

    def _wait(self) -> None:
        self._waiting = self.loop.call_later(HEAD_TIMEOUT_S, self._give_up)

    def _wait_no_longer(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _give_up(self) -> None:
        if self.headers is None:  # not a word so far: browsers open connections ahead of need
            self.transport.close()
        elif self._is_answering():
            self._wait()  # an answer is under way; what was begun behind it can wait as long
        else:
            self._refuse(HeadTimeoutError())

    def _refuse(self, error: RestError) -> None:
        """The last word on this connection; none where an answer is half-way out."""
        self._wait_no_longer()
        if self.transport.is_closing():
            return
        if not self._is_answering() or not self.cycle.response_started:
            self.transport.write(_as_bytes(error))
        self.transport.close()

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete


def _as_bytes(error: RestError) -> bytes:
    name = uuid.uuid4().hex
    answer = problem_response(error, {"path": "/", REQUEST_ID: name})
    lines = [*answer.raw_headers, (b"connection", b"close"), (b"x-request-id", name.encode())]
    status = f"HTTP/1.1 {error.status_code} {HTTPStatus(error.status_code).phrase}\r\n".encode()
    return status + b"".join(b"%b: %b\r\n" % line for line in lines) + b"\r\n" + bytes(answer.body)


# How the garbage collector treats a process that does nothing but serve.


YOUNG_OBJECTS: Final = 50_000  # made between two looks at the young ones; a research makes some 10,000
LOOKS_BEFORE_OLDER: Final = 20  # at one generation before the next one is looked at


def tune_gc() -> None:
    """Take what is loaded out of the collector's sight, and let it look less often.

    The modules of a server are half a million objects that live as long as it does; looking through them again and again
    was a fifth of the CPU of a research at fifty clients. Only for a process of our own: the settings are the process's.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, LOOKS_BEFORE_OLDER, LOOKS_BEFORE_OLDER)


LAST_WORDS_S = 1  # after the drain: what still runs is cancelled and may say so
TICK_S = 0.05
EXAMPLE_PORT = 8001


def serve(platform: LLMPlatform | Callable[[], LLMPlatform], settings: Settings) -> None:
    """Serve until a signal comes. SettingsError when the address is open to others and no key is set, or is taken."""
    refuse_open_house(settings)
    check_address(settings.LLM_PLATFORM_HOST, settings.LLM_PLATFORM_PORT)
    server = make_server(platform, settings)
    tune_gc()
    server.run()


def make_server(platform: LLMPlatform | Callable[[], LLMPlatform], settings: Settings) -> DrainingServer:
    """The server, not yet started."""
    app = create_app(platform, settings)
    config = uvicorn.Config(
        app,
        host=settings.LLM_PLATFORM_HOST,
        port=settings.LLM_PLATFORM_PORT,
        http=HttpProtocol,
        proxy_headers=False,  # by default uvicorn believes what any local process says about the client
        server_header=False,
        access_log=False,
        log_config=None,
        lifespan="on",
        ws="none",
        timeout_graceful_shutdown=LAST_WORDS_S,
    )
    return DrainingServer(config, app.state.door, settings.DRAIN_TIMEOUT_S)


def refuse_open_house(settings: Settings) -> None:
    """Whoever can reach the server can spend the owner's money: beyond loopback a key is needed."""
    if settings.LLM_PLATFORM_HOST not in LOOPBACK_HOSTS and not settings.LLM_PLATFORM_API_KEYS:
        raise SettingsError(
            "LLM_PLATFORM_HOST is not a loopback address, so others could use this server: set LLM_PLATFORM_API_KEYS, "
            "or listen on 127.0.0.1. Example: LLM_PLATFORM_API_KEYS=a-long-random-word"
        )


def check_address(host: str, port: int) -> None:
    """SettingsError when nothing can listen there; uvicorn would start everything first, and end with its own code."""
    try:
        places = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, protocol, _, address in places:
            with socket.socket(family, kind, protocol) as probe:
                if sys.platform != "win32":  # there it would mean something else
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(address)
    except OSError as error:
        if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
            raise SettingsError(
                f"LLM_PLATFORM_HOST {host} is no address of this machine. Example: LLM_PLATFORM_HOST=127.0.0.1"
            ) from None
        raise SettingsError(
            f"LLM_PLATFORM_PORT {port} of {host} cannot be listened on ({error.strerror}): choose another with --port. "
            f"Example: LLM_PLATFORM_PORT={EXAMPLE_PORT}"
        ) from None


class DrainingServer(uvicorn.Server):
    """Says "not ready" first, while it still listens, and closes when the requests under way are answered.

    A load balancer learns from /ready that it must send nothing more; uvicorn alone would refuse its question.
    """

    def __init__(self, config: uvicorn.Config, door: ServerState, drain_s: float) -> None:
        super().__init__(config)
        self._door = door
        self._drain_s = drain_s

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._door.draining = True
        try:
            async with asyncio.timeout(self._drain_s):
                while self.server_state.tasks and not self.force_exit:  # noqa: ASYNC110  uvicorn has no event for it
                    await asyncio.sleep(TICK_S)
        except TimeoutError:
            pass  # what still runs is cancelled now
        await super().shutdown(sockets)
