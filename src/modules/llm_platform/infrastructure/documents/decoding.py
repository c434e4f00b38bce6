"""Bytes of unknown origin to text: byte order marks, declared and guessed encodings, nothing that shows no letters."""

from __future__ import annotations

import codecs
import re
from typing import NamedTuple

from modules.llm_platform.infrastructure.documents.errors import UnreadableDocument

FALLBACK = "cp1252"  # what a Western Windows wrote before UTF-8; decodes anything
SAMPLE = 4096  # bytes that tell UTF-16 without a mark from a binary file
NULS_OF_UTF16 = 0.5  # of the bytes at even or at odd places, when the text is Western
GUESSED_FROM = 64_000  # bytes

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_DECLARED = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([\w.:-]{1,40})""", re.IGNORECASE)
_CONTROLS = dict.fromkeys([*range(9), 11, 12, *range(14, 32), 127], " ")


class Decoded(NamedTuple):
    """Text with line ends as `\\n`; `note` says what was guessed or lost on the way."""

    text: str
    note: str | None = None


def decode(data: bytes, *, html: bool = False) -> Decoded:
    """The text of a file, control characters as blanks. Raises UnreadableDocument for a binary file."""
    found = _by_mark(data) or _by_utf16_shape(data)
    if found is None and b"\0" in data:
        raise UnreadableDocument("it is a binary file, not text")
    found = found or _by_declaration(data, html) or _as_utf8(data) or _by_guess(data)
    return found._replace(text=_tidied(found.text))


def _tidied(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n").translate(_CONTROLS)


def _decoded(data: bytes, encoding: str) -> Decoded:
    text = codecs.getincrementaldecoder(encoding)("replace").decode(data)  # a letter cut off at the end is left out
    return Decoded(text, f"some bytes are not {encoding} and were replaced" if "\ufffd" in text else None)


def _by_mark(data: bytes) -> Decoded | None:
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _decoded(data[len(mark) :], encoding)
    return None


def _by_utf16_shape(data: bytes) -> Decoded | None:
    """Western text in UTF-16 has a NUL at every other place and none at the others."""
    sample = data[:SAMPLE]
    even, odd = sample[::2].count(0), sample[1::2].count(0)
    if even + odd < NULS_OF_UTF16 * len(sample) / 2 or (even and odd):
        return None
    return _decoded(data, "utf-16-be" if even else "utf-16-le") if even + odd else None


def _by_declaration(data: bytes, html: bool) -> Decoded | None:
    match = _DECLARED.search(data, 0, SAMPLE) if html else None
    if match is None:
        return None
    encoding = match[1].decode("ascii")
    try:
        b"a".decode(encoding, "replace")  # a LookupError also for codecs that are not of text, such as hex
        return _decoded(data, encoding)
    except (LookupError, UnicodeError):
        return None


def _as_utf8(data: bytes) -> Decoded | None:
    try:
        return Decoded(codecs.getincrementaldecoder("utf-8")().decode(data))
    except UnicodeDecodeError:
        return None


def _by_guess(data: bytes) -> Decoded:
    encoding = _guessed(data)
    try:
        text = codecs.getincrementaldecoder(encoding)("replace").decode(data)
    except LookupError:
        encoding = FALLBACK
        text = data.decode(FALLBACK, "replace")
    return Decoded(text, f"it is not UTF-8 and was read as {encoding}: save it as UTF-8 if letters look wrong")


def _guessed(data: bytes) -> str:
    try:
        from resiliparse.parse.encoding import detect_encoding
    except ImportError:  # the extra is needed for HTML alone; plain text does without
        return FALLBACK
    guess = str(detect_encoding(data[:GUESSED_FROM], from_html_meta=False))
    return FALLBACK if guess.lower().replace("-", "") in {"utf8", "ascii"} else guess
