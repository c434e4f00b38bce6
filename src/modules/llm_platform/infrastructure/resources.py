"""The resources that the adapters of a platform share: HTTP clients, parser processes, redactor, metrics, data folder."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar
from urllib.parse import urlsplit

from modules.llm_platform.domain.package import PACKAGE
from modules.llm_platform.domain.ports.metrics import NO_METRICS, IMetrics
from modules.llm_platform.domain.privacy.redaction import Redactor
from shared.config import LOOPBACK_HOSTS, Settings, SettingsError

if TYPE_CHECKING:
    import httpx2
    from pydantic import SecretStr

    from modules.llm_platform.infrastructure.http.guarded.guard import Guard
    from modules.llm_platform.infrastructure.parsing.parser_pool import ParserPool

INDEX_FOLDER: Final = "index"  # folder below the data folder
STORE_PACKAGES: Final = ("qdrant_edge",)  # packages of the embedded index; SQLite is used without them


class _Closable(Protocol):
    async def aclose(self) -> None: ...


Closable = TypeVar("Closable", bound=_Closable)


class Resources:
    """Creates HTTP clients and closes everything with the platform. Each adapter gets `redactor` and `metrics` from here."""

    def __init__(self, settings: Settings, metrics: IMetrics = NO_METRICS) -> None:
        self.redactor = Redactor(settings.secrets())
        self.metrics = metrics
        self._proxy = settings.UPSTREAM_PROXY
        self._stack = AsyncExitStack()
        self._parsers: ParserPool | None = None
        self._is_closed = False

    def client(self, base_url: str, timeout_s: float, **options: Any) -> httpx2.AsyncClient:
        """Return a pooled client for one upstream. It uses UPSTREAM_PROXY unless the upstream is on loopback."""
        from modules.llm_platform.infrastructure.http.client import make_client

        return self.closing(
            make_client(base_url, timeout_s, proxy=None if is_loopback(base_url) else self._proxy, **options)
        )

    def parsers(self) -> ParserPool:
        """Return the processes that parse pages and files, all of them together. The first document starts one."""
        if self._parsers is None:
            from modules.llm_platform.infrastructure.parsing.parser_pool import ParserPool

            self._parsers = ParserPool()
            self._stack.callback(self._parsers.close)
        return self._parsers

    def guard(self, allowed_hosts: Iterable[str]) -> Guard:
        """Return the guard of calls to addresses that other people name. It allows these hosts within the own network."""
        from modules.llm_platform.infrastructure.http.guarded.guard import AllowedHosts, Guard, SystemResolver

        return Guard(self.closing(SystemResolver()), AllowedHosts(allowed_hosts))

    def closing(self, adapter: Closable) -> Closable:
        """Return `adapter`, which is closed with the platform."""
        self.on_close(adapter.aclose)
        return adapter

    def on_close(self, close: Callable[[], Awaitable[None]]) -> None:
        self._stack.push_async_callback(close)

    async def aclose(self) -> None:
        self._is_closed = True
        await self._stack.aclose()

    def is_closed(self) -> bool:
        return self._is_closed


def get_data_folder(settings: Settings) -> Path:
    """Return the folder of the stores and the embedded index. It may not exist yet."""
    from platformdirs import user_data_path

    return settings.LLM_PLATFORM_DATA_DIR or user_data_path(PACKAGE)


def has_index(settings: Settings) -> bool:
    """Return whether there is an index to search. Raises SettingsError if the data folder cannot be looked into."""
    if settings.QDRANT_URL is not None:
        return True
    folder = get_data_folder(settings)
    data_file = "current" if is_installed(STORE_PACKAGES) else "passages.sqlite3"
    try:
        return S_ISREG((folder / INDEX_FOLDER / settings.QDRANT_COLLECTION / data_file).stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:  # The home folder of another user, for example, as after `su` without `-`.
        reason = error.strerror or type(error).__name__
        raise SettingsError(
            f"the data folder {folder} cannot be accessed ({reason}): set LLM_PLATFORM_DATA_DIR to a folder in which this "
            "user may write"
        ) from None


def has_documents(settings: Settings) -> bool:
    """Return whether there is a folder or an index to search."""
    return settings.DOCUMENTS_DIR is not None or has_index(settings)


def reveal_secret(secret: SecretStr | None) -> str:
    return secret.get_secret_value() if secret else ""


def is_installed(packages: Iterable[str]) -> bool:
    """Return whether all packages can be imported, without importing them."""
    return all(find_spec(name) is not None for name in packages)


def is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return host in LOOPBACK_HOSTS or ip_address(host).is_loopback
    except ValueError:
        return False


def is_out_of_reach(settings: Settings, url: str) -> bool:
    """Return whether offline mode forbids the address."""
    return settings.LLM_PLATFORM_OFFLINE and not is_loopback(url)
