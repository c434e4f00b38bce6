"""Secrets that an upstream sends back to us are taken out before anybody reads the answer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import quote, quote_plus

REDACTED: Final = "[redacted]"
MIN_SECRET_CHARS: Final = 8  # a shorter one is an ordinary word too often

# A JSON writer may spell any letter as \u0041. Letters, digits, `-` and `_` are undone first, where there are any.
_SPELLED = re.compile(rb"\\u00(?:[46][1-9a-fA-F]|[57][0-9aA]|3[0-9]|2[dD]|5[fF])")
_ESCAPED = re.compile(rb"\\(?:u00([2-7][0-9a-fA-F])|.)", re.DOTALL)  # a backslash before a backslash is text
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/=:@!$%&*,;#?|^`'()[]{} ")


class Redactor:
    """Replaces each configured secret by `[redacted]`, also where it is written for JSON or for a URL.

    Without secrets text and data come back as they are, at no cost.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        kept = {secret for secret in secrets if len(secret) >= MIN_SECRET_CHARS}
        self._forms = sorted({form for secret in kept for form in _forms(secret)}, key=len, reverse=True)
        self._encoded = [form.encode(errors="replace") for form in self._forms]

    def __repr__(self) -> str:
        return f"Redactor(active={bool(self._forms)})"

    def text(self, text: str) -> str:
        """The text without secrets."""
        for form in self._forms:  # one fast scan each: a pattern of alternatives takes a hundred times as long
            if form in text:
                text = text.replace(form, REDACTED)
        return text

    def data(self, data: bytes) -> bytes:
        """The same for a body in UTF-8, JSON escapes of ordinary letters included."""
        if self._encoded and b"\\u00" in data and _SPELLED.search(data):
            data = _ESCAPED.sub(_unescape, data)
        for form in self._encoded:
            if form in data:
                data = data.replace(form, REDACTED.encode())
        return data


def _forms(secret: str) -> Iterator[str]:
    yield secret
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    yield json.dumps(secret)[1:-1].replace("/", "\\/")
    yield quote(secret, safe="", errors="replace")
    yield quote_plus(secret, errors="replace")


def _unescape(match: re.Match[bytes]) -> bytes:
    code = match[1] and int(match[1], 16)
    return bytes((code,)) if code and code in _PLAIN else match[0]
