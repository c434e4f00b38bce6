"""Rows of a table within a limit: all of them are quoted, and only if it is certain which column is meant."""

from __future__ import annotations

from tests.support.cases import for_each
from tests.unit.domain.extractive.test_tables import candidates_in, names

from modules.llm_platform.domain.extractive.question import read_question
from modules.llm_platform.domain.extractive.row_limits import asks_for_limited_rows, find_limited_rows
from modules.llm_platform.domain.extractive.tables import RowsFound, list_tables

ROOMS = """# Meeting rooms

| Room | Seats | Size | Temperature | Hourly rate | Booked | Free from |
|---|---|---|---|---|---|---|
| Maple | 6 | 14 m² | 21.5 °C | £12.00 | 74 % | 2 March 2026 |
| Birch | 10 | 22 m² | 23 °C | £18.00 | 81 % | 9 May 2026 |
| Hall | 120 | 210 m² | about 17.5 °C | free | 22 % | 1 June 2026 |
| Cellar | 40 | 75 m² | n/a | £40.00 | 9 % |  |
"""


def found_in(text: str, question: str, language: str = "en", *, is_whole: bool = True) -> RowsFound | None:
    asked = read_question(question, language)
    candidates = candidates_in(text, asked, is_whole=is_whole)
    return find_limited_rows(asked, list_tables(candidates), candidates)


@for_each(
    ("question", "rows"),
    [
        ("Which rooms have more than 20 seats?", ["Hall", "Cellar"]),
        ("Where can I put more than 20 people?", ["Hall", "Cellar"]),
        ("Which rooms are larger than 70 sqm?", ["Hall", "Cellar"]),
        ("Where is it colder than 22 degrees?", ["Maple", "Hall"]),
        ("What can I get for less than £15?", ["Maple", "Hall"]),
        ("Which ones are in use less than a quarter of the time?", ["Hall", "Cellar"]),
        ("Which rooms are free before the 10th of May?", ["Maple", "Birch"]),
        ("How many rooms have at least 10 seats?", ["Birch", "Hall", "Cellar"]),
    ],
)
def test_all_rows_within_a_limit_are_found(question: str, rows: list[str]) -> None:
    """The question names the column, what it measures, or its unit. "Free" counts as 0, and an empty cell has no value."""
    assert names(found_in(ROOMS, question)) == rows


@for_each(
    "question",
    [
        "Which rooms have more than two windows?",
        "Which rooms are more than 50 miles away?",
        "Which rooms have more than 400?",
        "Is Maple bigger than 20 square metres?",
        "Why does it cost more than £15?",
        "Which rooms do not have more than 20 seats?",
    ],
)
def test_a_limit_of_something_else_is_not_answered(question: str) -> None:
    assert found_in(ROOMS, question) is None


MEMBERS = """# Members

| Member | Age | Joined |
|---|---|---|
| Ada | 34 | 2014 |
| Ben | 17 | 2016 |
| Cleo | 52 | 2019 |
"""


@for_each(
    ("question", "rows"),
    [
        ("Which members joined in 2016 or earlier?", ["Ada", "Ben"]),
        ("Who joined in 2016 or earlier?", ["Ada", "Ben"]),
        ("Who is 34 or younger?", ["Ada", "Ben"]),
        ("Who was here in 2016 or earlier?", None),
        ("Which members are from 2016 or earlier?", None),
    ],
)
def test_a_year_or_earlier_is_no_age(question: str, rows: list[str] | None) -> None:
    """The words after "or" say what is compared. If no column is named, all members would be at most 2016 years old."""
    found = found_in(MEMBERS, question)
    assert (found and names(found)) == rows


TOOLS = """# Tools for hire

| Tool | Day rate (£) | Week (£) | Temp °C | Hours this week | Nitrate mg/L | Age |
|---|---|---|---|---|---|---|
| Saw | 8 | 28 | 15 | 40 | 1 | 2 |
| Drill | 18 | 63 | 19 | 38 | 3 | 7 |
| Sander | 22 | 77 | 21 | 20 | 2 | 4 |
"""


@for_each(
    ("question", "rows"),
    [
        ("Which tools cost less than £20 a day?", ["Saw", "Drill"]),
        ("Which tools are warmer than 18 °C?", ["Drill", "Sander"]),
        ("Which tools work more than 39 hours this week?", ["Saw"]),
        ("How many tools are under 5?", ["Saw", "Sander"]),
    ],
)
def test_the_name_of_a_column_has_its_unit(question: str, rows: list[str]) -> None:
    """It is in brackets, at the beginning, or before a slash. A bare number of what the title names is an age."""
    assert names(found_in(TOOLS, question)) == rows


EXHIBITIONS = """| Title | Dates |
|---|---|
| Light | January to March 2025 |
| Stone | April to June 2025 |
| Water | July to September 2025 |
| Wood | 3 October 2025 |
"""
SEASONS = (
    "| Season | Hours |\n|---|---|\n| April to June | 10 |\n| July to September | 12 |\n| October to March | 8 |\n"
)


def test_periods_of_a_year_are_compared_and_seasons_are_not() -> None:
    """A season comes again each year, so it is neither before nor after a day."""
    assert names(found_in(EXHIBITIONS, "Which exhibitions are after 1 June 2025?")) == ["Water", "Wood"]
    assert found_in(SEASONS, "What happened between 9 and 14 May?") is None


def test_a_passage_may_lack_rows_so_that_it_is_not_answered_from() -> None:
    assert found_in(ROOMS, "Which rooms have more than 20 seats?", is_whole=False) is None


@for_each("question", ["How do I book for more than 20 people?", "When do they have more than 20 seats?"])
def test_a_question_for_something_else_than_rows_has_no_limit(question: str) -> None:
    assert not asks_for_limited_rows(read_question(question, "en"))


CALENDAR = """# Choir

| Day | What |
|---|---|
| 3 March | rehearsal |
| 17 March | rehearsal |
| 24 March | concert |
"""


@for_each(
    ("question", "rows"),
    [
        ("When is the next choir rehearsal after 3 March?", ["17 March"]),
        ("Which choir dates are after 3 March?", ["17 March", "24 March"]),
        ("Which choir dates are next, before 20 March?", ["3 March", "17 March"]),
    ],
)
def test_the_next_row_after_a_day_is_one(question: str, rows: list[str]) -> None:
    assert names(found_in(CALENDAR, question)) == rows
