"""The layout of a PDF decides which lines are separate blocks, and which are running text."""

from __future__ import annotations

from typing import Any

import pytest
from pypdf import PageObject
from tests.unit.infrastructure.parsing.pdf_samples import drawn_pdf, laid_out_pdf

from modules.llm_platform.domain.text.page_starts import find_page, number_pages
from modules.llm_platform.infrastructure.parsing import pdf
from modules.llm_platform.infrastructure.parsing.pdf import read_pdf

REPORT = (
    """
    72 740 20 F2 Nordwind Annual Report 2025
    72 700 14 F2 Key figures
    72 680 11 F1 In 2025 Nordwind sold 412 turbines and earned
    72 666 11 F1 1,204 million euros. Onshore grew the most, and
    72 652 11 F1 the North Sea
    72 624 11 F1 Two parks were finished early, as planned
    72 598 11 F1 Segment
    300 598 11 F1 2024
    360 598 11 F1 2025
    72 584 11 F1 Onshore
    300 584 11 F1 812.4
    360 584 11 F1 901.2
    72 570 11 F1 Services for parks of other
    300 570 11 F1 5.3
    360 570 11 F1 6.5
    """,
    """
    72 740 14 F2 Management
    72 720 11 F1 Marta Lind is the chief executive.
    """,
)


def text_of(*pages: str) -> str:
    return str(read_pdf(laid_out_pdf(*pages))["text"])


def test_headings_tables_and_gaps_end_a_block() -> None:
    """Titles, headings and tables are not joined with neighbouring sentences, also across pages."""
    assert text_of(*REPORT).split("\n\n") == [
        "Nordwind Annual Report 2025",
        "Key figures",
        "In 2025 Nordwind sold 412 turbines and earned\n1,204 million euros. Onshore grew the most, and\nthe North Sea",
        "Two parks were finished early, as planned",
        "| Segment | 2024 | 2025 |\n| --- | --- | --- |\n"
        "| Onshore | 812.4 | 901.2 |\n| Services for parks of other | 5.3 | 6.5 |",
        "Management",
        "Marta Lind is the chief executive.",
    ]


def test_the_standard_fonts_have_their_own_widths() -> None:
    """A file does not name them. With wider letters the gap between two cells was none, and each cell was a line."""
    rows = """
    72 700 10 F1 Extinguishers
    142 700 10 F1 Pierre Martin
    213 700 10 F1 Nora Beck
    72 686 10 F1 First aid kits
    142 686 10 F1 Sofia Alvarez
    213 686 10 F1 Jonas Frey
    """
    assert str(read_pdf(drawn_pdf(rows))["text"]).split("\n\n") == [
        "Extinguishers Pierre Martin Nora Beck",
        "First aid kits Sofia Alvarez Jonas Frey",
    ]


def test_page_offsets_are_at_their_headings() -> None:
    """The offsets include the blank lines."""
    answer = read_pdf(laid_out_pdf(*REPORT))
    text, starts = str(answer["text"]), number_pages(answer["pages"])
    assert [find_page(starts, text.index(words)) for words in ("Nordwind", "Services", "Management", "Marta")] == [
        1,
        1,
        2,
        2,
    ]


@pytest.mark.parametrize(
    ("pages", "text"),
    [
        (
            ("72 740 11 F1 Pumps move water over\n72 726 11 F1 the hill and", "72 740 11 F1 Mills grind it."),
            "Pumps move water over\nthe hill and\nMills grind it.",
        ),
        (
            (
                "72 740 11 F1 In\n90 740 11 F2 Norway\n132 740 11 F1 and in\n72 726 11 F2 Sweden\n120 726 11 F1 it snows.",
            ),
            "In Norway and in\nSweden it snows.",
        ),
        (
            (
                "72 740 11 F1 Let the height be\n120 710 11 F1 h = 3\n300 710 11 F1 (1)\n72 680 11 F1 where h is in metres.",
            ),
            "Let the height be\nh = 3 (1)\nwhere h is in metres.",
        ),
        (
            ("72 740 11 F1 1.\n90 740 11 F1 Close the valve of\n90 726 11 F1 Pump 3 first.",),
            "1. Close the valve of\nPump 3 first.",
        ),
        (
            (
                "72 740 11 F1 Colour\n200 740 11 F1 The colour of the\n200 726 11 F1 North Sea.\n"
                "72 712 11 F1 Length\n200 712 11 F1 Large",
            ),
            "Colour The colour of the\nNorth Sea.\n\nLength Large",
        ),
        (
            ("72 740 16 F2 How Pumps Move\n72 722 16 F2 Water\n72 690 11 F1 They turn.",),
            "How Pumps Move\nWater\n\nThey turn.",
        ),
    ],
    ids=["pages", "bold words", "formula", "list item", "long cell", "long heading"],
)
def test_running_text_is_not_divided(pages: tuple[str, ...], text: str) -> None:
    """A sentence may continue across lines, pages, bold words, formulas, item numbers and the lines of a cell."""
    assert text_of(*pages) == text


def test_a_layout_with_other_text_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Older versions of pypdf return text of forms twice. Then the text is used without its layout."""
    extract_text = PageObject.extract_text

    def tell_twice(page: PageObject, visitor_text: Any, **visitors: Any) -> str:
        visitor_text("Again.", [1, 0, 0, 1, 0, 0], [1, 0, 0, 1, 0, 0], None, 11)
        return extract_text(page, visitor_text=visitor_text, **visitors)

    monkeypatch.setattr(PageObject, "extract_text", tell_twice)
    assert text_of(REPORT[1]) == "Management\nMarta Lind is the chief executive."


def test_pages_are_joined_without_a_search_of_all_pages_before_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a file of 900 pages takes longer to join than its parser has time, and is not read at all."""
    searched: list[int] = []

    class Ended:
        def search(self, text: str) -> None:
            searched.append(len(text))

    monkeypatch.setattr(pdf, "ENDED", Ended())
    text = text_of(*(f"72 700 11 F1 Page {letter} has this sentence." for letter in "abcdefghijklmnopqrst"))
    assert len(searched) == 19
    assert sum(searched) < len(text)
