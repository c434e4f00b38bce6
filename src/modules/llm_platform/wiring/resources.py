"""Shared resources of the wiring: HTTP clients, the redactor, the data folder."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from modules.llm_platform.domain.package import PACKAGE
from modules.llm_platform.domain.ports.metrics import NO_METRICS, IMetrics
from modules.llm_platform.domain.redaction import Redactor
from modules.llm_platform.infrastructure.limits.upstream_guard import UpstreamGuard, UpstreamKind
from modules.llm_platform.infrastructure.limits.upstream_limits import CircuitBreaker, RateLimiter, RetryBudget
from shared.config import LOOPBACK_HOSTS, Settings

if TYPE_CHECKING:
    import httpx2

    from modules.llm_platform.infrastructure.parsing.parser_pool import ParserPool

MAX_CALLS_IN_FLIGHT = 250  # to one upstream outside of reports; its HTTP client opens as many connections


@dataclass(frozen=True, slots=True)
class UpstreamState:
    """What all callers of one upstream share: its circuit, its retry budget, and the limit of concurrent calls."""

    name: str
    circuit: CircuitBreaker
    retries: RetryBudget
    calls: RateLimiter
    metrics: IMetrics

    def guard(self, kind: UpstreamKind, limiter: RateLimiter, *, has_retries: bool = True, **options: Any) -> UpstreamGuard:
        """Return the guard of those callers whose calls `limiter` limits; `options` as of UpstreamGuard."""
        retries = self.retries if has_retries else None
        return UpstreamGuard(kind, self.name, limiter, self.circuit, retries, metrics=self.metrics, **options)


UpstreamStates = Mapping[str, UpstreamState]  # by the name of the adapter


def upstream_states(names: Iterable[str], metrics: IMetrics = NO_METRICS) -> UpstreamStates:
    return {
        name: UpstreamState(
            name,
            CircuitBreaker(name, metrics=metrics),
            RetryBudget(name=name, metrics=metrics),
            RateLimiter(None, max_concurrent=MAX_CALLS_IN_FLIGHT),
            metrics,
        )
        for name in names
    }


class Resources:
    """Creates HTTP clients, closes everything with the platform, and holds the redactor."""

    def __init__(self, settings: Settings) -> None:
        self.redactor = Redactor(settings.secrets())
        self._proxy = settings.UPSTREAM_PROXY
        self._stack = AsyncExitStack()
        self._parsers: ParserPool | None = None

    def client(self, base_url: str, timeout_s: float, **options: Any) -> httpx2.AsyncClient:
        """Return a pooled client for one upstream. It uses UPSTREAM_PROXY unless the upstream is on loopback."""
        from modules.llm_platform.infrastructure.http.client import make_client

        client = make_client(base_url, timeout_s, proxy=None if is_loopback(base_url) else self._proxy, **options)
        self._stack.push_async_callback(client.aclose)
        return client

    def parsers(self) -> ParserPool:
        """Return the processes that parse pages and files, all of them together. The first document starts one."""
        if self._parsers is None:
            from modules.llm_platform.infrastructure.parsing.parser_pool import ParserPool

            self._parsers = ParserPool()
            self._stack.callback(self._parsers.close)
        return self._parsers

    def on_close(self, close: Callable[[], Awaitable[None]]) -> None:
        self._stack.push_async_callback(close)

    async def aclose(self) -> None:
        await self._stack.aclose()


def data_folder(settings: Settings) -> Path:
    """Return the folder of the stores and the embedded index. It may not exist yet."""
    from platformdirs import user_data_path

    return settings.LLM_PLATFORM_DATA_DIR or user_data_path(PACKAGE)


def is_installed(packages: Iterable[str]) -> bool:
    """Return whether all packages can be imported, without importing them."""
    return all(find_spec(name) is not None for name in packages)


def is_loopback(url: str) -> bool:
    """Return whether the host of a URL is localhost or a loopback address."""
    host = urlsplit(url).hostname or ""
    try:
        return host in LOOPBACK_HOSTS or ip_address(host).is_loopback
    except ValueError:
        return False
