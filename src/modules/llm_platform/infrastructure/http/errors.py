"""One table for every adapter: the error that each status and transport failure of an upstream becomes.

Messages contain nothing that an upstream sent.
"""

import re
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final, Literal, NamedTuple

import httpx2

from modules.llm_platform.domain import exceptions
from shared.exceptions import AppException

MAX_RETRY_AFTER_S: Final = 24 * 3600.0

ErrorKind = Literal["config", "connection", "timeout", "blocked", "error", "unavailable"]


class Rule(NamedTuple):
    """A kind of error, and its message after the upstream's name. `{setting}` stands for the setting of its address."""

    kind: ErrorKind
    message: str


@dataclass(frozen=True, slots=True)
class ErrorFamily:
    """The error classes of one port, by kind. `unavailable` is the class for an answer with 5xx, or None."""

    config: type[AppException]
    connection: type[AppException]
    timeout: type[AppException]
    blocked: type[AppException]
    error: type[AppException]
    unavailable: type[AppException] | None = None

    def of(self, kind: ErrorKind) -> type[AppException]:
        error_class: type[AppException] | None = getattr(self, kind)
        return error_class or self.error


WEB_SEARCH_ERRORS: Final = ErrorFamily(
    config=exceptions.WebSearchConfigError,
    connection=exceptions.WebSearchConnectionError,
    timeout=exceptions.WebSearchTimeoutError,
    blocked=exceptions.WebSearchBlockedError,
    error=exceptions.WebSearchError,
    unavailable=exceptions.WebSearchUnavailableError,
)

STATUS_RULES: Final[Mapping[int, Rule]] = {
    204: Rule("error", "answered without a body (204): check {setting}"),
    401: Rule("config", "does not accept the credentials (401): check its key or login, and {setting}"),
    402: Rule("blocked", "requires payment (402): its quota is used up"),
    403: Rule("config", "denies access (403): check its key and {setting}"),
    404: Rule("config", "does not know this address (404): check {setting}"),
    407: Rule("config", "cannot be reached: the proxy requires credentials (407); check UPSTREAM_PROXY"),
    408: Rule("timeout", "timed out (408)"),
    429: Rule("blocked", "refuses more requests for now (429)"),
}
REDIRECT: Final = Rule("config", "redirects to another address: set {setting} to that address")
NOT_OK: Final = Rule("error", "answered with an error")
UNAVAILABLE: Final = Rule("unavailable", NOT_OK.message)  # 5xx
WEB_PAGE: Final = Rule("error", "answered with a web page instead of JSON: check {setting}")
NO_ADDRESS: Final = Rule("config", "has no usable address: check {setting}")
NO_JSON: Final = Rule("error", "answered with something other than a JSON object: check {setting}")
NO_RESULTS: Final = Rule("error", "answered without results: check {setting}")

# Most specific first.
TRANSPORT_RULES: Final[tuple[tuple[tuple[type[Exception], ...], Rule], ...]] = (
    ((TimeoutError, httpx2.TimeoutException), Rule("timeout", "did not answer in time: try again")),
    ((httpx2.InvalidURL, httpx2.UnsupportedProtocol), NO_ADDRESS),
    (
        (httpx2.LocalProtocolError,),
        Rule("config", "has a key or address with characters that HTTP does not allow: check its key and {setting}"),
    ),
    ((httpx2.ProxyError,), Rule("connection", "cannot be reached through the proxy: check UPSTREAM_PROXY")),
    ((httpx2.ConnectError,), Rule("connection", "cannot be reached: nothing answers at {setting}; is it running?")),
    ((httpx2.DecodingError,), Rule("error", "sent a body that cannot be decompressed")),
    (
        (httpx2.HTTPError, httpx2.StreamError, OSError),
        Rule("connection", "closed the connection unexpectedly: try again"),
    ),
)
# The cause of a ConnectError is more specific.
CONNECT_RULES: Final[tuple[tuple[type[Exception], Rule], ...]] = (
    (socket.gaierror, Rule("connection", "cannot be reached: its name cannot be resolved; check {setting}")),
    (ssl.SSLError, Rule("connection", "cannot be reached: no TLS connection; check its certificate and {setting}")),
)
TRANSPORT_ERRORS: Final = tuple(kind for kinds, _ in TRANSPORT_RULES for kind in kinds)
_SECONDS = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,6})?")


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return the wait in seconds of `Retry-After` (seconds or a date), 0 to a day, or None without a valid one."""
    value = headers.get("retry-after", "").strip()
    if _SECONDS.fullmatch(value):
        return min(float(value), MAX_RETRY_AFTER_S)
    try:
        at = parsedate_to_datetime(value)
        # A date without a zone, as asctime writes it, is in UTC (RFC 9110 5.6.7).
        wait = (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() - time.time()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return min(max(wait, 0.0), MAX_RETRY_AFTER_S)


def is_unreachable(error: Exception) -> bool:
    """Return whether no connection was made, unless it failed at TLS: with a proxy, only TLS is spoken with the upstream."""
    is_tls = any(isinstance(cause, ssl.SSLError) for cause in _causes(error))
    return isinstance(error, httpx2.ConnectError) and not is_tls


def find_rule(error: Exception) -> Rule:
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
