"""The tables of PDFs are read as tables: files that seven programs wrote, and pages written by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.infrastructure.parsing.pdf_samples import laid_out_pdf

from modules.llm_platform.infrastructure.parsing.pdf import read_pdf
from modules.llm_platform.infrastructure.parsing.pdf_texts import divide_text

FILES = Path(__file__).parent / "pdf_tables"
SITES = """\
| Site | Refrigerant charge | Average COP | Notes on operation | Budget |
| --- | --- | --- | --- | --- |
| Graz | 3.6 kg | 4.1 | {graz} | 48,300.50 € |
| Lyon Part-Dieu | 12.0 kg | 3.2 |  | 51,200 € |
| Freiburg | 0.9 kg | 3.9 | Noise complaints from the neighbours in 2025; a wall was built | 7,900 € |
| Tromsø | 4.4 kg |  | Heat meter broken | 120,000 € |
| Total | 20.9 kg |  |  | 227,400.50 € |"""
IN_SPRING = "Runs without a failure since the compressor was replaced in spring"
IN_OFFICE = "Runs without a failure since the compressor was replaced in the first office"
STAFF = """
72 700 10 F1 Name
172 700 10 F1 Office
272 700 10 F1 Phone
72 686 10 F1 Marta Lind
172 686 10 F1 Oslo
272 686 10 F1 117
72 672 10 F1 Jonas Frey
172 672 10 F1 Graz
272 672 10 F1 204
"""


def read(page: str, *others: str) -> list[str]:
    return str(read_pdf(laid_out_pdf(page, *others))["text"]).split("\n\n")


@pytest.mark.parametrize("name", ["chromium", "chromium_ruled", "libreoffice", "fpdf2", "reportlab", "weasyprint"])
def test_tables_of_different_programs_are_read(name: str) -> None:
    """Cells with several lines, empty cells and right-aligned numbers are read, with or without rules."""
    text = str(read_pdf((FILES / f"{name}.pdf").read_bytes())["text"]).replace("EUR", "€")
    before, after = text.split(SITES.format(graz=IN_SPRING))
    assert before.rstrip("\n").endswith("what they found in each of them.") or before.endswith("each of them.\n\n")
    assert after.startswith("\n\nThe budget covers repairs")


def test_tables_of_latex_are_read() -> None:
    """A row is one operator, or its cells run together with ligatures. Items, terms and equations are no tables."""
    text = str(read_pdf((FILES / "latex.pdf").read_bytes())["text"])
    sites = SITES.format(graz=IN_OFFICE).replace(" €", "").replace("Tromsø", "Troms")
    offices = """\
| Office | 2024 | 2025 | Offer |
| --- | --- | --- | --- |
| Flensburg | 12 | 14 | different office |
| Offenbach | 3 | 5 | none |
| Fifth Avenue | 9 | 11 | first |"""
    assert sites in text
    assert offices in text
    assert text.count("\n| --- ") == 2
    assert "\n\n-b does none\n\n-c does half\n\n" in text


def test_the_columns_of_a_sheet_are_a_table_on_each_of_their_pages() -> None:
    text = str(read_pdf((FILES / "libreoffice_sheet.pdf").read_bytes())["text"])
    assert "| Tromsø | 4.4 kg |  |\n| Total | 20.9 kg |  |\n\n" in text


def test_a_continued_table_has_the_names_of_its_columns() -> None:
    """On the next page the table continues with another row.

    A table there with its own bold names, or with other columns, keeps them.
    """
    rest = STAFF.replace("Name", "Ida Moe").replace("Office", "Bonn").replace("Phone", "31")
    own = STAFF.replace("F1 Name", "F2 Room").replace("F1 Office", "F2 Floor").replace("F1 Phone", "F2 Seats")
    other = STAFF.replace("272 ", "400 ").replace("Name", "Item").replace("Office", "Colour").replace("Phone", "Price")
    first, *_ = read(STAFF)
    names, rule, *rows = first.split("\n")
    assert (names, rule) == ("| Name | Office | Phone |", "| --- | --- | --- |")
    assert read(STAFF, rest) == [first, "\n".join([names, rule, "| Ida Moe | Bonn | 31 |", *rows])]
    assert read(STAFF, own)[1].startswith("| Room | Floor | Seats |")
    assert read(STAFF, other)[1].startswith("| Item | Colour | Price |")


def test_a_name_and_the_numbers_below_it_are_one_column() -> None:
    """The name is left-aligned and the numbers right-aligned, so they do not overlap."""
    page = STAFF.replace("272 686 10 F1 117", "330 686 10 F1 117").replace("272 672 10 F1 204", "330 672 10 F1 204")
    assert read(page) == read(STAFF)


@pytest.mark.parametrize(
    ("page", "line"),
    [
        pytest.param(
            "72 700 10 F1 -a\n120 700 10 F1 Show hidden files\n72 686 10 F1 -l\n120 686 10 F1 Show owners\n"
            "72 672 10 F1 -r\n120 672 10 F1 Reverse the order",
            "-a Show hidden files\n-l Show owners\n-r Reverse the order",
            id="terms",
        ),
        pytest.param(
            "72 700 10 F1 Pumps move water over\n72 686 10 F1 the hill every day and\n72 672 10 F1 night.\n"
            "320 700 10 F1 Mills grind the corn\n320 686 10 F1 of the valley, and the\n320 672 10 F1 bakers wait.",
            "Pumps move water over\nthe hill every day and\nnight.\nMills grind the corn\nof the valley, and the\nbakers wait.",
            id="columns of an article",
        ),
        pytest.param(
            "72 700 10 F1 Place\n172 700 10 F1 Bonn\n72 686 10 F1 Date\n172 686 10 F1 4 May 2026\n"
            "72 672 10 F1 Sum\n172 672 10 F1 31 euros",
            "Place Bonn",
            id="form",
        ),
        pytest.param(
            "72 700 10 F1 3 March\n172 700 10 F1 Oslo\n272 700 10 F1 14:30\n72 686 10 F1 4 March\n172 686 10 F1 Bonn\n"
            "272 686 10 F1 9:15\n72 672 10 F1 5 March\n172 672 10 F1 Graz\n272 672 10 F1 11:00",
            "3 March Oslo 14:30",
            id="rows without names",
        ),
    ],
)
def test_what_has_no_names_is_no_table(page: str, line: str) -> None:
    """Its first row would be taken for names. Each row is a line."""
    blocks = read(page)
    assert line in blocks
    assert not any(block.startswith("|") for block in blocks)


def test_a_paragraph_and_a_heading_near_a_table_stay_out_of_it() -> None:
    page = f"72 718 10 F1 All of us can be reached from nine to five on working days.\n{STAFF.strip()}\n72 650 10 F1 Call us."
    assert read(page) == ["All of us can be reached from nine to five on working days.", *read(STAFF), "Call us."]


def test_the_parts_of_a_line_are_told_by_their_codes() -> None:
    """With a code for the blank or without one, and with ligatures of one code. A text that does not fit stays whole."""
    assert divide_text("Fifth Avenue 9 11", [12, 1, 2]) == ["Fifth Avenue", "9", "11"]
    assert divide_text("Fifth Avenue 9 11", [11, 1, 2]) == ["Fifth Avenue", "9", "11"]
    assert divide_text("Offenbach office 3", [13, 1]) == ["Offenbach office", "3"]
    assert divide_text("Oslo Graz", [5, 3]) == ["Oslo Graz"]
    assert divide_text("Oslo", [9]) == ["Oslo"]


def test_the_titles_of_groups_of_rows_are_headings() -> None:
    """A group title is one text in a different font above its rows. Rows after a gap still have the column names."""
    groups = """
    72 700 10 F2 Euros
    172 700 10 F2 2025
    272 700 10 F2 2026
    72 686 10 F2 Income
    72 672 10 F1 Fees
    172 672 10 F1 400
    272 672 10 F1 420
    72 658 10 F2 Costs
    72 644 10 F1 Rent
    172 644 10 F1 310
    272 644 10 F1 330
    72 594 10 F2 Reserves
    72 580 10 F1 Roof
    172 580 10 F1 900
    272 580 10 F1 950
    72 566 10 F1 Lift
    172 566 10 F1 120
    272 566 10 F1 140
    72 552 10 F1 Paint
    172 552 10 F1 20
    272 552 10 F1 0
    """
    names = "| Euros | 2025 | 2026 |\n| --- | --- | --- |"
    assert read(groups) == [
        "### Income",
        f"{names}\n| Fees | 400 | 420 |",
        "### Costs",
        f"{names}\n| Rent | 310 | 330 |",
        "### Reserves",
        f"{names}\n| Roof | 900 | 950 |\n| Lift | 120 | 140 |\n| Paint | 20 | 0 |",
    ]


def test_a_table_with_another_number_of_columns_gets_no_names() -> None:
    """On the first page, a name and its numbers form one column. On the next page there is text at both positions."""
    first = STAFF.replace("272 686 10 F1 117", "330 686 10 F1 117").replace("272 672 10 F1 204", "330 672 10 F1 204")
    cells = ((x, y) for y in (700, 686, 672) for x in (72, 172, 272, 330))
    next_page = "\n".join(f"{x} {y} 10 F1 {number}" for number, (x, y) in enumerate(cells, 10))
    assert read(first, next_page)[1:] == ["10 11 12 13", "14 15 16 17", "18 19 20 21"]


def test_the_title_that_reportlab_gives_to_a_file_without_one_is_none() -> None:
    """The name of the file is its title then, in place of `(anonymous)`."""
    assert read_pdf((FILES / "reportlab.pdf").read_bytes())["title"] is None
