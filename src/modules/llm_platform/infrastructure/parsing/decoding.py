"""Bytes to text: byte order marks, declared and guessed encodings, no control characters."""

import codecs
import re
from pathlib import Path
from typing import NamedTuple


class UnreadableDocument(Exception):  # noqa: N818  about one file, which is skipped
    """A file cannot be indexed. The message says why, without any of its content."""


class EmptyDocument(UnreadableDocument):
    """The file can be read and holds no text."""


FALLBACK = "cp1252"  # Western Windows used it before UTF-8; it decodes any bytes
SAMPLE = 4096  # bytes to tell UTF-16 without a mark from a binary file
NULS_OF_UTF16 = 0.5  # share of NULs among the bytes at even or at odd offsets of Western text
GUESSED_FROM = 64_000  # bytes
KOREAN = "cp949"
MIN_HANGUL_SHARE = 0.8  # of the characters beyond ASCII; bytes of other encodings give many other characters too

# Encodings of web pages, as browsers read them (WHATWG). Others that Python knows are refused: some take quadratic time,
# and UTF-7 hides markup.
_SUPERSETS = {
    "ascii": "cp1252",
    "usascii": "cp1252",
    "latin1": "cp1252",
    "iso88591": "cp1252",
    "l1": "cp1252",
    "iso88599": "cp1254",
    "iso885911": "cp874",
    "tis620": "cp874",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shiftjis": "cp932",
    "sjis": "cp932",
    "xsjis": "cp932",
    "windows31j": "cp932",
    "euckr": "cp949",
    "ksc56011987": "cp949",
    "big5": "big5hkscs",
    "unicode": "utf-16-le",
    "utf16": "utf-16-le",
    "xmaccyrillic": "mac_cyrillic",
    "macintosh": "mac_roman",
}
_USABLE = re.compile(
    r"utf8|utf16(?:le|be)|iso8859(?:[2-8]|1[03456])(?:e|i)?|(?:windows|cp)(?:125[0-8]|866|874|932|949)|ibm866"
    r"|koi8[ru]|gb18030|big5hkscs|eucjp|iso2022(?:jp|kr)|hz(?:gb2312)?"
)
_SEVEN_BIT = re.compile(r"iso2022|hz")  # pure ASCII bytes, which would pass for UTF-8

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # precedes UTF-16, whose mark is its prefix
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_DECLARED = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([\w.:-]{1,40})""", re.IGNORECASE)
_CONTROLS = dict.fromkeys([*range(9), 11, 12, *range(14, 32), 127], " ")
_CONTROL_BYTES = bytes(_CONTROLS)  # searched first: `translate` is slow beyond ASCII


def replace_unprintable(text: str | Path) -> str:
    """Return a text or path for messages: characters that cannot be printed become U+FFFD."""
    name = str(text)
    return name if name.isprintable() else "".join(letter if letter.isprintable() else "\ufffd" for letter in name)


class Decoded(NamedTuple):
    """Text with line ends as `\\n`. `note` says what was guessed or lost."""

    text: str
    note: str | None = None


def decode(data: bytes, *, html: bool = False, declared: str | None = None) -> Decoded:
    """Return the text of a file, with control characters as spaces.

    `declared` is the charset of the Content-Type header. Valid UTF-8 is read as UTF-8 even if another charset is declared,
    except UTF-16 and 7-bit encodings such as ISO-2022-JP. Raises UnreadableDocument for a binary file.
    """
    sent_as = find_encoding(declared) if declared else None
    found = _decode_by_mark(data) or (
        _decode_replacing(data, sent_as) if sent_as and sent_as.startswith("utf-16") else _decode_by_utf16_shape(data)
    )
    if found is None and b"\0" in data:
        raise UnreadableDocument("it is a binary file, not text")
    found = (
        found
        or _decode_by_sender(data, sent_as)
        or _decode_by_declaration(data, html)
        or _decode_as_utf8(data)
        or _decode_by_guess(data)
    )
    return found._replace(text=_tidy(found.text))


def find_encoding(name: str) -> str | None:
    """Return Python's name of a declared encoding, or None for one that pages do not use."""
    plain = re.sub(r"[^a-z0-9]", "", name.lower())
    if plain in _SUPERSETS:
        return _SUPERSETS[plain]
    if not _USABLE.fullmatch(plain):
        return None
    try:
        return codecs.lookup(re.sub(r"^windows", "cp", plain) if plain.startswith("windows") else name.lower()).name
    except LookupError:
        return None


def _decode_by_sender(data: bytes, encoding: str | None) -> Decoded | None:
    if encoding is None:
        return None
    as_utf8 = None if _SEVEN_BIT.match(encoding) else _decode_as_utf8(data)
    return as_utf8 or _decode_replacing(data, encoding)


def _tidy(text: str) -> str:
    if "\r" in text:  # asked first: to look for two characters takes 70 times as long
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    plain = text.encode("utf-8", "surrogatepass")
    return text if len(plain.translate(None, _CONTROL_BYTES)) == len(plain) else text.translate(_CONTROLS)


def _decode_replacing(data: bytes, encoding: str) -> Decoded:
    text = codecs.getincrementaldecoder(encoding)("replace").decode(
        data
    )  # an incomplete character at the end is dropped
    return Decoded(text, f"some bytes are not {encoding} and were replaced" if "\ufffd" in text else None)


def _decode_by_mark(data: bytes) -> Decoded | None:
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _decode_replacing(data[len(mark) :], encoding)
    return None


def _decode_by_utf16_shape(data: bytes) -> Decoded | None:
    """Western text in UTF-16 has NUL at every other offset only."""
    sample = data[:SAMPLE]
    even, odd = sample[::2].count(0), sample[1::2].count(0)
    if even + odd < NULS_OF_UTF16 * len(sample) / 2 or (even and odd):
        return None
    return _decode_replacing(data, "utf-16-be" if even else "utf-16-le") if even + odd else None


def _decode_by_declaration(data: bytes, html: bool) -> Decoded | None:
    match = _DECLARED.search(data, 0, SAMPLE) if html else None
    if match is None:
        return None
    encoding = find_encoding(match[1].decode("ascii"))
    # The declaration is ASCII, so the page is not UTF-16.
    return _decode_by_sender(data, encoding) if encoding and not encoding.startswith("utf-16") else None


def _decode_as_utf8(data: bytes) -> Decoded | None:
    try:
        return Decoded(codecs.getincrementaldecoder("utf-8")().decode(data))
    except UnicodeDecodeError:
        return None


def _decode_by_guess(data: bytes) -> Decoded:
    encoding = _guess_encoding(data)
    try:
        text = codecs.getincrementaldecoder(encoding)("replace").decode(data)
    except LookupError:
        encoding = FALLBACK
        text = data.decode(FALLBACK, "replace")
    if text == data.decode(FALLBACK, "replace"):
        encoding = FALLBACK  # a note on a rare encoding that gives the same letters would worry its reader
    return Decoded(text, f"it is not UTF-8 and was read as {encoding}: save it as UTF-8 if letters look wrong")


def _guess_encoding(data: bytes) -> str:
    try:
        from resiliparse.parse.encoding import detect_encoding
    except ImportError:  # the extra is optional for plain text
        return FALLBACK
    beginning = data[:GUESSED_FROM]
    guess = str(detect_encoding(beginning, from_html_meta=False))
    if guess.lower().replace("-", "") not in {"utf8", "ascii"}:
        return guess
    return KOREAN if _is_korean(beginning) else FALLBACK  # resiliparse calls Korean encodings UTF-8


def _is_korean(data: bytes) -> bool:
    try:
        text = codecs.getincrementaldecoder(KOREAN)().decode(data)
    except UnicodeDecodeError:
        return False
    foreign = [letter for letter in text if not letter.isascii()]
    return sum("가" <= letter <= "힣" for letter in foreign) >= MIN_HANGUL_SHARE * max(1, len(foreign))
