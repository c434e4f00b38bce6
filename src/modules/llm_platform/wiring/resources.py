"""What the parts of a platform share while they are built: clients, secrets to redact, the data folder."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from modules.llm_platform.domain.redaction import Redactor
from shared.config import LOOPBACK_HOSTS, Settings

if TYPE_CHECKING:
    import httpx2

APP_NAME = "llm-platform"  # of the user's data folder


class Resources:
    """What is opened must be closed, and what is secret must be known to all who read from outside."""

    def __init__(self, settings: Settings) -> None:
        self.redactor = Redactor(settings.secrets())
        self._proxy = settings.UPSTREAM_PROXY
        self._stack = AsyncExitStack()

    def client(self, base_url: str, timeout_s: float, **options: Any) -> httpx2.AsyncClient:
        """One pooled client for one upstream, closed with the platform. Configured addresses may go through the proxy."""
        from modules.llm_platform.infrastructure.http.client import make_client

        client = make_client(base_url, timeout_s, proxy=None if is_loopback(base_url) else self._proxy, **options)
        self._stack.push_async_callback(client.aclose)
        return client

    def closing(self, close: Callable[[], Awaitable[None]]) -> None:
        self._stack.push_async_callback(close)

    async def aclose(self) -> None:
        await self._stack.aclose()


def data_folder(settings: Settings) -> Path:
    """Where stores, caches and the embedded index lie; not made here."""
    from platformdirs import user_data_path

    return settings.LLM_PLATFORM_DATA_DIR or user_data_path(APP_NAME)


def is_installed(packages: Iterable[str]) -> bool:
    """Whether all these packages can be imported; none of them is."""
    return all(find_spec(name) is not None for name in packages)


def is_loopback(url: str) -> bool:
    """Whether the host of an address is this machine, by its name or its address."""
    host = urlsplit(url).hostname or ""
    try:
        return host in LOOPBACK_HOSTS or ip_address(host).is_loopback
    except ValueError:
        return False
