"""Replace configured secrets in texts and bodies, for example in an upstream's error message that repeats a key."""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Final, Self
from urllib.parse import quote, quote_plus, unquote_to_bytes

REDACTED: Final = "[redacted]"
MIN_SECRET_CHARS: Final = 8  # a shorter one may be an ordinary word

# A JSON writer may escape any letter (\u0041). Escaped letters, digits, `-` and `_` are decoded first.
_ESCAPED_LETTER = re.compile(rb"\\u00(?:[46][1-9a-fA-F]|[57][0-9aA]|3[0-9]|2[dD]|5[fF])")
_ESCAPED = re.compile(rb"\\(?:u00([2-7][0-9a-fA-F])|.)", re.DOTALL)  # a backslash before a backslash is text
_OPEN_ESCAPE = re.compile(rb"\\(?:u[0-9a-fA-F]{0,3})?")
MAX_OPEN_ESCAPE: Final = 5  # characters of an escape without its last digit
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/=:@!$%&*,;#?|^`'()[]{} ")


class Redactor:
    """Replaces each configured secret by `[redacted]`, also where it is escaped for JSON or for a URL."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets = long_enough = {secret for secret in secrets if len(secret) >= MIN_SECRET_CHARS}
        self._forms = sorted({form for secret in long_enough for form in _forms(secret)}, key=len, reverse=True)
        self._encoded = [form.encode(errors="replace") for form in self._forms]

    def __repr__(self) -> str:
        return f"Redactor(active={bool(self._forms)})"

    @property
    def is_active(self) -> bool:
        """True if there is a secret to replace."""
        return bool(self._forms)

    def text(self, text: str) -> str:
        """Return the text with each secret replaced."""
        for form in self._forms:  # a pattern of alternatives takes a hundred times as long
            if form in text:
                text = text.replace(form, REDACTED)
        return text

    def exclude_known(self, *sent: bytes) -> Self:
        """Return the redactor for what answers a client that sent these texts, JSON or an address: its secrets without theirs.

        What a client sent comes back as sent. If it came back replaced, a client could find out a secret by guessing.
        """
        if not self._encoded:
            return self
        texts = {form for text in sent for form in (text, _ESCAPED.sub(_unescape, text), unquote_to_bytes(text))}
        guessed = {
            secret
            for secret in self._secrets
            if any(form.encode(errors="replace") in text for form in _forms(secret) for text in texts)
        }
        return type(self)(self._secrets - guessed) if guessed else self

    def data(self, data: bytes) -> bytes:
        """Return the body in UTF-8 with each secret replaced, also where JSON escapes its letters."""
        if self._encoded and b"\\u00" in data and _ESCAPED_LETTER.search(data):
            data = _ESCAPED.sub(_unescape, data)
        for form in self._encoded:
            if form in data:
                data = b"".join(_redact(data, form))
        return data


def _forms(secret: str) -> Iterator[str]:
    yield secret
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    yield json.dumps(secret)[1:-1].replace("/", "\\/")
    yield quote(secret, safe="", errors="replace")
    yield quote_plus(secret, errors="replace")


def _redact(data: bytes, form: bytes) -> Iterator[bytes]:
    """Yield the parts of the data with each occurrence replaced, with the whole escape that it begins in."""
    done = 0
    while (at := data.find(form, done)) >= 0:
        yield data[done : _escape_start(data, done, at)]
        yield REDACTED.encode()
        done = at + len(form)
    yield data[done:]


def _escape_start(data: bytes, done: int, at: int) -> int:
    r"""Return where an escape such as \n or \u0080 begins whose end seems to be the beginning of a secret; `at` if none."""
    start = data.rfind(b"\\", max(done, at - MAX_OPEN_ESCAPE), at)
    if start < 0 or not _OPEN_ESCAPE.fullmatch(data, start, at):
        return at
    slashes = start - len(data[done:start].rstrip(b"\\")) - done
    return start if slashes % 2 == 0 else at  # a backslash before a backslash is text


def _unescape(match: re.Match[bytes]) -> bytes:
    code = match[1] and int(match[1], 16)
    return bytes((code,)) if code and code in _PLAIN else match[0]
