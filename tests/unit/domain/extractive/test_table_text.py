"""The tables in a text, with the place of each row."""

from __future__ import annotations

from modules.llm_platform.domain.extractive.table_text import find_tables

HEAD = "| Plan | Fee |\n|---|---|\n"
ROWS = "| Basic | 60 |\n| Family | 120 |\n| Student | 30 |\n"


def names(text: str) -> list[list[str]]:
    return [[row[0] for row in placed.table.rows] for placed in find_tables(text, "plans")]


def test_each_row_has_its_place() -> None:
    text = f"# Plans\n\n{HEAD}{ROWS}"
    (placed,) = find_tables(text, "plans.csv")
    assert [text[start:end] for start, end in placed.spans] == ROWS.splitlines()
    assert placed.has_all_rows
    assert placed.table.is_in_title("plan")


def test_parts_of_one_table_are_joined() -> None:
    """Two tables with the same columns stay apart if a text is between them, such as a year."""
    assert names(f"{HEAD}{ROWS}\n{HEAD}| Club | 80 |\n") == [["Basic", "Family", "Student", "Club"]]
    assert len(names(f"**2023**\n\n{HEAD}{ROWS}\n**2024**\n\n{HEAD}{ROWS}")) == 2


def test_rows_of_totals_are_left_out() -> None:
    """If its name has other words, it may be a row as the others, so that the most and the least are not certain."""
    (placed,) = find_tables(f"{HEAD}{ROWS}| Total | 210 |\n", "plans")
    assert [row[0] for row in placed.table.rows] == ["Basic", "Family", "Student"]
    assert placed.has_all_rows
    (placed,) = find_tables(f"{HEAD}{ROWS}| Total Recall | 113 |\n", "films")
    assert not placed.has_all_rows


def test_other_ends_of_lines() -> None:
    """Windows ends a line with two characters. A separator of lines within a cell ends none."""
    assert names(f"{HEAD}{ROWS}".replace("\n", "\r\n")) == [["Basic", "Family", "Student"]]
    assert names(f"{HEAD}{ROWS}".replace("Family", "Fam\u2028ily")) == [["Basic", "Fam ily", "Student"]]


def test_a_table_without_names_or_with_a_row_that_is_too_long_is_no_whole_table() -> None:
    assert names("| Plan |\n|---|\n| Basic |\n| Family |\n| Student |\n") == []
    (placed,) = find_tables(f"{HEAD}{ROWS}| Club | {'8' * 2000} |\n", "plans")
    assert not placed.has_all_rows
