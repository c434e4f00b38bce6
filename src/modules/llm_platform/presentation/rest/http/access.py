"""Checks of who may call the server: Host, origin and API key."""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Awaitable, Callable, Mapping, Set
from dataclasses import dataclass
from typing import Protocol

from starlette.types import Receive, Scope

from modules.llm_platform.domain.callers.api_key_label import owner_of_label
from modules.llm_platform.presentation.request_head import get_host_name, is_safe_from_rebinding
from modules.llm_platform.presentation.rest.http import problems
from shared.config import LOOPBACK_HOSTS, Settings

PROBE_PATHS = frozenset({"/health", "/ready", "/metrics"})  # They need no API key. Probes send an address as Host.
PAGE_PATHS = frozenset({"/", "/docs"})  # A browser opens them: they need no API key, and any site may link to them.
PAGE_FILES_PREFIXES = ("/docs/", "/page/")  # The files of these pages need no API key.
# What a browser reads to install the page, and to offer it as a search engine: without an API key.
BROWSER_FILES = frozenset({"/manifest.webmanifest", "/opensearch.xml"})
# Paths without a limit, like those that need no API key. Containers ask for the health of an instance every few seconds.
UNLIMITED_PATHS = frozenset({"/openapi.json", "/searxng/healthz"})
LISTS_OF_MODELS = (
    "/v1/models",
    "/anthropic/v1/models",
    "/perplexity/v1/models",
)  # Not counted: clients ask before each call.
# POST requests that search; these, the searches of compatible APIs and GET requests are reads, which have a limit of their own.
READ_PATHS = frozenset({"/llm-platform/web-search", "/search"})
COUNTED_BY_ROUTE = frozenset({"/mcp"})  # Its route counts calls: a client sends six requests before the first one.
# Feed readers send a user name and a password (Basic), and no other header: the key is the password.
FEED_PATH = re.compile(r"/watches/[^/]+/feed\.atom")
OWN_SITE = frozenset({b"same-origin", b"none"})  # Sec-Fetch-Site; none: typed into the address bar
MAX_CACHED_HOSTS = 100

IS_LIMITED = "llm_platform.is_limited"  # Key in the ASGI scope: whether the request was counted for the rate limits.
HEADERS = "llm_platform.headers"  # Key in the ASGI scope: the headers of the request that are in READ_HEADERS.

Headers = Mapping[bytes, bytes]
FindKey = Callable[[Scope, Headers, Receive], Awaitable[tuple[bytes, Receive]]]


@dataclass(frozen=True, slots=True)
class Caller:
    """The API key of a request. `id` identifies it without revealing it. `label` names it in logs and metrics."""

    id: str
    label: str


ANONYMOUS = Caller("", "")  # No key is required.


class CompatibleApi(Protocol):
    """The API of another system (`compat`), as far as the middleware needs it."""

    @property
    def format_error(self) -> problems.ErrorFormat: ...

    @property
    def key_header(self) -> bytes: ...

    @property
    def find_key(self) -> FindKey | None: ...

    @property
    def request_id_header(self) -> bytes: ...

    @property
    def read_paths(self) -> Set[str]: ...


class Access(Protocol):
    """Decides who may call. It is an `AccessPolicy`, or `HostDecides` if the host of the routes has decided already."""

    @property
    def needs_key(self) -> bool: ...

    def allows_origin(self, origin: bytes | None) -> bool: ...

    def check(self, path: str, headers: Headers, key: bytes = b"") -> Caller: ...

    def check_origin(self, path: str, headers: Headers) -> None: ...


class HostDecides:
    """Accepts every request: the application that includes the routes has its own checks of Host, origin and caller."""

    needs_key = False

    def allows_origin(self, origin: bytes | None) -> bool:
        return False  # The host sends the headers of CORS.

    def check(self, path: str, headers: Headers, key: bytes = b"") -> Caller:
        return ANONYMOUS

    def check_origin(self, path: str, headers: Headers) -> None:
        return


class AccessPolicy:
    """Checks Host, origin and API key of a request against the settings.

    A web page that the user of a loopback server visits can send requests to it, directly or through DNS rebinding.
    Therefore the Host must be accepted, and `Origin` and `Sec-Fetch-Site`, which a page cannot forge, must not name another
    site. Clients that are not browsers do not send these two headers and pass.
    """

    def __init__(self, settings: Settings) -> None:
        self._origins = frozenset(origin.rstrip("/").lower().encode() for origin in settings.CORS_ORIGINS)
        self._hosts = frozenset(host.lower() for host in settings.ALLOWED_HOSTS)
        self._accepts_any_host = "*" in self._hosts or (
            not self._hosts and settings.LLM_PLATFORM_HOST not in LOOPBACK_HOSTS
        )
        self._keys = tuple(
            (value.encode(), _make_caller(number, key.label, key.values[0]))
            for number, key in enumerate(settings.api_keys(), 1)
            for value in key.values
        )
        self._accepted_hosts: dict[bytes, bool] = {}  # Results of earlier checks.

    def allows_origin(self, origin: bytes | None) -> bool:
        """Return whether CORS_ORIGINS allows this origin. `*` allows all except the opaque `null`."""
        if not self._origins or origin is None or origin == b"null":
            return False
        return b"*" in self._origins or origin.lower() in self._origins

    @property
    def has_one_caller(self) -> bool:
        """Return whether all requests have the same owner."""
        return len({caller.id for _, caller in self._keys}) <= 1

    @property
    def owners(self) -> tuple[str, ...]:
        """Return the owners of what is stored for all callers. The empty one owns what was stored without a key."""
        return tuple(dict.fromkeys((ANONYMOUS.id, *(caller.id for _, caller in self._keys))))

    @property
    def needs_key(self) -> bool:
        return bool(self._keys)

    def check(self, path: str, headers: Headers, key: bytes = b"") -> Caller:
        """Return the caller. Raises a RestError unless Host, origin and API key are accepted.

        `key` is an API key that the client sent elsewhere than in the headers that all routes accept.
        """
        self.check_origin(path, headers)
        if not self._keys or is_public(path):
            return ANONYMOUS
        is_feed = FEED_PATH.fullmatch(path) is not None
        caller = self._find_key(headers, key or (read_basic_password(headers) if is_feed else b""))
        if caller is None:
            raise problems.UnauthorizedError(takes_password=is_feed)
        return caller

    def check_origin(self, path: str, headers: Headers) -> None:
        """Raise a RestError unless the Host is accepted and no web page of another site sent the request."""
        host = headers.get(b"host", b"")
        if not self._accepts_host(host) and not (path in PROBE_PATHS and is_safe_from_rebinding(host)):
            raise problems.UnknownHostError
        origin = headers.get(b"origin")
        if origin is not None and self.allows_origin(origin):
            return
        if origin is not None and origin.lower().partition(b"://")[2] != host.lower():
            raise problems.CrossSiteError
        # A browser may follow a link of another site to a page. Scripts cannot set this mode.
        if headers.get(b"sec-fetch-site", b"none").lower() not in OWN_SITE and (
            path not in PAGE_PATHS or headers.get(b"sec-fetch-mode") != b"navigate"
        ):
            raise problems.CrossSiteError

    def _accepts_host(self, host: bytes) -> bool:
        if self._accepts_any_host or not host:  # Browsers always send a Host.
            return True
        if host not in self._accepted_hosts:
            if len(self._accepted_hosts) >= MAX_CACHED_HOSTS:
                self._accepted_hosts.clear()
            self._accepted_hosts[host] = self._is_named(host) if self._hosts else is_safe_from_rebinding(host)
        return self._accepted_hosts[host]

    def _is_named(self, host: bytes) -> bool:
        name = get_host_name(host)
        return name in self._hosts or any(
            pattern.startswith("*.") and name.endswith(pattern[1:]) for pattern in self._hosts
        )

    def _find_key(self, headers: Headers, key: bytes) -> Caller | None:
        scheme, _, bearer = headers.get(b"authorization", b"").partition(b" ")
        offered = [headers.get(b"x-api-key", b""), key]
        if scheme.lower() == b"bearer":
            offered.append(bearer.strip())
        # All keys are compared in constant time, so that the duration reveals nothing.
        found = [caller for value, caller in self._keys for offer in offered if hmac.compare_digest(value, offer)]
        return found[0] if found else None


def asks_for_challenge(path: str, headers: Headers) -> bool:
    """Return whether a feed is requested without a key. Feed readers send the password only after a 401."""
    return FEED_PATH.fullmatch(path) is not None and not headers.keys() & {b"authorization", b"x-api-key"}


def read_basic_password(headers: Headers) -> bytes:
    """Return the password of `Authorization: Basic`, or b""."""
    scheme, _, credentials = headers.get(b"authorization", b"").partition(b" ")
    if scheme.lower() != b"basic":
        return b""
    try:
        return base64.b64decode(credentials.strip(), validate=True).partition(b":")[2]
    except binascii.Error:
        return b""


def _make_caller(number: int, label: str | None, secret: str) -> Caller:
    """Return the caller of a key. Keys with the same label are one caller, so a key can be replaced."""
    if label is not None:
        return Caller(owner_of_label(label), label)
    return Caller(f"key:{hashlib.sha256(secret.encode()).hexdigest()}", f"key-{number}")


def is_limited(path: str) -> bool:
    """Return whether requests of a path count for the rate limits.

    Requests for the stored texts of sources do not: a page that shows an answer requests all of them at once.
    """
    is_source = path.startswith("/research/") and "/sources/" in path
    is_model = any(path == models or path.startswith(f"{models}/") for models in LISTS_OF_MODELS)
    return not (is_public(path) or path in UNLIMITED_PATHS or path in COUNTED_BY_ROUTE or is_source or is_model)


def is_public(path: str) -> bool:
    """Return whether a path needs no API key."""
    return path in PROBE_PATHS or path in PAGE_PATHS or path in BROWSER_FILES or path.startswith(PAGE_FILES_PREFIXES)


def get_route_path(scope: Scope) -> str:
    """Return the path below the one at which a host mounts the application (`root_path`)."""
    path: str = scope["path"]
    root_path: str = scope.get("root_path", "")
    if not root_path or not path.startswith(root_path):
        return path
    below = path[len(root_path) :]
    return below if below[:1] in ("", "/") else path


def get_first_segment(path: str) -> str:
    """Return `tavily` for `/tavily/search`."""
    return path[1:].partition("/")[0]
