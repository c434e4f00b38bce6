"""Word documents, EPUB books, notebooks, reStructuredText, tables and logs become text."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.support.cases import for_each

from modules.llm_platform.domain.privacy.redaction import Redactor
from modules.llm_platform.domain.retrieval.chunking import split_chunks
from modules.llm_platform.infrastructure.documents.folder import list_folder
from modules.llm_platform.infrastructure.documents.reading import read_text
from modules.llm_platform.infrastructure.parsing import word, zipped_xml
from modules.llm_platform.infrastructure.parsing.decoding import UnreadableDocument
from modules.llm_platform.infrastructure.parsing.parser_process import Parsed, ParserProcess
from modules.llm_platform.infrastructure.parsing.word import read_docx
from modules.llm_platform.infrastructure.parsing.zipped_xml import MAX_UNPACKED_BYTES

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
STYLES = f'<w:styles {W}><w:style w:styleId="berschrift1"><w:name w:val="heading 1"/></w:style></w:styles>'
BODY = (
    '<w:p><w:pPr><w:pStyle w:val="berschrift1"/></w:pPr><w:r><w:t>Heat</w:t></w:r><w:r><w:t>ing</w:t></w:r></w:p>'
    '<w:p><w:r><w:t xml:space="preserve">The pump draws </w:t><w:tab/><w:t>4 kW.</w:t></w:r>'
    "<w:del><w:r><w:delText>5 kW</w:delText></w:r></w:del>"
    "<w:r><w:rPr><w:vanish/></w:rPr><w:t>hidden</w:t></w:r></w:p>"
    "<w:p><w:pPr><w:numPr/></w:pPr><w:r><w:t>an item</w:t></w:r></w:p>"
    "<w:tbl><w:tr><w:tc><w:p><w:r><w:t>a</w:t></w:r></w:p></w:tc><w:tc><w:p><w:r><w:t>b</w:t></w:r></w:p></w:tc></w:tr></w:tbl>"
)
CORE = '<c xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>The house</dc:title></c>'


def archive(path: Path, **parts: str) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, text in parts.items():
            file.writestr(name.replace("__", "/").replace("_xml", ".xml"), text)
    return path


def docx(path: Path, body: str = BODY, before: str = "", styles: str = STYLES) -> Path:
    document = f"{before}<w:document {W}><w:body>{body}</w:body></w:document>"
    return archive(path, word__document_xml=document, word__styles_xml=styles, docProps__core_xml=CORE)


def read(path: Path) -> Parsed:
    with ParserProcess() as parser:
        return read_text(path.parent, list_folder(path.parent).files[path.name], parser, Redactor())


def test_a_word_document(tmp_path: Path) -> None:
    """Headings in any language, lists and tables are read. Deleted and hidden text is not."""
    assert read(docx(tmp_path / "a.docx")) == Parsed(
        "# Heating\n\nThe pump draws 4 kW.\n\n- an item\n\na | b", "The house"
    )


def cells(*texts: str) -> str:
    paragraphs = (text.split("/") for text in texts)
    return "".join(
        f"<w:tc>{''.join(f'<w:p><w:r><w:t>{part}</w:t></w:r></w:p>' for part in parts)}</w:tc>" for parts in paragraphs
    )


PRICES = (("Service", "Time", "Price"), ("Oil", "30 min", "95 | 99"), ("Tyres", "", "62"))
MARKED_ROW = "<w:trPr><w:tblHeader/></w:trPr>"
STYLED = '<w:tblPr><w:tblLook w:val="04A0" w:firstRow="{}"/></w:tblPr>'
OLDER_STYLED = '<w:tblPr><w:tblLook w:val="0020"/></w:tblPr>'


def word_table(rows: Sequence[Sequence[str]], properties: str = "", mark: str = "") -> str:
    first, *others = (f"{cells(*row)}</w:tr>" for row in rows)
    return f"<w:tbl>{properties}<w:tr>{mark}{first}{''.join(f'<w:tr>{row}' for row in others)}</w:tbl>"


@for_each(
    "table",
    [
        word_table(PRICES, STYLED.format(1)),
        word_table(PRICES, OLDER_STYLED),
        word_table(PRICES, STYLED.format(0), MARKED_ROW),
        word_table([("Service", "Price"), ("Oil", "95 | 99"), ("Tyres", "62")], "", MARKED_ROW),
        word_table([("Service", "2024", ""), ("Oil", "90", "95 | 99"), ("Tyres", "", "62")], "", MARKED_ROW),
    ],
)
def test_a_word_table_with_names_of_columns_is_a_table(tmp_path: Path, table: str) -> None:
    """Its rows are then found and quoted with the names of their columns."""
    lines = read(docx(tmp_path / "a.docx", table)).text.splitlines()
    assert lines[0].startswith("| Service | ")
    assert set(lines[1]) == set("| -")
    assert lines[2].startswith("| Oil | ")
    assert lines[2].endswith("| 95 \\| 99 |")
    assert len(lines) == 4


@for_each(
    "table",
    [
        word_table(PRICES, STYLED.format(0)),
        word_table([("Place", "Bonn"), ("Date", "4 May"), ("Chair", "Bo")], STYLED.format(1)),  # a form
        word_table([("Oil", "30 min", "95"), ("Tyres", "2 h", "62")], STYLED.format(1)),  # the first row has figures
        word_table([("Service", "Time", "Price"), ("Oil", "95")], STYLED.format(1)),
        word_table([("Oil", "", ""), ("Tyres", "now", "dear")], STYLED.format(1)),
    ],
)
def test_the_first_row_of_another_word_table_stays_a_row(tmp_path: Path, table: str) -> None:
    assert "---" not in read(docx(tmp_path / "a.docx", table)).text


MANY_ROWS = [("Name", "Place", "Price"), *((f"thing {number}", "here", str(number)) for number in range(300))]


def list_passages_with_rows(text: str) -> list[str]:
    passages = [text[chunk.start : chunk.end] for chunk in split_chunks(text)]
    return [passage for passage in passages if "| thing " in passage]


def test_each_passage_of_a_long_word_table_has_the_names_of_its_columns(tmp_path: Path) -> None:
    """A row without them cannot be quoted."""
    found = list_passages_with_rows(read(docx(tmp_path / "a.docx", word_table(MANY_ROWS, STYLED.format(1)))).text)
    assert len(found) > 2
    assert all("| Name | Place | Price |\n| --- | --- | --- |\n| thing " in passage for passage in found)
    assert all(sum(f"| thing {number} |" in passage for passage in found) == 1 for number in range(300))


def test_each_passage_of_a_long_markdown_table_has_the_names_of_its_columns(tmp_path: Path) -> None:
    """A table inside a code block is unchanged."""
    names, *rows = (f"| {' | '.join(row)} |" for row in MANY_ROWS)
    table = "\n".join([names, "|:--|---|---:|", *rows])
    (tmp_path / "a.md").write_text(
        f"# Things\n\nBefore.\n\n{table}\n\nBehind.\n\n```\n{table}\n```\n", encoding="utf-8"
    )
    text = read(tmp_path / "a.md").text
    tables, code = text.split("Behind.")
    found = list_passages_with_rows(tables)
    assert len(found) > 2
    assert all(f"{names}\n|:--|---|---:|\n| thing " in passage for passage in found)
    assert code == f"\n\n```\n{table}\n```\n"


def test_cells_of_a_word_table_keep_their_columns(tmp_path: Path) -> None:
    """This holds after an empty or a merged cell, and for a cell with several paragraphs or a table."""
    wide = '<w:tc><w:tcPr><w:gridSpan w:val="2"/></w:tcPr><w:p><w:r><w:t>both</w:t></w:r></w:p></w:tc>'
    inner = f"<w:tc><w:tbl><w:tr>{cells('inside', '1')}</w:tr></w:tbl></w:tc>"
    rows = (cells("name", "age", "city"), cells("Bo", "", "Rome"), cells("Eve/Lie", "3", "Oslo"), wide + cells("Bonn"))
    body = "".join(f"<w:tr>{row}</w:tr>" for row in (*rows, inner + cells("4", "Kiel")))
    assert read(docx(tmp_path / "a.docx", f"<w:tbl>{body}</w:tbl>")).text.split("\n\n") == [
        "name | age | city",
        "Bo |  | Rome",
        "Eve Lie | 3 | Oslo",
        "both |  | Bonn",
        "inside | 1",
        "| 4 | Kiel",
    ]


def text_box(*paragraphs: str) -> str:
    """Return the run of a text box, which contains its content twice: for current and for older versions of Word."""
    content = f"<w:txbxContent>{''.join(paragraphs)}</w:txbxContent>"
    choice = f"<w:drawing><w:textbox>{content}</w:textbox></w:drawing>"
    return (
        f"<w:r><w:AlternateContent><w:Choice>{choice}</w:Choice><w:Fallback><w:pict>{content}</w:pict></w:Fallback>"
        "</w:AlternateContent></w:r>"
    )


def paragraph(*runs: str) -> str:
    return f"<w:p>{''.join(run if run.startswith('<') else f'<w:r><w:t>{run}</w:t></w:r>' for run in runs)}</w:p>"


def test_text_boxes_of_a_word_document(tmp_path: Path) -> None:
    """Each text box is read once, after the paragraph that anchors it, which is not split.

    This includes boxes in cells and boxes.
    """
    heading = '<w:p><w:pPr><w:pStyle w:val="berschrift1"/></w:pPr><w:r><w:t>Bell</w:t></w:r>'
    table = f"<w:tbl><w:tr>{cells('a', 'b')}</w:tr></w:tbl>"
    inner = text_box(paragraph("It rings", text_box(paragraph("twice")), " daily."))
    body = (
        heading + text_box(paragraph("It weighs 412 kg."), paragraph("Cast in 1634."), table) + "</w:p>",
        paragraph("The mill ", text_box(paragraph("Open on Sundays.")), "grinds rye."),
        paragraph(inner),
        f"<w:tbl><w:tr><w:tc>{paragraph('name', text_box(paragraph('age')))}</w:tc>{cells('city')}</w:tr></w:tbl>",
        paragraph("The end."),
    )
    assert read(docx(tmp_path / "a.docx", "".join(body))).text.split("\n\n") == [
        "# Bell",
        "It weighs 412 kg.",
        "Cast in 1634.",
        "a | b",
        "The mill grinds rye.",
        "Open on Sundays.",
        "It rings daily.",
        "twice",
        "name age | city",
        "The end.",
    ]


def test_word_document_that_is_too_long_within_a_text_box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was read before and in the box is kept."""
    monkeypatch.setattr(word, "MAX_CHARS", 20)
    monkeypatch.setattr(zipped_xml, "CHUNK_BYTES", 200)
    body = paragraph("First.") + paragraph("Second.", text_box(*[paragraph("Third.")] * 50)) + paragraph("Last.")
    answer = read_docx(str(docx(tmp_path / "a.docx", body)))
    assert answer["text"].startswith("First.\n\nSecond.\n\nThird.")
    assert answer["note"] == f"only its first {len(answer['text'])} characters were read"


def test_character_elements_of_a_word_document(tmp_path: Path) -> None:
    """Non-breaking hyphens are kept, which once turned `2-3` into 23. Moved text is read at its new place."""
    moved = "<w:moveFrom><w:r><w:t>moved</w:t></w:r></w:moveFrom><w:moveTo><w:r><w:t>moved</w:t></w:r></w:moveTo>"
    body = f"<w:p><w:r><w:t>pages 2</w:t><w:noBreakHyphen/><w:t>3 </w:t></w:r>{moved}</w:p>"
    assert read(docx(tmp_path / "a.docx", body)).text == "pages 2-3 moved"


def test_a_word_document_with_thousands_of_styles(tmp_path: Path) -> None:
    """Word itself allows 4,079. Each has a dozen elements; a document that was pasted together for years has as many."""
    properties = "<w:keepNext w:val='0'/>" * 40
    style = f"<w:style w:styleId='s{{0}}'><w:name w:val='Style {{0}}'/><w:pPr>{properties}</w:pPr></w:style>"
    styles = f"<w:styles {W}>{''.join(map(style.format, range(6000)))}{STYLES.partition('>')[2]}"
    assert read(docx(tmp_path / "a.docx", styles=styles)).text.startswith("# Heating")


def test_a_book(tmp_path: Path) -> None:
    """Chapters in the order of the spine, wherever they lie."""
    package = (
        '<package xmlns:dc="http://purl.org/dc/elements/1.1/"><metadata><dc:title>Sea</dc:title></metadata><manifest>'
        '<item id="b" href="text/two%20b.xhtml" media-type="application/xhtml+xml"/>'
        '<item id="c" href="x.css" media-type="text/css"/>'
        '<item id="a" href="one.xhtml" media-type="application/xhtml+xml"/></manifest>'
        '<spine><itemref idref="a"/><itemref idref="b"/><itemref idref="c"/></spine></package>'
    )
    with zipfile.ZipFile(tmp_path / "a.epub", "w") as file:
        file.writestr("META-INF/container.xml", '<container><rootfile full-path="OEBPS/content.opf"/></container>')
        file.writestr("OEBPS/content.opf", package)
        file.writestr("OEBPS/one.xhtml", "<html><body><h1>One</h1><p>It rains.</p></body></html>")
        file.writestr("OEBPS/text/two b.xhtml", "<html><body><h1>Two</h1><p>It snows.</p></body></html>")
    assert read(tmp_path / "a.epub") == Parsed("# One\n\nIt rains.\n\n# Two\n\nIt snows.", "Sea")


def book(path: Path, chapter: bytes) -> Path:
    package = (
        '<package><manifest><item id="a" href="a.xhtml" media-type="application/xhtml+xml"/></manifest>'
        '<spine><itemref idref="a"/></spine></package>'
    )
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("META-INF/container.xml", '<container><rootfile full-path="a.opf"/></container>')
        file.writestr("a.opf", package)
        file.writestr("a.xhtml", chapter)
    return path


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "iso-8859-1"])
def test_a_chapter_has_an_encoding(tmp_path: Path, encoding: str) -> None:
    """EPUB allows UTF-16, and older tools write others."""
    page = f'<?xml version="1.0" encoding="{encoding}"?><html><body><p>Über die Brücke ging er früh.</p></body></html>'
    assert read(book(tmp_path / "a.epub", page.encode(encoding))).text == "Über die Brücke ging er früh."


def test_a_book_with_copy_protection_is_named(tmp_path: Path) -> None:
    """Its chapters are encrypted, and were searched as if they were text."""
    with pytest.raises(UnreadableDocument, match="copy protection"):
        read(book(tmp_path / "a.epub", bytes(range(256)) * 20))


def test_a_notebook(tmp_path: Path) -> None:
    """Text is read as written, code is fenced, and outputs are left out."""
    cells = [
        {"cell_type": "markdown", "source": ["# Tides\n", "\n", "High at noon."]},
        {"cell_type": "code", "source": "tide()", "outputs": [{"text": "printed"}]},
    ]
    told = {"cells": cells, "metadata": {"kernelspec": {"language": "python"}}}
    (tmp_path / "a.ipynb").write_text(json.dumps(told), encoding="utf-8")
    assert read(tmp_path / "a.ipynb") == Parsed("# Tides\n\nHigh at noon.\n\n```python\ntide()\n```", "Tides")


def test_restructured_text(tmp_path: Path) -> None:
    """Its headings are Markdown's, by the order of their marks; everything else is as written."""
    text = (
        "=====\nHouse\n=====\n\nWalls.\n\nHeating\n~~~~~~~\n\n.. note::\n\n   A pump.\n\nIn winter\n*********\n\nCold.\n\n"
        "Roof\n~~~~\n\nTiles.\n\na\n\n----\n\nb"
    )
    (tmp_path / "a.rst").write_text(text, encoding="utf-8")
    parsed = read(tmp_path / "a.rst")
    assert parsed.title == "House"
    assert [line for line in parsed.text.split("\n") if line] == [
        "# House",
        "Walls.",
        "## Heating",
        ".. note::",
        "   A pump.",
        "### In winter",
        "Cold.",
        "## Roof",
        "Tiles.",
        "a",
        "----",
        "b",
    ]


@pytest.mark.parametrize("suffix", ["docx", "xlsx", "pptx", "epub", "ipynb"])
@pytest.mark.parametrize("data", [b"", b"PK\x03\x04 nonsense", b"[" * 100_000, b'{"cells": 1}'])
def test_broken_lines_are_named(tmp_path: Path, suffix: str, data: bytes) -> None:
    """A file of another format is left out with a reason, and the parser continues."""
    path = tmp_path / f"a.{suffix}"
    path.write_bytes(data)
    with pytest.raises(UnreadableDocument, match="it is not a"):
        read(path)


def test_entities_are_refused(tmp_path: Path) -> None:
    """Entities are neither expanded to gigabytes nor resolved to local files."""
    bomb = "<!DOCTYPE d [<!ENTITY a 'aaaa'><!ENTITY b SYSTEM 'file:///etc/passwd'>]>"
    path = docx(tmp_path / "a.docx", "<w:p><w:r><w:t>&a;&b;</w:t></w:r></w:p>", bomb)
    with pytest.raises(UnreadableDocument, match="it is not a Word document"):
        read(path)


def test_exponents_in_a_word_document_are_not_joined_with_their_number(tmp_path: Path) -> None:
    """10 with a raised 3 is not 103. Other raised text is unchanged."""
    raised = '<w:r><w:rPr><w:vertAlign w:val="superscript"/></w:rPr><w:t>{}</w:t></w:r>'
    plain = "<w:r><w:t>{}</w:t></w:r>"
    runs = (plain.format("It is 10"), raised.format("3"), plain.format(" m, not 10"), raised.format("th"))
    assert read_docx(str(docx(tmp_path / "a.docx", f"<w:p>{''.join(runs)}</w:p>")))["text"] == "It is 10³ m, not 10th"


def test_too_large_archive_is_refused(tmp_path: Path) -> None:
    """However small the file is: no more is unpacked than the bound."""
    path = docx(tmp_path / "a.docx", " " * (MAX_UNPACKED_BYTES + 1))
    assert path.stat().st_size < 1_000_000
    assert read_docx(str(path)) == {"error": "it unpacks to more than 100 MB"}


def test_types_that_are_not_read_are_counted(tmp_path: Path) -> None:
    """By suffix, the most first; pictures and what else holds no words is passed over."""
    for name in ("a.md", "a.xls", "B.XLS", "c.odt", "d.png", "LICENSE", ".hidden.doc"):
        (tmp_path / name).write_text("x", encoding="utf-8")
    assert (
        list_folder(tmp_path).unread_summary == "4 files of types that are not read: 2 .xls, 1 .odt, 1 without a suffix"
    )
    for name in ("a.1", "a.2", "a.3", "a.4"):
        (tmp_path / name).write_text("x", encoding="utf-8")
    assert list_folder(tmp_path).unread_summary.endswith(", 2 of other types")


@for_each(
    ("name", "written"),
    [
        ("a.csv", 'City,Opened,Note\r\nOslo,1854,"trains, trams | and\nbuses"\r\n\r\nLima,1870,\r\n'),
        ("a.csv", 'City;Opened;Note\nOslo;1854;"trains, trams | and\nbuses"\nLima;1870;\n'),
        ("a.tsv", "City\tOpened\tNote\nOslo\t1854\ttrains, trams | and buses\nLima\t1870\t\n"),
        ("a.csv", "sep=;\r\nCity;Opened;Note\r\nOslo;1854;trains, trams | and buses\r\nLima;1870;\r\n"),
        ("a.csv", '\n\nCity,Opened,Note\nOslo,1854,"trains, trams | and buses"\nLima,1870,\n'),
    ],
)
def test_separated_values_are_a_table(tmp_path: Path, name: str, written: str) -> None:
    """Any separator works. A line break or a bar in a value ends neither its row nor its cell."""
    (tmp_path / name).write_text(written, newline="")
    assert read(tmp_path / name).text == (
        "| City | Opened | Note |\n|---|---|---|\n| Oslo | 1854 | trains, trams \\| and buses |\n| Lima | 1870 |  |"
    )


def test_every_passage_of_a_long_table_names_its_columns(tmp_path: Path) -> None:
    """A passage without them could not be quoted as a row. No row is lost or doubled."""
    rows = [f"City {number},{1800 + number}" for number in range(500)]
    (tmp_path / "a.csv").write_text("\n".join(["Name,Opened", *rows]))
    text = read(tmp_path / "a.csv").text
    passages = [text[chunk.start : chunk.end] for chunk in split_chunks(text)]
    assert len(passages) > 5
    assert all(passage.startswith("| Name | Opened |\n|---|---|\n") for passage in passages)
    assert [line for line in text.split("\n") if "City" in line] == [f"| {row.replace(',', ' | ')} |" for row in rows]


@for_each(
    "written",
    ["a line without a separator\nanother", 'a,b\n"' + "x" * 200_000, "City,Opened\n"],
)
def test_values_that_are_no_table_keep_their_text(tmp_path: Path, written: str) -> None:
    (tmp_path / "a.csv").write_text(written)
    assert written.split("\n")[0].replace(",", " | ") in read(tmp_path / "a.csv").text.replace(",", " | ")


def test_a_wide_head_is_not_repeated_for_every_row(tmp_path: Path) -> None:
    """The text of a table of thousands of columns stays in proportion to its file."""
    written = "\n".join([",".join(f"c{number}" for number in range(5000)), *(["1"] * 20_000)])
    (tmp_path / "a.csv").write_text(written)
    assert len(read(tmp_path / "a.csv").text) < 10 * len(written)


def test_a_log_is_read_by_its_entries(tmp_path: Path) -> None:
    """An indented line belongs to the entry above."""
    (tmp_path / "a.log").write_text(
        "06:00 started\n06:01 ERROR failed\n  ValueError: no such customer\n\n06:02 stopped\n"
    )
    assert read(tmp_path / "a.log").text == (
        "- 06:00 started\n- 06:01 ERROR failed\n  ValueError: no such customer\n\n- 06:02 stopped\n"
    )
