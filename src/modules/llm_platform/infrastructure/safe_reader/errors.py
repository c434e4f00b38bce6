"""What can go wrong with a page, and which of our errors that is. Nothing that a page or its server sent is repeated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import httpcore2
import httpx2

from modules.llm_platform.domain.exceptions import (
    PageBlockedError,
    PageConfigError,
    PageConnectionError,
    PageError,
    PageTimeoutError,
)
from modules.llm_platform.infrastructure.http.errors import ErrorFamily
from shared.exceptions import AppException

PAGE_ERRORS: Final = ErrorFamily(
    config=PageConfigError,
    connection=PageConnectionError,
    timeout=PageTimeoutError,
    blocked=PageBlockedError,
    error=PageError,
)

STATUSES: Final[Mapping[int, tuple[type[AppException], str]]] = {
    204: (PageError, "The page is empty (204)"),
    205: (PageError, "The page is empty (205)"),
    206: (PageError, "The server sent a part of the page that nobody asked for (206)"),
    401: (PageBlockedError, "The page wants a login (401)"),
    402: (PageBlockedError, "The page wants to be paid (402)"),
    403: (PageBlockedError, "The page is not shown to us (403)"),
    404: (PageError, "There is no such page (404)"),
    407: (PageBlockedError, "The page wants a login (407)"),
    408: (PageTimeoutError, "The server gave up waiting (408)"),
    410: (PageError, "The page is gone (410)"),
    429: (PageBlockedError, "The server says that we ask too often (429)"),
    451: (PageBlockedError, "The page is withheld for legal reasons (451)"),
    503: (PageBlockedError, "The server does not serve us now (503)"),
    504: (PageTimeoutError, "The server waited for another one in vain (504)"),
    999: (PageBlockedError, "The page is not shown to us (999)"),  # what a large network answers to programs
}
# Most specific first.
TRANSPORT: Final[tuple[tuple[type[Exception], type[AppException], str], ...]] = (
    (httpcore2.TimeoutException, PageTimeoutError, "The page's server did not answer in time"),
    (httpcore2.NetworkError, PageConnectionError, "The page's server broke off the connection"),
    (httpcore2.ProtocolError, PageError, "The page's server does not speak HTTP, or sends a head that is too large"),
    (httpx2.DecodingError, PageError, "The page cannot be decompressed"),
)
TRANSPORT_ERRORS: Final = tuple(kind for kind, _, _ in TRANSPORT)


def of_transport(error: Exception) -> AppException:
    """What one of TRANSPORT_ERRORS means."""
    return next(ours(words) for kind, ours, words in TRANSPORT if isinstance(error, kind))


def of_status(status: int, retry_after_s: float | None = None) -> AppException | None:
    """What a status means; None when it brings a page. (A redirect has been followed before this is asked.)"""
    if status in STATUSES:
        kind, words = STATUSES[status]
        return kind(words, retry_after_s=retry_after_s)
    if status // 100 == 2:
        return None
    return PageError(f"The page's server answers with an error ({status})")
