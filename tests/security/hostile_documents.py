"""Documents that are small and take a parser much memory or time. Each is below the limits for bytes of a page or a file."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
PAGE_BYTES = 4_900_000


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


# 87 kB each, or less: what they unpack to is one thing again and again.
DOCX: dict[str, Callable[[], bytes]] = {
    "many styles": lambda: docx(styles=filled("<w:a/>", 90_000_000)),
    "nested": lambda: docx(filled("<w:p>", 90_000_000)),
    "many paragraphs": lambda: docx(filled("<w:p><w:r><w:t>äöü</w:t></w:r></w:p>", 90_000_000)),
    "many words": lambda: docx("<w:p>" + filled("<w:r><w:t>ä</w:t></w:r>", 90_000_000) + "</w:p>"),
    "one long tag": lambda: docx("<w:p " + " ".join(f'a{number}=""' for number in range(5_000_000)) + "/>"),
    "many files": lambda: archive(**{f"a{number}": "" for number in range(200_000)}),
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
