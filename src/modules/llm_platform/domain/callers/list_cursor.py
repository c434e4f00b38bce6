"""Where a page of a list ends: the id of its last entry, and the time by which the next page is found without that entry."""

import re
from datetime import datetime
from typing import Final, NamedTuple

_TIME: Final = re.compile(r"(.+)@(\d{1,11}\.\d{6})", re.DOTALL)


class ListCursor(NamedTuple):
    """The entry after which a list continues. `at` is the time of the entry in seconds since 1970; None if it is unknown."""

    id: str
    at: float | None


def write_cursor(entry_id: str, at: datetime) -> str:
    return f"{entry_id}@{at.timestamp():.6f}"


def parse_cursor(text: str) -> ListCursor:
    """Return the cursor of a text of `write_cursor`, or of an id alone."""
    match = _TIME.fullmatch(text)
    return ListCursor(match[1], float(match[2])) if match else ListCursor(text, None)
