"""Questions about rows that are not something, or lack something, are answered by all other rows of the table."""

from __future__ import annotations

from tests.support.cases import for_each
from tests.unit.domain.extractive.test_tables import candidates_in, names

from modules.llm_platform.domain.extractive.described_rows import (
    asks_for_described_rows,
    drop_rows_that_cannot_answer,
    find_described_rows,
)
from modules.llm_platform.domain.extractive.question import read_question
from modules.llm_platform.domain.extractive.tables import MAX_COUNTED, list_tables

INVOICES = """# Invoices

| Invoice | Customer | Status | Sent by | Reminders |
|---|---|---|---|---|
| R-101 | Alder Ltd | paid | Ines | 0 |
| R-102 | Birch GmbH | open | Ines | 2 |
| R-103 | Cedar AG | paid | Omar | 1 |
| R-104 | Birch GmbH | overdue | Omar | 3 |
| R-105 | Alder Ltd | | Omar | 0 |
"""
ROOMS = """| Raum | Plätze | Beamer | Prüfdatum | Fenster |
|---|---|---|---|---|
| Eiche | 12 | ja | 2024-05-01 | 2 |
| Linde | 20 | nein | – | 0 |
| Ulme | 8 | | 2024-07-12 | 4 |
| Buche | 30 | ja | | 1 |
"""


def found_in(text: str, question: str, language: str = "en", *, is_whole: bool = True) -> list[str] | None:
    asked = read_question(question, language)
    return names(find_described_rows(asked, list_tables(candidates_in(text, asked, is_whole=is_whole))))


@for_each(
    "question, rows",
    [
        ("Which invoices are not paid?", ["R-102", "R-104"]),
        ("Which invoices haven't been paid?", ["R-102", "R-104"]),
        ("How many invoices are unpaid?", ["R-102", "R-104"]),
        ("Which invoices had no reminders?", ["R-101", "R-105"]),
        ("Which invoices of Birch GmbH are not overdue?", ["R-102"]),
    ],
)
def test_rows_that_are_not_something_are_found(question: str, rows: list[str]) -> None:
    """A row whose cell is empty says neither."""
    assert found_in(INVOICES, question) == rows


@for_each(
    "question, rows",
    [
        ("Welche Räume haben keinen Beamer?", ["Linde", "Ulme"]),
        ("Welche Räume haben kein Prüfdatum?", ["Linde", "Buche"]),
        ("Welcher Raum hat keine Fenster?", ["Linde"]),
    ],
)
def test_rows_that_lack_something_are_found(question: str, rows: list[str]) -> None:
    """Their cell is empty, a dash, 0 or a word for "no". In a column of yes and no, all but "yes" lack it."""
    assert found_in(ROOMS, question, "de") == rows


@for_each(
    "question",
    [
        "Which invoices are not cancelled?",  # no cell and no column is named so
        "Which invoices are paid?",
        "Which invoices are not paid and not overdue?",
        "Why are the invoices not paid?",
        "Which plumbers of the city are not paid?",  # the table does not answer the question
    ],
)
def test_other_questions_are_not_answered(question: str) -> None:
    assert found_in(INVOICES, question) is None


@for_each(
    "question, rows",
    [
        ("Which invoices have reminders?", ["R-102", "R-103", "R-104"]),
        ("invoices with reminders", ["R-102", "R-103", "R-104"]),
        ("Which invoices of Birch GmbH have reminders?", None),  # the named rows answer
        ("Which invoices have many reminders and a late fee?", None),
    ],
)
def test_rows_that_have_something_are_found(question: str, rows: list[str] | None) -> None:
    assert found_in(INVOICES, question) == rows


def test_a_prefix_is_no_denial_of_its_own() -> None:
    """The prefix of "university" is not a negation, and does not exclude its row."""
    rows = "| North | Graz | yes |\n| South | Linz | no |\n| West | Graz | yes |\n"
    table = f"| University | City | Library |\n|---|---|---|\n{rows}"
    assert found_in(table, "Which universities have a library?") == ["North", "West"]
    asked = read_question("Which university is in Graz?", "en")
    candidates = [one for one in candidates_in(table, asked) if one.sentence.row]
    assert drop_rows_that_cannot_answer(asked, candidates) == candidates


def test_single_rows_do_not_answer_what_all_rows_decide() -> None:
    """The rows that a "not" describes are found together, or nothing is: each row alone may be of the other kind.

    A single row is not known to have the most, unless it says so.
    """
    table = "| Fact | Value |\n|---|---|\n| Last service | 4 May 2025 |\n| First owner | Anna Weber |\n"
    asked = read_question("When was the last service of the van?", "en")
    service, owner = (one for one in candidates_in(table, asked) if one.sentence.row)
    assert drop_rows_that_cannot_answer(asked, [service, owner]) == [service]
    for question, is_kept in (
        ("Which invoices are not cancelled?", False),
        ("Which invoices are cancelled?", True),
        ("Which is the most expensive invoice?", False),
    ):
        asked = read_question(question, "en")
        rows = [one for one in candidates_in(INVOICES, asked) if one.sentence.row]
        assert drop_rows_that_cannot_answer(asked, rows) == (rows if is_kept else [])


def test_a_row_gives_a_reason_only_in_a_few_words() -> None:
    """ "rejected" is no reason, "income too low" is one."""
    for cell, is_kept in (("since May", False), ("income too low", True)):
        table = f"| Applicant | Status | Note |\n|---|---|---|\n| Anna Lind | rejected | {cell} |\n"
        asked = read_question("Why was Anna Lind rejected?", "en")
        rows = [one for one in candidates_in(table, asked) if one.sentence.row]
        assert drop_rows_that_cannot_answer(asked, rows) == (rows if is_kept else [])


def test_a_part_of_a_table_is_not_enough() -> None:
    assert found_in(INVOICES, "Which invoices are not paid?", is_whole=False) is None


def test_two_columns_that_may_be_meant_are_no_answer() -> None:
    table = "| Tool | Tested | Sold |\n|---|---|---|\n| Saw | done | done |\n| Drill | open | done |\n| Axe | done | open |\n"
    assert found_in(table, "Which tools are not done?") is None


def test_more_rows_than_a_count_shows_are_no_answer() -> None:
    rows = "".join(f"| item {number} | open |\n" for number in range(MAX_COUNTED + 1))
    table = f"| Item | State |\n|---|---|\n| first | done |\n{rows}"
    assert found_in(table, "Which items are not done?") is None


def test_only_questions_about_rows_need_the_whole_table() -> None:
    assert asks_for_described_rows(read_question("Which invoices are not paid?", "en"))
    assert not asks_for_described_rows(read_question("Why is the invoice not paid?", "en"))
    assert not asks_for_described_rows(read_question("Who sent the most reminders?", "en"))


ROTA = """# Staff rota

| Name | Role | Monday | Tuesday | Hours |
|---|---|---|---|---|
| Amara | chef | 10-18 | off | 46 |
| Lewis | chef | off | 12-20 | 48 |
| Tilda | waiter | off | 17-23 | 30 |
| Omar | waiter | 17-23 | late | 31 |
| Ravi | bar | late | 17-23 | 20 |
"""
STOCK = """# Trees

| Tree | Price | Stock |
|---|---|---|
| birch | 60 | 5 |
| apple | 45 | 0 |
| oak | 80 | 0 |
"""


@for_each(
    ("text", "question", "rows"),
    [
        (ROTA, "Who has Monday off?", ["Lewis", "Tilda"]),
        (ROTA, "Which waiter is off on Monday?", ["Tilda"]),
        (ROTA, "Who has the late shift on Tuesday?", ["Omar"]),
        (ROTA, "Who works on Tuesday?", ["Lewis", "Tilda", "Omar", "Ravi"]),
        (STOCK, "Which trees are out of stock?", ["apple", "oak"]),
    ],
)
def test_a_value_of_several_columns_is_looked_for_in_the_one_that_is_named(
    text: str, question: str, rows: list[str]
) -> None:
    assert found_in(text, question) == rows


@for_each("question", ["Who has Monday late off?", "Who is off?", "Who has Monday and Tuesday off?"])
def test_a_value_without_one_column_is_not_looked_for(question: str) -> None:
    assert found_in(ROTA, question) is None


HELPERS = """| Name | First aid | Key holder |
|---|---|---|
| Ann Lee | yes | no |
| Bob Ray | no | yes |
| Cem Ak | yes | yes |
| Dee Fox | no | no |
"""


@for_each(
    "question, rows",
    [
        ("Which people hold a key?", ["Bob Ray", "Cem Ak"]),
        ("Who holds a key?", ["Bob Ray", "Cem Ak"]),
        ("Which members are key holders?", ["Bob Ray", "Cem Ak"]),
        ("Which members have first aid training?", ["Ann Lee", "Cem Ak"]),
    ],
)
def test_a_word_for_who_does_something_names_the_column_of_what_is_done(question: str, rows: list[str]) -> None:
    assert found_in(HELPERS, question) == rows
