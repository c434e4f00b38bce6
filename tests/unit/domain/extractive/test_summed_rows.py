"""Totals and averages: the answer has the figure, and all rows that it was computed from."""

from __future__ import annotations

import pytest
from tests.support.cases import for_each
from tests.unit.domain.extractive.test_tables import candidates_in

from modules.llm_platform.domain.extractive.question import read_question
from modules.llm_platform.domain.extractive.summed_rows import compute_figure, find_summed_rows
from modules.llm_platform.domain.extractive.tables import MAX_COUNTED, RowsFound, SumKind, list_tables

SHOPS = """# Shops

| Shop | Month | Revenue | Visitors | Returns |
|---|---|---|---|---|
| Lyon | January | €12,400 | 910 | 4.5 % |
| Lyon | February | €13,100 | 955 | 3 % |
| Nantes | January | €8,700.50 | 640 | 2 % |
| Nantes | February | €9,300 | 702 | 2 % |
"""


def find(text: str, question: str, language: str = "en", *, is_whole: bool = True) -> RowsFound | None:
    asked = read_question(question, language)
    candidates = candidates_in(text, asked, is_whole=is_whole)
    return find_summed_rows(asked, list_tables(candidates), candidates)


@for_each(
    ("question", "figure", "rows"),
    [
        ("What is the total revenue?", "€43,500.50", 4),
        ("What was the revenue in total in January?", "€21,100.50", 2),
        ("How many visitors did Lyon have altogether?", "1865", 2),
        ("What is the average number of visitors?", "801.75", 4),
        ("How many visitors did Lyon and Nantes get together?", "3207", 4),
        ("What is the average of the returns?", "2.875 %", 4),
    ],
)
def test_the_rows_that_a_question_names_are_added(question: str, figure: str, rows: int) -> None:
    found = find(SHOPS, question)
    assert found is not None
    assert (found.figure, len(found.rows), found.read) == (figure, rows, rows)


def test_a_question_in_another_language_than_english_is_added() -> None:
    found = find(
        "| Laden | Umsatz |\n|---|---|\n| A | 1.200,50 € |\n| B | 950 € |\n| C | 3.000 € |\n",
        "Wie hoch ist der Umsatz insgesamt?",
        "de",
    )
    assert found is not None
    assert found.figure == "5.150,50 €"


@for_each(
    "question",
    [
        "What is the total revenue in Bordeaux?",  # the table may lack it
        "What is the revenue in Lyon?",
        "Which shop has the highest average revenue?",
        "What is the total of the returns?",  # shares cannot be added
        "What is the total?",
        "What does revenue mean?",
        "Why did the total revenue not fall?",
        "Which shops had more revenue than average?",
        "How many shops have revenue in total?",
        "How much can I spend in Lyon?",
    ],
)
def test_a_question_about_something_else_is_not_added(question: str) -> None:
    assert find(SHOPS, question) is None


def test_a_row_or_a_column_that_has_the_total_answers_itself() -> None:
    with_row = SHOPS + "| Total | | €43,500.50 | 3207 | |\n"
    assert find(with_row, "What is the total revenue?") is None
    unnamed = SHOPS + "| All shops | | €43,500.50 | 3207 | |\n"
    assert find(unnamed, "What is the total revenue?") is None
    assert find(SHOPS.replace("Visitors", "Total visitors"), "What is the total of visitors?") is None


def test_only_whole_tables_are_added() -> None:
    assert find(SHOPS, "What is the total revenue?", is_whole=False) is None
    long = "| Day | Visitors |\n|---|---|\n" + "".join(f"| Day {day} | {day} |\n" for day in range(MAX_COUNTED + 1))
    assert find(long, "How many visitors were there in total?") is None


@for_each(
    ("cells", "kind", "figure"),
    [
        (["1", "2", "4"], "average", "2.33"),
        (["1", "2", "3"], "average", "2"),
        (["1 200 km", "800 km"], "total", "2 000 km"),
        (["1,5", "2,25"], "total", "3,75"),
        (["-3 °C", "5 °C"], "average", "1 °C"),
        (["$1,000,000", "$2"], "total", "$1,000,002"),
    ],
)
def test_a_figure_is_written_as_the_cells_are(cells: list[str], kind: SumKind, figure: str) -> None:
    assert compute_figure(cells, kind) == figure


@pytest.mark.parametrize(
    "cells", [["5 kg", "300 g"], ["1:30", "0:45"], ["12", ""], ["1" * 30, "1"], ["2 of 3", "1 of 3"], ["n/a", "3"]]
)
def test_cells_that_are_written_differently_have_no_figure(cells: list[str]) -> None:
    assert not compute_figure(cells, "total")


TAKINGS = """| Date | Film | Adults | Total | Takings |
|---|---|---|---|---|
| 2025-02-01 | Owl | 40 | 68 | £415 |
| 2025-02-07 | Cellos | 12 | 21 | £129 |
| 2025-03-02 | Kitchens | 36 | 61 | £371 |
| 2025-03-09 | Owl | 20 | 30 | £190.50 |
"""


@for_each(
    ("question", "figure", "rows"),
    [
        ("What are the total takings in February 2025?", "£544", 2),
        ("total takings in March", "£561.50", 2),
        ("average takings in February", "£272", 2),
    ],
)
def test_the_rows_of_a_month_are_added_beside_a_column_of_totals(question: str, figure: str, rows: int) -> None:
    found = find(TAKINGS, question)
    assert found is not None
    assert (found.figure, len(found.row_indices)) == (figure, rows)


ORDERS = """# Orders

| Order no | Date | Customer | Quantity | Amount (£) |
|---|---|---|---|---|
| 1 | 2025-03-03 | Café Lindley | 24 | 216.00 |
| 2 | 2025-03-10 | Owen Price | 1 | 70.00 |
| 3 | 2025-04-15 | Café Lindley | 3 | 135.00 |
"""
MONTHS = """| Town | May | June |
|---|---|---|
| Lyon | 300 | 160 |
| Nantes | 330 | 180 |
| Rennes | 110 | 90 |
"""


@for_each(
    ("text", "question", "figure"),
    [
        (ORDERS, "What is the total of the orders in March 2025?", "286.00"),
        (ORDERS, "How much did Café Lindley order altogether?", "351.00"),
        (ORDERS, "How much did Café Lindley spend?", "351.00"),
        (MONTHS, "What was the total in May?", "740"),
    ],
)
def test_rows_without_a_named_column_are_added_by_their_money_or_month(text: str, question: str, figure: str) -> None:
    found = find(text, question)
    assert found is not None
    assert found.figure == figure
