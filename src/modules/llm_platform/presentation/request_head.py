"""Checks of the head of an HTTP request, on every port that this package listens on.

The limits hold while the head arrives: a client without an API key could otherwise fill the memory with a head that never ends.
"""

from http import HTTPStatus
from ipaddress import ip_address
from typing import Final

MAX_ADDRESS_BYTES: Final = 16 * 1024  # path and query
MAX_HEADERS_BYTES: Final = 64 * 1024  # names and values, with what separates them
MAX_HEADERS: Final = 100
REQUEST_HEAD_BYTES: Final = MAX_ADDRESS_BYTES + MAX_HEADERS_BYTES
HEADER_SEPARATORS_BYTES: Final = 4  # colon, space and the end of the line


def find_refused_status(head: bytes) -> HTTPStatus | None:
    """Return 414 or 431 if what has arrived of a request line and headers exceeds the limits."""
    request_line, _, headers = head.partition(b"\n")
    address = request_line.partition(b" ")[2].partition(b" ")[0]
    if len(address) > MAX_ADDRESS_BYTES:
        return HTTPStatus.REQUEST_URI_TOO_LONG
    if (
        len(headers) > MAX_HEADERS_BYTES
        or len(head) > REQUEST_HEAD_BYTES
        or headers.strip().count(b"\n") >= MAX_HEADERS
    ):
        return HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
    return None


def get_host_name(host: bytes) -> str:
    """Return a Host header in small letters without port and brackets: `[::1]:8000` gives `::1`."""
    text = host.decode("latin-1").strip().lower()
    return text[1:].partition("]")[0] if text.startswith("[") else text.partition(":")[0]


def is_safe_from_rebinding(host: bytes) -> bool:
    """Return whether the Host can have no public DNS entry: IP addresses, localhost, and names without a dot."""
    name = get_host_name(host)
    if "." not in name.rstrip(".") and ":" not in name:
        return True
    if name.endswith(".localhost"):
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
