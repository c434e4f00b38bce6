"""Bytes of unknown origin to text: byte order marks, declared and guessed encodings, nothing that shows no letters."""

from __future__ import annotations

import codecs
import re
from typing import NamedTuple

# Why one document is left out of the search.


class UnreadableDocument(Exception):  # noqa: N818  it is a word about a file, not a failure of ours
    """This file cannot be searched; the message says why in words for its owner, without any of its content."""


class EmptyDocument(UnreadableDocument):
    """It can be read, and there is not a word in it."""


FALLBACK = "cp1252"  # what a Western Windows wrote before UTF-8; decodes anything
SAMPLE = 4096  # bytes that tell UTF-16 without a mark from a binary file
NULS_OF_UTF16 = 0.5  # of the bytes at even or at odd places, when the text is Western
GUESSED_FROM = 64_000  # bytes

# Encodings that pages are written in, and what browsers take them for (WHATWG). Python knows others that are none: some
# take time that grows with the square of the length, and UTF-7 hides markup.
_SUPERSETS = {
    "ascii": "cp1252", "usascii": "cp1252", "latin1": "cp1252", "iso88591": "cp1252", "l1": "cp1252",
    "iso88599": "cp1254", "iso885911": "cp874", "tis620": "cp874", "gb2312": "gb18030", "gbk": "gb18030",
    "shiftjis": "cp932", "sjis": "cp932", "xsjis": "cp932", "windows31j": "cp932", "euckr": "cp949", "ksc56011987": "cp949",
    "big5": "big5hkscs", "unicode": "utf-16-le", "utf16": "utf-16-le", "xmaccyrillic": "mac_cyrillic", "macintosh": "mac_roman",
}  # fmt: skip
_USABLE = re.compile(
    r"utf8|utf16(?:le|be)|iso8859(?:[2-8]|1[03456])(?:e|i)?|(?:windows|cp)(?:125[0-8]|866|874|932|949)|ibm866"
    r"|koi8[ru]|gb18030|big5hkscs|eucjp|iso2022(?:jp|kr)|hz(?:gb2312)?"
)
_SEVEN_BIT = re.compile(r"iso2022|hz")  # all ASCII to look at, so that it would pass for UTF-8

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_DECLARED = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([\w.:-]{1,40})""", re.IGNORECASE)
_CONTROLS = dict.fromkeys([*range(9), 11, 12, *range(14, 32), 127], " ")
_CONTROL_BYTES = bytes(_CONTROLS)  # asked for first: `translate` goes letter by letter beyond ASCII


class Decoded(NamedTuple):
    """Text with line ends as `\\n`; `note` says what was guessed or lost on the way."""

    text: str
    note: str | None = None


def decode(data: bytes, *, html: bool = False, declared: str | None = None) -> Decoded:
    """The text of a file, control characters as blanks. `declared` is the charset that whoever sent it names; bytes that
    are UTF-8 are read as such all the same. Raises UnreadableDocument for a binary file.
    """
    sent_as = encoding_named(declared) if declared else None
    found = _by_mark(data) or (
        _decoded(data, sent_as) if sent_as and sent_as.startswith("utf-16") else _by_utf16_shape(data)
    )
    if found is None and b"\0" in data:
        raise UnreadableDocument("it is a binary file, not text")
    found = found or _by_sender(data, sent_as) or _by_declaration(data, html) or _as_utf8(data) or _by_guess(data)
    return found._replace(text=_tidied(found.text))


def encoding_named(name: str) -> str | None:
    """Python's name for a declared encoding; None where it is none that pages are written in."""
    plain = re.sub(r"[^a-z0-9]", "", name.lower())
    if plain in _SUPERSETS:
        return _SUPERSETS[plain]
    if not _USABLE.fullmatch(plain):
        return None
    try:
        return codecs.lookup(re.sub(r"^windows", "cp", plain) if plain.startswith("windows") else name.lower()).name
    except LookupError:
        return None


def _by_sender(data: bytes, encoding: str | None) -> Decoded | None:
    if encoding is None:
        return None
    as_utf8 = None if _SEVEN_BIT.match(encoding) else _as_utf8(data)
    return as_utf8 or _decoded(data, encoding)


def _tidied(text: str) -> str:
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    plain = text.encode("utf-8", "surrogatepass")
    return text if len(plain.translate(None, _CONTROL_BYTES)) == len(plain) else text.translate(_CONTROLS)


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
    encoding = encoding_named(match[1].decode("ascii"))
    # It says so in ASCII, so it is none of UTF-16, whatever it says.
    return _by_sender(data, encoding) if encoding and not encoding.startswith("utf-16") else None


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
