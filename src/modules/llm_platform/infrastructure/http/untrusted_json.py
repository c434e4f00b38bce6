"""JSON from outside: decoded tolerantly, refused where it could hurt us later.

A body in the wrong charset, with a byte order mark, NaN, bare line breaks or half a surrogate is read all the same;
truncated or absurdly nested JSON is a ValueError.
"""

from __future__ import annotations

import codecs
import json
import math
import re
import sys
from collections.abc import Callable
from typing import Any, Final

from pydantic_core import from_json

MAX_TEXT_CHARS: Final = 20_000  # of one text in an answer: ten times the longest summary that a search gives
MAX_DEPTH_WORDS: Final = "recursion limit"  # how the fast parser says that more than 200 levels are nested

_SURROGATES = re.compile(
    r"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)
_HALF_CHARS = 6  # of `\ud83d`, a half without its other half


def decode_json(body: bytes, charset: Callable[[], str | None], *, finite: bool = False) -> Any:
    """The value that the body holds; ValueError when it is no JSON.

    `charset` is asked, for an unusual body alone, what the sender declared. With `finite` numbers beyond a float's range
    become null, as NaN always does: the value can then be sent on as strict JSON.
    """
    try:
        value = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        if MAX_DEPTH_WORDS in str(error):
            raise
        return _decode_anyway(decode_text(body, charset()))
    return _TOLERANT.decode(body.decode()) if finite else value


def decode_text(body: bytes, charset: str | None = None) -> str:
    """The body as text: UTF-8 if it is, else the declared charset, else UTF-8 with replacement characters."""
    for candidate in ("utf-8-sig", charset):
        try:
            return body.decode(codecs.lookup(candidate).name) if candidate else body.decode(errors="replace")
        except (UnicodeError, LookupError, ValueError):
            continue
    return body.decode(errors="replace")


def _decode_anyway(text: str) -> Any:
    try:
        return _TOLERANT.decode(_SURROGATES.sub(_whole, text))
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _whole(match: re.Match[str]) -> str:
    return "\\ufffd" if len(match[0]) == _HALF_CHARS else match[0]


def _finite(number: str) -> float | None:
    value = float(number)
    return value if math.isfinite(value) else None


_TOLERANT = json.JSONDecoder(parse_float=_finite, parse_constant=lambda _: None, strict=False)


def text_of(value: Any, limit: int = MAX_TEXT_CHARS) -> str:
    """The value if it is text, no longer than `limit` characters; else an empty string."""
    if not isinstance(value, str):
        return ""
    return value if len(value) <= limit else value[:limit]


def number_of(value: Any) -> float | None:
    """The value if it is a finite number, else None."""
    if type(value) is int and abs(value) <= sys.float_info.max:  # a truth value is no number
        value = float(value)
    return value if isinstance(value, float) and math.isfinite(value) else None


def list_of(value: Any) -> list[Any]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def dict_of(value: Any) -> dict[str, Any]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}
