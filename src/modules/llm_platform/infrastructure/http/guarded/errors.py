"""Statuses and transport failures of pages as page errors. Messages repeat nothing that a server sent."""

from collections.abc import Mapping
from typing import Final

import httpcore2
import httpx2

from modules.llm_platform.domain import exceptions
from modules.llm_platform.infrastructure.http.errors import ErrorFamily
from shared.exceptions import AppException

PAGE_ERRORS: Final = ErrorFamily(
    config=exceptions.PageConfigError,
    connection=exceptions.PageConnectionError,
    timeout=exceptions.PageTimeoutError,
    blocked=exceptions.PageBlockedError,
    error=exceptions.PageError,
)

STATUSES: Final[Mapping[int, tuple[type[AppException], str]]] = {
    204: (exceptions.PageError, "The page is empty (204)"),
    205: (exceptions.PageError, "The page is empty (205)"),
    206: (exceptions.PageError, "The server sent only a part of the page (206)"),
    401: (exceptions.PageBlockedError, "The page requires a login (401)"),
    402: (exceptions.PageBlockedError, "The page requires a payment (402)"),
    403: (exceptions.PageBlockedError, "The server refuses the page (403)"),
    404: (exceptions.PageNotFoundError, "There is no such page (404)"),
    407: (exceptions.PageBlockedError, "The page requires a login (407)"),
    408: (exceptions.PageTimeoutError, "The server timed out (408)"),
    410: (exceptions.PageNotFoundError, "The page is gone (410)"),
    429: (exceptions.PageBlockedError, "The server limits the rate of requests (429)"),
    451: (exceptions.PageBlockedError, "The page is withheld for legal reasons (451)"),
    503: (exceptions.PageBlockedError, "The server is unavailable (503)"),
    504: (exceptions.PageTimeoutError, "The server's upstream timed out (504)"),
    999: (exceptions.PageBlockedError, "The server refuses the page (999)"),  # LinkedIn's answer to programs
}
# Most specific first.
TRANSPORT: Final[tuple[tuple[type[Exception], type[AppException], str], ...]] = (
    (httpcore2.TimeoutException, exceptions.PageTimeoutError, "The page's server did not answer in time"),
    (httpcore2.NetworkError, exceptions.PageConnectionError, "The page's server closed the connection"),
    (
        httpcore2.ProtocolError,
        exceptions.PageError,
        "The page's server does not speak HTTP, or sends a head that is too large",
    ),
    (httpx2.DecodingError, exceptions.PageError, "The page cannot be decompressed"),
)
TRANSPORT_ERRORS: Final = tuple(kind for kind, _, _ in TRANSPORT)


def make_transport_error(error: Exception) -> AppException:
    return next(page_error(message) for kind, page_error, message in TRANSPORT if isinstance(error, kind))


def make_status_error(status: int, retry_after_s: float | None = None) -> AppException | None:
    """Return the page error for a status, or None for a page. Redirects were followed before."""
    if status in STATUSES:
        kind, message = STATUSES[status]
        return kind(message, retry_after_s=retry_after_s)
    if status // 100 == 2:
        return None
    return exceptions.PageError(f"The page's server answers with an error ({status})")
