"""Excel workbooks and PowerPoint presentations become text: files that openpyxl, XlsxWriter and python-pptx wrote, and others."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import pytest
from tests.support.cases import for_each

from modules.llm_platform.domain.privacy.redaction import Redactor
from modules.llm_platform.infrastructure.documents.reading import read_content
from modules.llm_platform.infrastructure.parsing import excel, powerpoint
from modules.llm_platform.infrastructure.parsing.excel import HIDDEN, read_xlsx
from modules.llm_platform.infrastructure.parsing.parser_process import Parsed, ParserProcess
from modules.llm_platform.infrastructure.parsing.powerpoint import read_pptx

OFFICE = Path(__file__).parent / "office"
RELATIONS = 'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'


def archive(parts: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name, text in parts.items():
            file.writestr(name, text)
    return buffer.getvalue()


def xlsx(*sheets: str, book: str = "", styles: str = "", strings: str = "") -> bytes:
    """Return a workbook of these sheets, each the rows of its cells."""
    named = "".join(f'<sheet name="S{number}" r:id="r{number}"/>' for number in range(len(sheets)))
    relations = "".join(
        f'<Relationship Id="r{number}" Target="/xl/worksheets/sheet{number}.xml"/>' for number in range(len(sheets))
    )
    parts = {
        "xl/workbook.xml": f"<workbook {RELATIONS}>{book}<sheets>{named}</sheets></workbook>",
        "xl/_rels/workbook.xml.rels": f"<Relationships>{relations}</Relationships>",
        "xl/styles.xml": f"<styleSheet>{styles}</styleSheet>",
        "xl/sharedStrings.xml": f"<sst>{strings}</sst>",
    }
    for number, rows in enumerate(sheets):
        parts[f"xl/worksheets/sheet{number}.xml"] = f"<worksheet><sheetData>{rows}</sheetData></worksheet>"
    return archive(parts)


def text_of(answer: dict[str, Any]) -> str:
    assert "error" not in answer, answer
    return str(answer["text"])


def cell(value: object, kind: str = "n", style: int = 0) -> str:
    if isinstance(value, str) and kind == "n":
        return f'<c t="inlineStr"><is><t>{value}</t></is></c>'
    return f'<c t="{kind}" s="{style}"><v>{value}</v></c>'


def rows(*lines: tuple[object, ...]) -> str:
    """Return the rows; an empty one has no cells and takes its place."""
    return "".join(
        f'<row r="{number}">{"".join(map(cell, line))}</row>' for number, line in enumerate(lines, 1) if line
    )


def test_a_workbook_is_tables_below_the_names_of_its_sheets() -> None:
    """A row of one cell above a table is a title, an empty row within it ends it not, and a bar in a cell divides nothing."""
    with ParserProcess() as parser:
        parsed = read_content("annual-report.xlsx", OFFICE / "sites.xlsx", parser, Redactor())
    assert parsed == Parsed(
        "# Sites\n\n"
        "Heat pump sites 2026\n\n"
        "| Site | Opened | Average COP | Share renewable | Budget | Last call | Active |\n"
        "|---|---|---|---|---|---|---|\n"
        "| Graz | 2019-04-01 | 3.6 | 74% | 48300.5 € | 2026-03-02 14:30 | TRUE |\n"
        "| Lyon | 2020-09-15 | 3.1 | 50% | 51200 € | 2026-04-12 09:05 | FALSE |\n"
        "| Tromsø | 2018-01-30 | 2.9 | 100% | 39900 € | 2026-05-01 16:00 | TRUE |\n"
        "| Ghent | 2022-01-01 | 3.3 | 0.8 | 1000 |  | TRUE |\n\n"
        "# Staff\n\n"
        "| Name | Role | Hours |\n|---|---|---|\n| Ana Silva | Technician | 38.5 |\n| Jon Berg | Planner \\| lead |  |",
        "annual report",
        HIDDEN,
    )


def test_the_name_of_an_only_sheet_is_left_out_and_hidden_columns_too() -> None:
    answer = read_xlsx(str(OFFICE / "rooms.xlsx"))
    assert text_of(answer) == (
        "| Room | From | Worked | At | Price |\n|---|---|---|---|---|\n"
        "| Blue | 2026-02-03 | 36:00 | 12:00 | 12.5 £ |\n| Green | TRUE |  |  | 3 |"
    )
    assert answer["note"] == HIDDEN


@for_each(
    "number_format, value, shown",
    [
        ("General", 0.1 + 0.2, "0.3"),
        ("0.00", 1200, "1200"),
        ("0.0%", 0.0155, "1.55%"),
        ("[$-407]d. mmmm yyyy", 46_112, "2026-03-31"),
        ('dd/mm/yyyy "at" hh:mm', 46_112.75, "2026-03-31 18:00"),
        ("hh:mm:ss", 0.500_011_574, "12:00:01"),
        ("mmm", 46_112, "2026-03-31"),
        ("mm:ss", 0.5, "12:00"),
        ("[hh]:mm", 1.25, "30:00"),
        ('0 "days"', 3, "3"),
        ("[Red]0", 3, "3"),
        ("yyyy", 9e99, "9e+99"),
        ('#,##0 "$"', 12, "12 $"),
    ],
)
def test_a_number_is_what_its_cell_shows(number_format: str, value: float, shown: str) -> None:
    """Dates, times, shares and currencies; other numbers with all their digits."""
    code = number_format.replace('"', "&quot;")
    styles = f'<numFmts><numFmt numFmtId="170" formatCode="{code}"/></numFmts><cellXfs><xf numFmtId="170"/></cellXfs>'
    answer = read_xlsx(xlsx(f'<row r="1">{cell(value)}</row>', styles=styles))
    assert text_of(answer) == shown


def test_dates_may_be_counted_from_1904() -> None:
    styles = '<cellXfs><xf numFmtId="14"/></cellXfs>'
    answer = read_xlsx(xlsx(f"<row>{cell(44_650)}</row>", book='<workbookPr date1904="1"/>', styles=styles))
    assert text_of(answer) == "2026-03-31"


def test_value_merged_over_rows_is_in_each_of_them() -> None:
    """Without the value a row would lack its subject, and would not be counted with the others."""
    merged = '<mergeCells><mergeCell ref="A2:A3"/><mergeCell ref="A4:A9999999"/><mergeCell ref="B2:C2"/></mergeCells>'
    lines = (
        ("Region", "City", "Staff"),
        ("North", "Kiel", 5),
        (None, "Emden", 8),
        ("South", "Ulm", 2),
        (None, "Lindau", 3),
    )
    filled = "".join(
        f'<row r="{number}">'
        + "".join(
            cell(value).replace("<c ", f'<c r="{column}{number}" ', 1)
            for column, value in zip("ABC", line, strict=True)
            if value
        )
        + "</row>"
        for number, line in enumerate(lines, 1)
    )
    body = text_of(read_xlsx(xlsx(f"{filled}</sheetData>{merged}<sheetData>"))).split("\n")[2:]
    assert body == ["| North | Kiel | 5 |", "| North | Emden | 8 |", "| South | Ulm | 2 |", "| South | Lindau | 3 |"]


def test_tables_of_a_sheet_are_separate() -> None:
    """Column names after an empty row begin another table, and so do numbers below a title."""
    sheet = rows(("a", "b"), (1, 2), (), ("c", "d"), (3, 4), (), ("Note",), (), ("e", 2025), ("f", 5))
    assert text_of(read_xlsx(xlsx(sheet))).split("\n\n") == [
        "| a | b |\n|---|---|\n| 1 | 2 |",
        "| c | d |\n|---|---|\n| 3 | 4 |",
        "Note",
        "| e | 2025 |\n|---|---|\n| f | 5 |",
    ]


def test_cells_have_columns_and_texts_may_be_shared() -> None:
    """A cell that is left out keeps its place. Readings of Japanese words and errors are no text."""
    strings = "<si><r><t>To</t></r><r><t>kyo</t></r><rPh><t>x</t></rPh></si>"
    sheet = (
        f'<row r="1">{cell("a")}{cell("b")}{cell("c")}</row>'
        '<row r="2"><c r="A2" t="s"><v>0</v></c><c r="C2" t="s"><v>9</v></c></row>'
        '<row r="3"><c r="B3" t="e"><v>#N/A</v></c><c r="C3"><f>1+1</f><v>2</v></c></row>'
    )
    assert text_of(read_xlsx(xlsx(sheet, strings=strings))).splitlines()[2:] == ["| Tokyo |  |  |", "|  |  | 2 |"]


def test_hidden_rows_are_left_out_with_a_note() -> None:
    answer = read_xlsx(xlsx(f'{rows(("a", "b"))}<row r="2" hidden="1">{cell(1)}{cell(2)}</row>'))
    assert (answer["note"], "1" in text_of(answer)) == (HIDDEN, False)


def test_a_workbook_is_read_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a note: by rows, by characters, and by columns."""
    monkeypatch.setattr(excel, "MAX_ROWS", 2)
    monkeypatch.setattr(excel, "MAX_COLUMNS", 2)
    answer = read_xlsx(xlsx(rows(("a", "b"), *[(number, 2) for number in range(50_000)])))
    assert answer["note"] == excel.IN_PART
    answer = read_xlsx(xlsx(rows(("a", "b", "c"))))
    assert (answer["text"], answer["note"]) == ("| a | b |\n|---|---|", "only the first 2 columns of a sheet were read")
    monkeypatch.setattr(excel, "MAX_SHEETS", 1)
    answer = read_xlsx(xlsx(rows(("a", "b")), rows(("c", "d"))))
    assert (answer["text"], answer["note"]) == ("| a | b |\n|---|---|", "only its first 1 sheets were read")


def test_a_presentation_is_its_slides_below_their_titles() -> None:
    with ParserProcess() as parser:
        parsed = read_content("deck.pptx", OFFICE / "plan.pptx", parser, Redactor())
    assert parsed.text.split("\n\n") == [
        "# Plan for 2027",
        "- The plant opens on 2 September\n- Ninety staff are hired",
        "# Costs",
        "| Item | Euro |\n| --- | --- |\n| Pumps | 12,000 |\n| Pipes | 3,400 |",
    ]
    assert parsed.title == "Plan for 2027"


def shape(text: str, kind: str = "", *, hidden: bool = False) -> str:
    holder = f'<nvPr><ph type="{kind}"/></nvPr>' if kind else ""
    name = '<cNvPr hidden="1"/>' if hidden else "<cNvPr/>"
    return f"<sp><nvSpPr>{name}{holder}</nvSpPr><txBody><p><r><t>{text}</t></r></p></txBody></sp>"


def test_what_a_presentation_does_not_show_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hidden slides and shapes, footers and numbers, and what older programs show in place of a shape."""
    slides = [
        shape("Title", "title") + shape("Shown") + shape("Secret", hidden=True) + shape("7", "sldNum"),
        f"<AlternateContent><Choice>{shape('New')}</Choice><Fallback>{shape('Old')}</Fallback></AlternateContent>",
        shape("Hidden slide"),
    ]
    listed = "".join(f'<sldId r:id="r{number}" id="{256 + number}"/>' for number in range(3))
    relations = "".join(
        f'<Relationship Id="r{number}" Target="slides/slide{number}.xml"/>' for number in reversed(range(3))
    )
    parts = {
        "ppt/presentation.xml": f"<presentation {RELATIONS}><sldIdLst>{listed}</sldIdLst></presentation>",
        "ppt/_rels/presentation.xml.rels": f"<Relationships>{relations}</Relationships>",
    }
    for number, shapes in enumerate(slides):
        parts[f"ppt/slides/slide{number}.xml"] = f'<sld show="{int(number < 2)}">{shapes}</sld>'
    assert text_of(read_pptx(archive(parts))) == "# Title\n\nShown\n\nNew"
    monkeypatch.setattr(powerpoint, "MAX_SLIDES", 1)
    answer = read_pptx(archive(parts))
    assert (answer["text"], answer["note"]) == ("# Title\n\nShown", "only its first 1 slides were read")


@for_each("read", [read_xlsx, read_pptx])
@for_each(
    "data",
    [b"", b"PK\x03\x04 nonsense", archive({"a": "b"}), archive({"xl/workbook.xml": "<a", "ppt/presentation.xml": "<"})],
)
def test_a_broken_file_is_an_error(read: Any, data: bytes) -> None:
    assert "it is not a" in read(data)["error"]
