"""Decode JSON from outside tolerantly, and return its fields by type.

A wrong charset, a byte order mark, NaN, raw line breaks and lone surrogates are accepted. Truncated or too deeply nested JSON
is a ValueError.
"""

import codecs
import json
import math
import re
import sys
from collections.abc import Callable
from typing import Any, Final

from pydantic_core import from_json

UNTRUSTED_TEXT_CHARS: Final = 20_000  # longest text: ten times the longest summary of a search
UNTRUSTED_LINE_CHARS: Final = 1000
DEPTH_ERROR: Final = "recursion limit"  # in the fast parser's error for more than 200 levels

_SURROGATES = re.compile(
    r"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)
_LONE_CHARS = 6  # length of `\ud83d`, a surrogate without its other half


def decode_json(body: bytes, charset: Callable[[], str | None], *, finite: bool = False) -> Any:
    """Return the value of a JSON body. Raises ValueError for any other body.

    `charset` returns the declared charset and is only called for a body that is not plain JSON in UTF-8. With `finite`,
    numbers beyond a float's range become None, as NaN always does, so that the value can be sent on as strict JSON.
    """
    try:
        value = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        if DEPTH_ERROR in str(error):
            raise
        return _decode_tolerantly(decode_text(body, charset()))
    return _TOLERANT.decode(body.decode()) if finite else value


def decode_text(body: bytes, charset: str | None = None) -> str:
    """Return the body as UTF-8 if it is valid, else in the declared charset, else as UTF-8 with replacement characters."""
    for candidate in ("utf-8-sig", charset):
        try:
            return body.decode(codecs.lookup(candidate).name) if candidate else body.decode(errors="replace")
        except (UnicodeError, LookupError, ValueError):
            continue
    return body.decode(errors="replace")


def _decode_tolerantly(text: str) -> Any:
    try:
        return _TOLERANT.decode(_SURROGATES.sub(_replace_lone, text))
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _replace_lone(match: re.Match[str]) -> str:
    return "\\ufffd" if len(match[0]) == _LONE_CHARS else match[0]


def _parse_finite(number: str) -> float | None:
    value = float(number)
    return value if math.isfinite(value) else None


_TOLERANT = json.JSONDecoder(parse_float=_parse_finite, parse_constant=lambda _: None, strict=False)


def read_text(value: Any, limit: int = UNTRUSTED_TEXT_CHARS) -> str:
    """Return the first `limit` characters of a string, or an empty string for any other value."""
    if not isinstance(value, str):
        return ""
    return value if len(value) <= limit else value[:limit]


def read_line(value: Any) -> str:
    """Return the first UNTRUSTED_LINE_CHARS characters of a string, on one line and with single spaces."""
    return " ".join(read_text(value, UNTRUSTED_LINE_CHARS).split())


def read_number(value: Any) -> float | None:
    """Return a finite number as a float, or None for any other value."""
    if type(value) is int and abs(value) <= sys.float_info.max:  # excludes bool
        value = float(value)
    return value if isinstance(value, float) and math.isfinite(value) else None


def read_list(value: Any) -> list[Any]:
    """Return the value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def read_dict(value: Any) -> dict[str, Any]:
    """Return the value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}
