"""Questions about the rows of a table: the rows that have the most, the latest date, or that are counted, are quoted."""

from __future__ import annotations

from tests.support.cases import for_each

from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.extractive.candidates import Candidate, match_sources
from modules.llm_platform.domain.extractive.compared_rows import find_ranked_rows
from modules.llm_platform.domain.extractive.question import Question, read_question
from modules.llm_platform.domain.extractive.rendering import render_rows
from modules.llm_platform.domain.extractive.tables import RowsFound, list_tables
from modules.llm_platform.domain.text.messages import get_messages

BOATS = """# Boats

| Boat | Type | Seats | Price | Bought | Insured |
|---|---|---|---|---|---|
| Anna | canoe | 2 | £1,200 | 2015-04-01 | yes |
| Bella | canoe | 3 | £950 | 2019-06-11 | no |
| Carla | rowing boat | 5 | £4,300 | 2001-01-30 | yes |
| Dora | rowing boat | 4 | £3,100.50 | 2022-09-09 | yes |
"""
ORDERS = """| Bestellung | Kunde | Menge | Einzelpreis_EUR | Lieferdatum |
|---|---|---|---|---|
| B-1 | Kita Mond | 30 | 2,40 | 03.05.2024 |
| B-2 | Praxis Ost | 2 | 149,00 | 11.04.2024 |
| B-3 | Kita Mond | 1.200 | 0,85 | 20.05.2024 |
"""


def candidates_in(text: str, asked: Question, *, is_whole: bool = True) -> list[Candidate]:
    source = Source(index=1, title="boats", url="https://a.example/", text=text, is_whole=is_whole)
    return match_sources(asked, [source])


def found_in(text: str, question: str, language: str = "en", *, is_whole: bool = True) -> RowsFound | None:
    asked = read_question(question, language)
    candidates = candidates_in(text, asked, is_whole=is_whole)
    return find_ranked_rows(asked, list_tables(candidates), candidates)


def measures(column: str, *cells: str) -> str:
    """Return a table with these cells in one column: the rows are `row 0`, `row 1` and so on."""
    rows = "".join(f"| row {number} | {cell} |\n" for number, cell in enumerate(cells))
    return f"| Model | {column} |\n|---|---|\n{rows}"


def names(found: RowsFound | None) -> list[str] | None:
    return None if found is None else [row[0] for row in found.rows]


LIMITS = """| Animal | Minimum age of adopter | Fee |
|---|---|---|
| Dog | 21 | £220 |
| Cat | 18 | £95 |
| Puppy | 23 | £280 |
"""
ROOMS = "| Room | Max guests | Floor |\n|---|---|---|\n| A | 12 | 1 |\n| B | 40 | 1 |\n| C | 25 | 2 |\n"
PER_DAY = "| Name | eur_per_day |\n|---|---|\n| drill | 12 |\n| saw | 7 |\n| sander | 18 |\n"
YEARLY = """| Plant | Price 2024 | Price 2025 |
|---|---|---|
| fern | £14 | £12 |
| acer | £11 | £15 |
| ivy | £4 | £5 |
"""
RENTAL = """| Item | Price per day (£) | Price per week (£) | Deposit (£) |
|---|---|---|---|
| saw | 4 | 30 | 40 |
| mixer | 9 | 52 | 90 |
| props | 12 | 20 | 10 |
"""
HIRE = """| item | day_gbp | week_gbp |
|---|---|---|
| drill | 18 | 54 |
| props | 9 | 60 |
| saw | 12 | 36 |
"""


@for_each(
    ("text", "question", "rows"),
    [
        (LIMITS, "How old is the oldest adopter?", None),
        (LIMITS, "Which animal has the highest minimum age?", ["Puppy"]),
        (ROOMS, "Which room has the most guests?", ["B"]),
        (PER_DAY, "Which device is the cheapest?", ["saw"]),
        (HIRE, "What is the cheapest item for a day?", ["props"]),
        (HIRE, "What is the cheapest item for a week?", ["saw"]),
        (RENTAL, "What is the cheapest item per day?", ["saw"]),
        (RENTAL, "What is the most expensive item per week?", ["mixer"]),
        (RENTAL, "What is the cheapest item?", None),
        (YEARLY, "What is the dearest plant this year?", ["acer"]),
        (YEARLY, "What was the dearest plant in 2024?", ["fern"]),
        (YEARLY, "What was the dearest plant originally?", None),
        (YEARLY, "Which plant got the most expensive?", None),
    ],
)
def test_the_name_of_a_column_says_what_is_compared(text: str, question: str, rows: list[str] | None) -> None:
    """A minimum age is nobody's age, a room's maximum is its own, and both `day_gbp` and `eur_per_day` are prices."""
    assert names(found_in(text, question)) == rows


@for_each(
    "question, rows",
    [
        ("Which boat has the most seats?", ["Carla"]),
        ("Which boat has the fewest seats?", ["Anna"]),
        ("Which canoe is the cheapest?", ["Bella"]),
        ("What is the most expensive boat?", ["Carla"]),
        ("What is the oldest boat?", ["Carla"]),
        ("Which boat was bought last?", ["Dora"]),
        ("How many boats are insured?", ["Anna", "Carla", "Dora"]),
        ("How many rowing boats do we have?", ["Carla", "Dora"]),
    ],
)
def test_the_rows_that_answer_are_found(question: str, rows: list[str]) -> None:
    assert names(found_in(BOATS, question)) == rows


@for_each(
    ("question", "column", "cells", "row"),
    [
        ("Which model is the quietest?", "Noise", ("39 dB", "46 dB", "36 dB"), "row 2"),
        ("Welches ist das lauteste Model?", "Lautstärke", ("39 dB", "46 dB", "36 dB"), "row 1"),
        ("Which model is the strongest?", "ABV", ("4.2 %", "3.8 %", "6.1 %"), "row 2"),
    ],
)
def test_noise_and_strength_are_measures(question: str, column: str, cells: tuple[str, ...], row: str) -> None:
    """ "quietest" and "strongest" mean these columns."""
    assert names(found_in(measures(column, *cells), question, "de" if "Welches" in question else "en")) == [row]


@for_each(
    "question, rows",
    [
        ("Welche Bestellung hat den höchsten Einzelpreis?", ["B-2"]),
        ("Welche Bestellung hat die größte Menge?", ["B-3"]),
        ("Was ist die neueste Bestellung?", ["B-3"]),
        ("Wie viele Bestellungen kamen von Kita Mond?", ["B-1", "B-3"]),
    ],
)
def test_figures_and_dates_are_read_as_a_german_table_writes_them(question: str, rows: list[str]) -> None:
    assert names(found_in(ORDERS, question, "de")) == rows


@for_each(
    "question",
    [
        "How many seats does Anna have?",  # a cell, not a count of rows
        "How many boats are there?",  # nothing says that the table has them all
        "Which boat is the best?",  # no column measures it
        "Which boats are not insured and how many?",
        "Which car has the most doors?",  # another table
        "Which boat is the heaviest?",  # no column, and two others that could be meant
    ],
)
def test_what_the_table_does_not_settle_has_no_answer(question: str) -> None:
    assert found_in(BOATS, question) is None


def test_a_single_row_is_named_and_not_counted() -> None:
    """The row of one boat, below `1 of 4 rows`, says nothing about its masts."""
    table = (
        "| Number | Boat | Type |\n|---|---|---|\n| 1 | Anna | canoe |\n| 2 | Bella | canoe |\n| 3 | Carla | raft |\n"
    )
    assert found_in(table, "How many masts does Carla have?") is None
    assert names(found_in(table, "How many canoes are there?")) == ["1", "2"]


def test_a_long_row_that_is_not_read_leaves_the_table_without_an_answer() -> None:
    """It may be the one with the most."""
    table = f"{BOATS}| Emma | raft {'of old barrels ' * 100} | 12 | £10 | 2024-01-01 | no |\n"
    assert found_in(table, "Which boat has the most seats?") is None


def test_a_table_of_thousands_of_rows_is_compared() -> None:
    """The last row has the most."""
    table = measures("Pumps", *map(str, range(3000)))
    found = found_in(table, "Which model has the most pumps?")
    assert found is not None
    assert (names(found), found.read) == (["row 2999"], 3000)


SERVICES = """| Boat | Type | Last service | First owner | Seats |
|---|---|---|---|---|
| Anna | canoe | 2024-03-01 | Lena Fuchs | 2 |
| Bella | canoe | 2025-05-01 | | 3 |
| Carla | rowing boat | 2023-07-01 | Jan Roth | 5 |
"""


def test_two_named_rows_are_compared_and_one_is_not() -> None:
    assert names(found_in(SERVICES, "Which has the most seats, Anna or Bella?")) == ["Bella"]
    assert found_in(SERVICES, "When was the last service of Anna?") is None


def test_a_column_that_is_named_in_full_is_compared() -> None:
    table = """| Tariff | Monthly fee | Per hour |
|---|---|---|
| Start | 0 | 3.20 |
| Basic | 6 | 2.60 |
| Often | 18 | 1.90 |
"""
    assert names(found_in(table, "Which tariff has the lowest fee per hour?")) == ["Often"]
    assert names(found_in(table, "Which tariff has the highest monthly fee?")) == ["Often"]
    assert found_in(table, "Which tariff has the highest fee for an hour?") is None


def found_in_tables(question: str, *texts: str) -> RowsFound | None:
    asked = read_question(question, "en")
    sources = [
        Source(index=number, title=f"file {number}", url=f"https://a.example/{number}", text=text, is_whole=True)
        for number, text in enumerate(texts, 1)
    ]
    candidates = match_sources(asked, sources)
    return find_ranked_rows(asked, list_tables(candidates), candidates)


EXTRAS = """| Item | Price | Note |
|---|---|---|
| Child seat | 2.50 | booked with the boat |
| Cleaning | 45.00 | if it is dirty |
| Lost key | 35.00 | |
"""


def test_a_word_in_the_text_of_a_cell_does_not_make_a_table_the_one_that_is_asked_about() -> None:
    """The dearest extra is no boat, though a note on an extra names boats."""
    assert found_in_tables("Which boat is the most expensive?", EXTRAS) is None
    assert names(found_in_tables("Which boat is the most expensive?", EXTRAS, BOATS)) == ["Carla"]


def test_of_equally_close_tables_the_one_that_can_answer_is_used() -> None:
    """If several tables can answer, the intended one is uncertain."""
    berths = "| Boat | Berth |\n|---|---|\n| Anna | A |\n| Bella | B |\n| Carla | C |\n"
    assert names(found_in_tables("Which boat is the oldest?", berths, BOATS)) == ["Carla"]
    assert found_in_tables("Which boat is the oldest?", BOATS, BOATS.replace("Carla", "Emma")) is None


def test_a_column_that_the_question_names_comes_before_the_only_one_of_another_table() -> None:
    """Both tables have one word of the question, and both have one column of dates."""
    checks = "| Boat | Next check |\n|---|---|\n| Anna | 2026-04-01 |\n| Bella | 2026-02-01 |\n| Carla | 2026-03-01 |\n"
    bought = "| Name | Bought |\n|---|---|\n| Anna | 2015-04-01 |\n| Bella | 2019-06-11 |\n| Carla | 2001-01-30 |\n"
    assert names(found_in_tables("Which boat was bought first?", checks, bought)) == ["Carla"]


def test_a_part_of_a_table_settles_nothing() -> None:
    """The passage that a search found may lack the row with the most."""
    assert found_in(BOATS, "Which boat has the most seats?", is_whole=False) is None


def test_a_row_of_totals_is_none_of_the_rows() -> None:
    table = f"{BOATS}| Total | | 14 | £9,550.50 | | |\n"
    assert names(found_in(table, "Which boat has the most seats?")) == ["Carla"]


def test_the_answer_says_what_was_compared() -> None:
    """The rows are quoted below a line that names the column and how many rows there were."""
    found = found_in(BOATS, "Which canoe is the cheapest?")
    assert found is not None
    lead, _, head, _, row = render_rows(found, get_messages("en")).splitlines()
    assert lead == "Lowest “Price” of 2 rows:"
    assert head == "| Boat | Type | Seats | Price | Bought | Insured |"
    assert row == "| Bella | canoe | 3 | £950 | 2019-06-11 | no [1] |"


def test_equal_rows_are_all_shown() -> None:
    """Up to four; more of them are no answer."""
    rows = "".join(f"| Boat {number} | 3 | |\n" for number in range(5))
    table = f"| Boat | Seats | Note |\n|---|---|---|\n{rows}| Big | 9 | |\n"
    assert names(found_in(table, "Which boat has the most seats?")) == ["Big"]
    assert found_in(table, "Which boat has the fewest seats?") is None


@for_each(
    "cells, highest",
    [
        (("0.5", "0.125", "0.25"), "row 0"),
        (("1.250", "0.875", "2.5"), "row 2"),  # the other cells show that the point is a decimal one
        (("0,5", "0,125", "0,25"), "row 0"),
        (("1,234.567", "99,999.5", "5"), "row 1"),
        (("1.234,567", "99.999,5", "5"), "row 1"),
        (("1234.567", "99,999", "5"), "row 1"),  # no group of thousands has four digits before it
        (("1,234,567", "9,999", "12"), "row 0"),
        (("12,34,567", "9,99,999", "12"), "row 0"),  # lakhs
        ((".5", ".125", ".25"), "row 0"),
        (("+2.5%", "-3.0%", "+1.5%"), "row 0"),
    ],
)
def test_a_decimal_sign_is_known_from_the_whole_column(cells: tuple[str, ...], highest: str) -> None:
    assert names(found_in(measures("Accuracy", *cells), "Which model has the highest accuracy?")) == [highest]


@for_each(
    "cells",
    [
        ("1.234.567", "2.5", "9"),  # the point groups thousands, and is a decimal one
        ("0,5", "0.125", "0.25"),
        ("1.10.2", "1.9.3", "1.2.7"),  # versions
        ("1.234,567,890", "2", "3"),
    ],
)
def test_figures_in_two_styles_are_not_compared(cells: tuple[str, ...]) -> None:
    assert found_in(measures("Accuracy", *cells), "Which model has the highest accuracy?") is None


@for_each(
    "cells",
    [
        ("900 MB", "1 kg", "2 GB"),
        ("$900,000", "$1.2 million", "$800,000"),
        ("50 min", "2 km", "1 h"),
        ("$90", "€80", "$70"),
        ("EUR 90", "USD 80", "USD 70"),
        ("900", "2k", "800"),
    ],
)
def test_figures_of_several_units_are_not_compared(cells: tuple[str, ...]) -> None:
    assert found_in(measures("Size", *cells), "Which model has the largest size?") is None
    assert found_in(measures("Size", *cells), "Which model has the smallest size?") is None


@for_each(
    "cells",
    [
        ("50 min", "1 hour", "2 h"),
        ("900 MB", "1 GB", "2 GB"),
        ("1 hour", "2 hours", "30 h"),
        ("1 seat", "2 seats", "3 seats"),
        ("$1", "$2", "$3"),
        ("1", "-", "3", "4"),
    ],
)
def test_other_writings_of_one_unit_are_compared(cells: tuple[str, ...]) -> None:
    found = names(found_in(measures("Size", *cells), "Which model has the largest size?"))
    assert found == [f"row {len(cells) - 1}"]


def test_another_column_is_not_compared_instead() -> None:
    """The requested column has several units and is not compared. The number of ports is not an answer."""
    table = """| Disk | Size | Ports |
|---|---|---|
| A | 900 MB | 4 |
| B | 1 kg | 2 |
| C | 2 GB | 1 |
"""
    assert found_in(table, "Which disk has the largest size?") is None
    assert names(found_in(table, "Which disk has the most ports?")) == ["A"]


@for_each(
    "cells, latest",
    [
        (
            ("03/15/2024", "12/01/2024", "02/10/2024"),
            "row 1",
        ),  # 15 is no month, so that the month is first in all cells
        (("15/03/2024", "01/12/2023", "10/02/2024"), "row 0"),
        (("03.05.2024", "11.04.2024", "20.05.2023"), "row 0"),  # with dots the day is first
        (("2024-03-15", "12/31/2023", "02/10/2024"), "row 0"),
    ],
)
def test_the_order_of_day_and_month_is_known_from_the_whole_column(cells: tuple[str, ...], latest: str) -> None:
    assert names(found_in(measures("Date", *cells), "Which model has the latest date?")) == [latest]


@for_each(
    "cells",
    [
        ("03/05/2024", "12/01/2024", "02/10/2024"),  # nothing shows the order
        ("03/15/2024", "15/03/2024", "02/10/2024"),
        ("13/13/2024", "12/01/2024", "02/10/2024"),
        ("03.15.2024", "12.01.2024", "02.10.2024"),
        ("0/15/2024", "12/01/2024", "02/10/2024"),
        ("32/01/2024", "12/01/2024", "02/10/2024"),
    ],
)
def test_dates_in_an_order_that_is_not_certain_are_not_compared(cells: tuple[str, ...]) -> None:
    assert found_in(measures("Date", *cells), "Which model has the latest date?") is None
    assert found_in(measures("Date", *cells), "Which model has the earliest date?") is None


def test_a_row_of_totals_may_begin_with_an_empty_cell() -> None:
    head = "| Code | Centre | Budget |\n|---|---|---|\n"
    table = f"{head}| 1 | Lab | 30 |\n| 2 | Shop | 50 |\n| 3 | Van | 20 |\n|  | Total | 100 |\n"
    assert names(found_in(table, "Which centre has the highest budget?")) == ["2"]


def test_a_question_on_another_topic_counts_no_rows() -> None:
    """The table contains one of four words by accident."""
    assert names(found_in(BOATS, "How many people insured by the village school sing?")) is None


def test_rows_below_different_headings_are_different_tables() -> None:
    """The question names the heading."""
    head = "| Item | 2025 |\n|---|---|\n"
    income = f"## Income\n\n{head}| Fees | 900 |\n| Gifts | 40 |\n| Sales | 70 |\n"
    expenses = f"## Expenses\n\n{head}| Rent | 310 |\n| Paint | 20 |\n| Roof | 5 |\n"
    assert names(found_in(f"{income}\n{expenses}", "Which item of the expenses is the highest in 2025?")) == ["Rent"]


@for_each(
    ("cells", "latest"), [(("14.03.26", "02.05.26", "28.11.25"), "row 1"), (("1.10.12", "1.9.24", "1.2.17"), None)]
)
def test_a_year_of_two_digits_needs_a_day_and_a_month_of_two_digits(cells: tuple[str, ...], latest: str | None) -> None:
    """Other figures with two points are versions."""
    found = names(found_in(measures("Released", *cells), "Which model was released last?"))
    assert found == ([latest] if latest else None)


LOCKERS = """| Name | Locker | Standing order |
|---|---|---|
| Ann Lee | 3 | yes |
| Bob Ray | 1 | no |
| Cem Ak | 2 | yes |
"""


@for_each(
    ("question", "expected"),
    [
        ("What is the minimum order?", None),  # the column of orders has no numbers, and lockers are something else
        ("What is the lowest locker at Brampton Clays?", None),  # the table does not know this name
        ("Who has the lowest locker?", ["Bob Ray"]),
    ],
)
def test_the_most_of_something_else_is_no_row(question: str, expected: list[str] | None) -> None:
    assert names(found_in(LOCKERS, question)) == expected
