"""Read the chapters of EPUB books."""

import posixpath
from urllib.parse import unquote

from modules.llm_platform.infrastructure.parsing.answer import MAX_CHARS, Answer, File, limit_text
from modules.llm_platform.infrastructure.parsing.decoding import UnreadableDocument, decode
from modules.llm_platform.infrastructure.parsing.html_page import read_html
from modules.llm_platform.infrastructure.parsing.zipped_xml import Archive, Elements, unpack

MAX_CHAPTERS = 5000  # Chapters of a book.
ENCRYPTED_BOOK = "its chapters are not text: a book with copy protection cannot be read"


def read_epub(file: File) -> Answer:
    """Return the chapters of a book in reading order."""
    return unpack(file, _read_epub_parts, "it is not a book that can be read")


def _read_epub_parts(archive: Archive) -> Answer:
    container = Elements(archive.part("META-INF/container.xml"))
    path = next(
        (found["full-path"] for name, found, _ in container.found if name == "rootfile" and "full-path" in found), ""
    )
    folder, package = posixpath.dirname(path), Elements(archive.part(path))
    chapters: list[str] = []
    for href in _find_reading_order(package)[:MAX_CHAPTERS]:
        data = archive.part(posixpath.normpath(posixpath.join(folder, unquote(href))))
        try:
            answer = read_html(decode(data or b"", html=True).text)
        except UnreadableDocument:
            return {"error": ENCRYPTED_BOOK}
        if "error" in answer:
            return answer
        chapters.append(answer["text"] or "")
        if sum(map(len, chapters)) > MAX_CHARS:
            break
    return {"title": " ".join(package.title.split()) or None, **limit_text(chapters)}


def _find_reading_order(package: Elements) -> list[str]:
    files: dict[str, str] = {}
    order: list[str] = []
    for name, attributes, _ in package.found:
        if name == "item" and "html" in attributes.get("media-type", ""):
            files[attributes.get("id", "")] = attributes.get("href", "")
        elif name == "itemref" and attributes.get("idref") in files:
            order.append(files[attributes["idref"]])
    return order
