"""Small documents that cost a parser much memory or time. Each is below the size limits of a page or a file."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Callable

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
R = 'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
PAGE_BYTES = 4_900_000
DOCX_BYTES = 90_000_000  # unpacked size
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
    """Return an archive whose directory lists one file this many times."""
    one = archive(a="")
    *head, size, start, comment = _DIRECTORY_END.unpack(one[-_DIRECTORY_END.size :])
    directory = one[start : start + size] * count
    return one[:start] + directory + _DIRECTORY_END.pack(*head[:3], 0xFFFF, 0xFFFF, len(directory), start, comment)


def long_tag(size: int) -> str:
    return "<w:p " + " ".join(f'a{number}=""' for number in range(size // 18)) + "/>"


def xlsx(rows: str = "", strings: str = "", styles: str = "") -> bytes:
    book = f'<workbook {R}><sheets><sheet name="a" r:id="r1"/></sheets></workbook>'
    relations = '<Relationships><Relationship Id="r1" Target="worksheets/sheet1.xml"/></Relationships>'
    return archive(
        **{"xl___rels__workbook_xml.rels": relations},
        xl__workbook_xml=book,
        xl__worksheets__sheet1_xml=f"<worksheet><sheetData>{rows}</sheetData></worksheet>",
        xl__sharedStrings_xml=f"<sst>{strings}</sst>",
        xl__styles_xml=f"<styleSheet><cellXfs>{styles}</cellXfs></styleSheet>",
    )


def pptx(shapes: str) -> bytes:
    presentation = f'<presentation {R}><sldIdLst><sldId id="256" r:id="r1"/></sldIdLst></presentation>'
    relations = '<Relationships><Relationship Id="r1" Target="slides/slide1.xml"/></Relationships>'
    return archive(
        **{"ppt___rels__presentation_xml.rels": relations},
        ppt__presentation_xml=presentation,
        ppt__slides__slide1_xml=f"<sld><spTree>{shapes}</spTree></sld>",
    )


# Files of at most 87 kB that unpack to DOCX_BYTES of one repeated element. The names begin with the kind of file.
FILES: dict[str, Callable[[int], bytes]] = {
    "docx many styles": lambda size: docx(styles=filled("<w:a/>", size)),
    "docx nested paragraphs": lambda size: docx(filled("<w:p>", size)),
    "docx many paragraphs": lambda size: docx(filled("<w:p><w:r><w:t>äöü</w:t></w:r></w:p>", size)),
    "docx many words": lambda size: docx("<w:p>" + filled("<w:r><w:t>ä</w:t></w:r>", size) + "</w:p>"),
    "docx one long tag": lambda size: docx(long_tag(size)),
    "docx many files": lambda _: repeated_file(MANY_FILES),
    "xlsx many rows": lambda size: xlsx(filled("<row><c><v>1</v></c></row>", size)),
    "xlsx many cells": lambda size: xlsx("<row>" + filled("<c><v>1</v></c>", size) + "</row>"),
    "xlsx far cells": lambda size: xlsx(filled('<row><c r="IV1"><v>1</v></c></row>', size)),
    "xlsx many strings": lambda size: xlsx(strings=filled("<si><t>äöü</t></si>", size // 2)),
    "xlsx one long string": lambda size: xlsx(strings="<si><t>" + filled("語", size // 3) + "</t></si>"),
    "xlsx many styles": lambda size: xlsx(styles=filled('<xf numFmtId="14"/>', size)),
    "xlsx hidden columns": lambda size: xlsx(filled('<col min="1" max="999999999" hidden="1"/>', size)),
    "pptx many shapes": lambda size: pptx(filled("<sp><p><t>äöü</t></p></sp>", size // 2)),
    "pptx nested shapes": lambda size: pptx(filled("<sp>", size)),
    "pptx many cells": lambda size: pptx("<tbl>" + filled("<tr><tc/><tc/></tr>", size) + "</tbl>"),
    "pptx uneven rows": lambda size: pptx("<tbl><tr>" + "<tc/>" * 20_000 + "</tr>" + filled("<tr/>", size) + "</tbl>"),
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
