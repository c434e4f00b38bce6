"""Who may speak to this server: whose pages, under which name, with which key.

A page that a loopback user visits can send requests to loopback, and a name of the page's owner can be made to point
there (DNS rebinding). So the Host must be ours, and `Origin` and `Sec-Fetch-Site`, which a page cannot forge, must not
name another site. Browsers send them; other clients do not, and pass.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from ipaddress import ip_address

from modules.llm_platform.presentation.rest.errors import ForeignSiteError, UnauthorizedError, UnknownHostError
from shared.config import LOOPBACK_HOSTS, Settings

OPEN_PATHS = frozenset({"/health", "/ready"})  # probes carry neither a key nor a name
PAGES = frozenset({"/", "/docs"})  # what a person opens in a browser: no key, and a link of any site may lead there
PAGE_FILES = "/docs/"  # what these pages load: no key
OWN_SITE = frozenset({b"same-origin", b"none"})  # none: typed into the address bar

Headers = Mapping[bytes, bytes]


class Sites:
    """The rules that the settings make, as bytes that headers are compared with."""

    def __init__(self, settings: Settings) -> None:
        self._origins = frozenset(origin.rstrip("/").lower().encode() for origin in settings.CORS_ORIGINS)
        self._hosts = frozenset(host.lower() for host in settings.ALLOWED_HOSTS)
        self._any_host = "*" in self._hosts or (not self._hosts and settings.LLM_PLATFORM_HOST not in LOOPBACK_HOSTS)
        self._keys = tuple(key.get_secret_value().encode() for key in settings.LLM_PLATFORM_API_KEYS)
        self._own: dict[bytes, bool] = {}

    def invited(self, origin: bytes | None) -> bool:
        """Whether CORS_ORIGINS names this origin (`*` names all but the opaque `null`)."""
        if not self._origins or origin is None or origin == b"null":
            return False
        return b"*" in self._origins or origin.lower() in self._origins

    def check(self, path: str, headers: Headers) -> None:
        """Raise what is wrong with the sender; a preflight of an invited page is the guard's to answer."""
        self.check_page(path, headers)
        if self._keys and not _is_open(path) and not self._has_key(headers):
            raise UnauthorizedError

    def check_page(self, path: str, headers: Headers) -> None:
        """The Host is ours, and no foreign page sent this."""
        host = headers.get(b"host", b"")
        if path not in OPEN_PATHS and not self._answers_to(host):
            raise UnknownHostError
        origin = headers.get(b"origin")
        if origin is not None and self.invited(origin):
            return
        if origin is not None and origin.lower().partition(b"://")[2] != host.lower():
            raise ForeignSiteError
        if headers.get(b"sec-fetch-site", b"none").lower() not in OWN_SITE and not _follows_a_link(path, headers):
            raise ForeignSiteError

    def _answers_to(self, host: bytes) -> bool:
        if self._any_host or not host:  # a browser always sends one
            return True
        if host not in self._own:
            if len(self._own) > 100:  # whoever sends many different ones gets no memory for it
                self._own.clear()
            self._own[host] = self._is_ours(_name(host.decode("latin-1").lower()))
        return self._own[host]

    def _is_ours(self, name: str) -> bool:
        if self._hosts:
            return name in self._hosts or any(h.startswith("*.") and name.endswith(h[1:]) for h in self._hosts)
        return _cannot_be_rebound(name)

    def _has_key(self, headers: Headers) -> bool:
        scheme, _, bearer = headers.get(b"authorization", b"").partition(b" ")
        offered = [headers.get(b"x-api-key", b"")]
        if scheme.lower() == b"bearer":
            offered.append(bearer.strip())
        # Every key is compared, each in constant time, so the time taken tells nothing.
        return sum(hmac.compare_digest(key, offer) for key in self._keys for offer in offered) > 0


def _is_open(path: str) -> bool:
    """Whether no key is wanted: for the probes, and for the page with its files, which say nothing of what is served."""
    return path in OPEN_PATHS or path in PAGES or path.startswith(PAGE_FILES)


def _follows_a_link(path: str, headers: Headers) -> bool:
    """Whether a person came to one of our pages from another site's. No page can send this mode by a script."""
    return path in PAGES and headers.get(b"sec-fetch-mode") == b"navigate"


def _name(host: str) -> str:
    """`[::1]:8000` gives `::1`, `localhost:8000` gives `localhost`."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _cannot_be_rebound(name: str) -> bool:
    """Addresses, localhost, and names without a dot: no stranger owns a public DNS entry for them."""
    if "." not in name.rstrip(".") and ":" not in name:
        return True
    if name.endswith(".localhost"):
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
