"""Request ids: callers may choose them (`X-Request-ID`) and send them back, so each is checked before a store is asked for it.

A text that can be no id is the id of nothing. PostgreSQL, for one, refuses a NUL.
"""

import re
import secrets
from typing import Final

REQUEST_ID_PATTERN: Final = r"^[\x20-\x7e]{1,128}$"
_REQUEST_ID: Final = re.compile(REQUEST_ID_PATTERN)


def new_request_id() -> str:
    """Return an identifier that cannot be guessed: it gives access to the stored sources."""
    return secrets.token_hex(16)


def is_request_id(text: str) -> bool:
    """Return whether a request can have this id."""
    return _REQUEST_ID.fullmatch(text) is not None
