"""Documents that are small and take a parser much memory or time. Each is below the limits for bytes of a page or a file."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Callable

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
PAGE_BYTES = 4_900_000
DOCX_BYTES = 90_000_000  # unpacked
MANY_FILES = 120_000
_DIRECTORY_END = struct.Struct("<4s4H2LH")


def archive(**parts: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as file:
        for name, text in parts.items():
            file.writestr(name.replace("__", "/").replace("_xml", ".xml"), text)
    return buffer.getvalue()


def docx(body: str = "<w:p><w:r><w:t>text</w:t></w:r></w:p>", styles: str = "") -> bytes:
    document = f"<w:document {W}><w:body>{body}</w:body></w:document>"
    return archive(word__document_xml=document, word__styles_xml=f"<w:styles {W}>{styles}</w:styles>")


def filled(part: str, size: int = PAGE_BYTES) -> str:
    return part * (size // len(part))


def repeated_file(count: int) -> bytes:
    """Return an archive whose directory has one file so often."""
    one = archive(a="")
    *head, size, start, comment = _DIRECTORY_END.unpack(one[-_DIRECTORY_END.size :])
    directory = one[start : start + size] * count
    return one[:start] + directory + _DIRECTORY_END.pack(*head[:3], 0xFFFF, 0xFFFF, len(directory), start, comment)


def long_tag(size: int) -> str:
    return "<w:p " + " ".join(f'a{number}=""' for number in range(size // 18)) + "/>"


# 87 kB each, or less, where they unpack to DOCX_BYTES: one thing again and again.
DOCX: dict[str, Callable[[int], bytes]] = {
    "many styles": lambda size: docx(styles=filled("<w:a/>", size)),
    "nested paragraphs": lambda size: docx(filled("<w:p>", size)),
    "many paragraphs": lambda size: docx(filled("<w:p><w:r><w:t>äöü</w:t></w:r></w:p>", size)),
    "many words": lambda size: docx("<w:p>" + filled("<w:r><w:t>ä</w:t></w:r>", size) + "</w:p>"),
    "one long tag": lambda size: docx(long_tag(size)),
    "many files": lambda _: repeated_file(MANY_FILES),
}
PAGES: dict[str, Callable[[], str]] = {
    "nested": lambda: "<div>" * 100_000,
    "very nested": lambda: filled("<b>"),
    "small elements": lambda: filled("<b>x</b>"),
    "empty elements": lambda: filled("<a>"),
    "paragraphs": lambda: filled("<p>word and <b>word</b> some more of text that is here in a sentence.</p>\n"),
    "cells": lambda: "<table>" + filled("<tr><td>a<td>b"),
    "attributes": lambda: "<p " + " ".join(f"a{number}" for number in range(PAGE_BYTES // 8)) + ">text",
    "links": lambda: filled("<li><a href=/a>x</a>"),
    "comments": lambda: filled("<!-->x"),
    "nested to the limit": lambda: filled("<div>" * 400 + "x" + "</div>" * 400),
    "repeated formatting": lambda: filled("<p><i x>" * 400 + "</i>" * 400),
}
