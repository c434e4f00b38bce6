"""What can go wrong with an upstream, and which of our errors that is: one table for every adapter.

Nothing that an upstream sent goes into a message.
"""

from __future__ import annotations

import re
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Final, Literal, NamedTuple

import httpx2

from modules.llm_platform.domain.exceptions import (
    WebSearchBlockedError,
    WebSearchConfigError,
    WebSearchConnectionError,
    WebSearchError,
    WebSearchTimeoutError,
)
from shared.exceptions import AppException

MAX_RETRY_AFTER_S: Final = 24 * 3600.0

Kind = Literal["config", "connection", "timeout", "blocked", "error"]


class Rule(NamedTuple):
    """What a status means: the kind of error, and words to follow the upstream's name; `{setting}` is its address's."""

    kind: Kind
    words: str


@dataclass(frozen=True, slots=True)
class ErrorFamily:
    """The errors of one sort of upstream, by kind."""

    config: type[AppException]
    connection: type[AppException]
    timeout: type[AppException]
    blocked: type[AppException]
    error: type[AppException]

    def of(self, kind: Kind) -> type[AppException]:
        """The error class of a kind."""
        found: type[AppException] = getattr(self, kind)
        return found


WEB_SEARCH_ERRORS: Final = ErrorFamily(
    config=WebSearchConfigError,
    connection=WebSearchConnectionError,
    timeout=WebSearchTimeoutError,
    blocked=WebSearchBlockedError,
    error=WebSearchError,
)

STATUS_RULES: Final[Mapping[int, Rule]] = {
    204: Rule("error", "answered without a body (204)"),
    401: Rule("config", "does not accept our credentials (401)"),
    402: Rule("blocked", "wants to be paid first (402): its quota is used up"),
    403: Rule("config", "refuses us access (403): check its key and {setting}"),
    404: Rule("config", "does not know this address (404): check {setting}"),
    407: Rule("config", "cannot be reached: the proxy wants credentials (407); check UPSTREAM_PROXY"),
    408: Rule("timeout", "gave up waiting (408)"),
    429: Rule("blocked", "says that we ask too often (429)"),
}
REDIRECT: Final = Rule("config", "redirects to another address: set {setting} to the one that it redirects to")
NOT_OK: Final = Rule("error", "answered with an error")
WEB_PAGE: Final = Rule("error", "answered with a web page instead of JSON: check {setting}")
NO_ADDRESS: Final = Rule("config", "has no usable address: check {setting}")
NO_JSON: Final = Rule("error", "answered with something that is no JSON object")

# Most specific first.
TRANSPORT_RULES: Final[tuple[tuple[tuple[type[Exception], ...], Rule], ...]] = (
    ((TimeoutError, httpx2.TimeoutException), Rule("timeout", "did not answer in time")),
    ((httpx2.InvalidURL, httpx2.UnsupportedProtocol), NO_ADDRESS),
    ((httpx2.LocalProtocolError,), Rule("config", "has a key or address with characters that HTTP does not allow")),
    ((httpx2.ProxyError,), Rule("connection", "cannot be reached through the proxy: check UPSTREAM_PROXY")),
    ((httpx2.ConnectError,), Rule("connection", "cannot be reached: nothing answers at {setting}; is it running?")),
    ((httpx2.DecodingError,), Rule("error", "sent a body that cannot be decompressed")),
    ((httpx2.HTTPError, httpx2.StreamError, OSError), Rule("connection", "broke off the connection")),
)
# What lies below a ConnectError tells more.
CONNECT_RULES: Final[tuple[tuple[type[Exception], Rule], ...]] = (
    (socket.gaierror, Rule("connection", "cannot be reached: its name cannot be resolved; check {setting}")),
    (ssl.SSLError, Rule("connection", "cannot be reached: no TLS connection; check its certificate and {setting}")),
)
TRANSPORT_ERRORS: Final = tuple(kind for kinds, _ in TRANSPORT_RULES for kind in kinds)
_SECONDS = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,6})?")


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """The wait in seconds that `Retry-After` asks for, as seconds or date: 0 to a day, None when it says nothing."""
    value = headers.get("retry-after", "").strip()
    if _SECONDS.fullmatch(value):
        return min(float(value), MAX_RETRY_AFTER_S)
    try:
        wait = parsedate_to_datetime(value).timestamp() - time.time()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return min(max(wait, 0.0), MAX_RETRY_AFTER_S)


def rule_of(error: Exception) -> Rule:
    """What one of TRANSPORT_ERRORS means."""
    if isinstance(error, httpx2.ConnectError):
        for cause in _causes(error):
            for kind, rule in CONNECT_RULES:
                if isinstance(cause, kind):
                    return rule
    return next(rule for kinds, rule in TRANSPORT_RULES if isinstance(error, kinds))


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    for _ in range(10):  # chains can be circular
        if cause is None:
            return
        yield cause
        cause = cause.__cause__ or cause.__context__
