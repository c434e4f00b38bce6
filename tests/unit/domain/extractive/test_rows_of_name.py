"""Rows of a name in a rota: how often or when somebody is on duty, and who is most often."""

from __future__ import annotations

from tests.support.cases import for_each
from tests.unit.domain.extractive.test_tables import candidates_in

from modules.llm_platform.domain.extractive.question import read_question
from modules.llm_platform.domain.extractive.row_questions import find_rows_in_tables
from modules.llm_platform.domain.extractive.tables import RowsFound, list_tables

ROTA = """# Rota of the café

| Date | Day | Early shift | Late shift | Kitchen |
|---|---|---|---|---|
| 3 June | Monday | Amira | Jonas | Bello |
| 4 June | Tuesday | Amira | Petra | Bello |
| 5 June | Wednesday | Jonas | Petra | Sunniva |
| 6 June | Thursday | Luca | Jonas | Sunniva |
| 7 June | Friday | Luca | Amira | Sunniva |
"""


def find_rows(question: str) -> RowsFound | None:
    asked = read_question(question, "en")
    candidates = candidates_in(ROTA, asked)
    return find_rows_in_tables(asked, list_tables(candidates), candidates)


def find(question: str) -> list[str] | None:
    found = find_rows(question)
    return None if found is None else [row[0] for row in found.rows]


@for_each(
    ("question", "rows"),
    [
        ("How often does Jonas work?", ["3 June", "5 June", "6 June"]),
        ("Which days does Amira work?", ["3 June", "4 June", "7 June"]),
        ("How many late shifts does Jonas have?", ["3 June", "6 June"]),
        ("How many times does Jonas work early?", ["5 June"]),
        ("When does Amira work on Fridays?", ["7 June"]),
        ("When is Jonas on the early shift on the rota?", ["5 June"]),
        ("How often does Jonas cook?", None),
        ("How often does Greta work?", None),
        ("When does Jonas not work?", None),
        ("Which days is Jonas off?", None),
        ("When does Jonas work before 5 June?", None),
        ("How many shifts does Jonas have in the kitchen?", None),
        ("How often does only Jonas work?", None),
    ],
)
def test_the_columns_that_the_question_names_count(question: str, rows: list[str] | None) -> None:
    """All columns with the name count if the question names none of them."""
    assert find(question) == rows


@for_each(
    ("question", "name", "rows"),
    [
        ("Who has the most late shifts?", "", None),  # two have two
        ("Who is most often in the kitchen?", "Sunniva", ["5 June", "6 June", "7 June"]),
        ("Who has the most shifts in the kitchen?", "Sunniva", ["5 June", "6 June", "7 June"]),
        ("Who has the most shifts?", "", None),
        ("Who has the most early shifts on the rota of the café?", "", None),
        ("Who has the most dogs?", "", None),
        ("Which kitchen paid the most?", "", None),
    ],
)
def test_the_most_frequent_name_of_a_column_answers(question: str, name: str, rows: list[str] | None) -> None:
    """Nothing answers if two names are as frequent, or if no column is named."""
    found = find_rows(question)
    assert (found.name, [row[0] for row in found.rows]) == (name, rows) if found else rows is None
