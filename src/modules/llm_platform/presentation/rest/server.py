"""uvicorn for this application: no trust in forwarded addresses, and /ready goes first when the server stops."""

from __future__ import annotations

import asyncio
import errno
import socket
import sys
from collections.abc import Callable

import uvicorn

from modules.llm_platform.application.platform import LLMPlatform
from modules.llm_platform.presentation.rest.app import create_app
from modules.llm_platform.presentation.rest.door import Door
from modules.llm_platform.presentation.rest.heap import settle_heap
from modules.llm_platform.presentation.rest.wire import Wire
from shared.config import LOOPBACK_HOSTS, Settings, SettingsError

LAST_WORDS_S = 1  # after the drain: what still runs is cancelled and may say so
TICK_S = 0.05
EXAMPLE_PORT = 8001


def serve(platform: LLMPlatform | Callable[[], LLMPlatform], settings: Settings) -> None:
    """Serve until a signal comes. SettingsError when the address is open to others and no key is set, or is taken."""
    refuse_open_house(settings)
    check_address(settings.LLM_PLATFORM_HOST, settings.LLM_PLATFORM_PORT)
    server = make_server(platform, settings)
    settle_heap()
    server.run()


def make_server(platform: LLMPlatform | Callable[[], LLMPlatform], settings: Settings) -> DrainingServer:
    """The server, not yet started."""
    app = create_app(platform, settings)
    config = uvicorn.Config(
        app,
        host=settings.LLM_PLATFORM_HOST,
        port=settings.LLM_PLATFORM_PORT,
        http=Wire,
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

    def __init__(self, config: uvicorn.Config, door: Door, drain_s: float) -> None:
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
