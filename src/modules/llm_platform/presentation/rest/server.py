"""Run this application with uvicorn, and drain requests before shutdown."""

from __future__ import annotations

import errno
import socket
import sys
from collections.abc import Callable

import uvicorn

from modules.llm_platform.application.platform import LLMPlatform
from modules.llm_platform.presentation.garbage_collection import tune_gc
from modules.llm_platform.presentation.rest.app import create_app
from modules.llm_platform.presentation.rest.http.connection import HttpConnection
from modules.llm_platform.presentation.rest.http.server_state import ServerState
from shared.config import Settings, SettingsError

CANCELLATION_GRACE_S = 1  # time after the drain for cancelled requests to end


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
        http=HttpConnection,
        proxy_headers=False,  # uvicorn trusts forwarded addresses from any local process by default
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
            f"Example: LLM_PLATFORM_PORT=8001"
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
