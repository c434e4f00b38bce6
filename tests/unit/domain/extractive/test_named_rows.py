"""A question can name table rows. They are distinguished from the others, and one of their cells may be the answer."""

from __future__ import annotations

from tests.support.cases import for_each
from tests.unit.domain.extractive.test_tables import SERVICES, candidates_in

from modules.llm_platform.domain.extractive.candidates import Candidate
from modules.llm_platform.domain.extractive.named_cells import ScoredCell, choose_named_rows, list_cells, remove_name
from modules.llm_platform.domain.extractive.named_rows import (
    add_rows_with_same_name,
    find_named_rows,
    group_named_rows,
    names_several_rows,
    pick_asked_cells,
    remove_other_rows,
)
from modules.llm_platform.domain.extractive.question import read_question
from modules.llm_platform.domain.extractive.reranking import ScoringModel

CARS = """| Plate | Car | Driver | Depot | Mileage |
|---|---|---|---|---|
| AB 12 C | Kangoo, diesel | Moe | Hexham | 44,870 |
| AB 12 D | Kangoo, electric | Frey | Carlisle | 9,120 |
| XY 7 | Golf | Will Lund | Carlisle | 71,566 |
"""


def named_in(text: str, question: str, language: str = "en") -> list[str]:
    asked = read_question(question, language)
    return [row.sentence.row[0] for row in find_named_rows(asked, candidates_in(text, asked))]


@for_each(
    "question, rows",
    [
        ("When was the last service of Anna?", ["Anna"]),
        ("How many seats does Carla have?", ["Carla"]),
        ("What type is Bella?", ["Bella"]),
        ("Which boat has Jan Roth as its first owner?", ["Carla"]),
        ("What are the seats of the canoes?", ["Anna", "Bella"]),
    ],
)
def test_a_row_and_a_column_that_the_question_names_answer(question: str, rows: list[str]) -> None:
    """A row named by a cell is not compared with others, though the name of the column has `last` or `first`."""
    assert named_in(SERVICES, question) == rows


@for_each(
    "question",
    [
        "When was the last service of Emma?",  # no row
        "What colour is Anna?",  # no column
        "Who was the first owner of Bella?",  # an empty cell
        "When was the last service of Anna in Porto?",  # more than row and column
        "Which last service was not for Anna?",
        "When was the last service of Anna, and of Bella, and of Carla, who paid?",
    ],
)
def test_a_question_for_anything_else_names_no_row(question: str) -> None:
    assert named_in(SERVICES, question) == []


def test_the_models_read_the_named_columns_of_a_wide_row() -> None:
    """The models read the named columns and the first cell of a wide row.

    They read the whole row if it is narrow or no column is named.
    """
    wide = "| Boat | " + " | ".join(f"Part {letter}" for letter in "abcdefgh") + " |\n" + "|---" * 9 + "|\n"
    wide += "| Anna | oak | elm | ash | fir | yew | box | fig | bay |\n| Bella | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 |\n"

    def picked(text: str, question: str) -> list[tuple[str, str]]:
        asked = read_question(question, "en")
        return pick_asked_cells(asked, candidates_in(text, asked)[0])

    assert picked(wide, "What is c of Anna?") == [("Boat", "Anna"), ("Part c", "ash")]
    assert picked(wide, "Is there yew?") == [("Boat", "Anna"), ("Part e", "yew")]
    assert len(picked(wide, "Who built it?")) == 9
    assert len(picked(SERVICES, "What type is Anna?")) == 5


def test_a_column_and_its_cell_ask_for_all_rows_with_it() -> None:
    table = "| Name | Team |\n|---|---|\n| Mia Frey | sales |\n| Ole Moe | stores |\n| Ida Lund | sales |\n"
    assert named_in(table, "Who is in the sales team?") == ["Mia Frey", "Ida Lund"]
    assert named_in(table, "Who leads the sales team?") == []


@for_each(
    "question, rows",
    [
        ("Who drives the Kangoo AB 12 C?", ["AB 12 C"]),
        ("Who drives a Kangoo?", ["AB 12 C", "AB 12 D", "XY 7"]),
        ("Is AB 12 C or XY 7 older?", ["AB 12 C", "XY 7"]),
    ],
)
def test_a_cell_that_one_row_has_leaves_out_the_others(question: str, rows: list[str]) -> None:
    head = "| Plate | Car | Driver |\n|---|---|---|\n"
    table = f"{head}| AB 12 C | Kangoo | Moe |\n| AB 12 D | Kangoo | Frey |\n| XY 7 | Golf | Lund |\n"
    asked = read_question(question, "en")
    kept = remove_other_rows(asked, candidates_in(table, asked))
    assert [one.sentence.row[0] for one in kept] == rows


def groups_in(text: str, question: str, language: str = "en") -> list[list[str]]:
    """Return the first cells of the rows that are named, for each name."""
    asked = read_question(question, language)
    return [_first_cells(group.rows) for group in group_named_rows(asked, candidates_in(text, asked))]


def _first_cells(rows: list[Candidate] | tuple[Candidate, ...]) -> list[str]:
    return [row.sentence.row[0] for row in rows]


@for_each(
    "question, groups",
    [
        ("How far has AB 12 C gone?", [["AB 12 C"]]),
        ("Which cars are in Carlisle?", [["AB 12 D", "XY 7"]]),
        ("How far has the Kangoo in Hexham gone?", [["AB 12 C"]]),  # the other Kangoo is not in Hexham
        ("What is the mileage of the electric Kangoo?", [["AB 12 D"]]),  # the first word of a cell and another one
        ("What is the mileage of the electric car?", []),  # another word of a cell
        ("Is the Golf older than Moe's car?", [["AB 12 C"], ["XY 7"]]),
        ("What does Will Lund drive?", [["XY 7"]]),  # "will" is a function word in other questions
        ("What will it cost?", []),
        ("Which cars are not in Carlisle?", []),
    ],
)
def test_a_row_is_named_by_the_words_of_its_cells(question: str, groups: list[list[str]]) -> None:
    assert sorted(groups_in(CARS, question)) == groups


def test_the_more_words_name_a_row_the_earlier_it_comes() -> None:
    other = "\n| Town | Mayor |\n|---|---|\n| Carlisle | Ida Frey |\n"
    assert groups_in(CARS + other, "Does Frey of AB 12 D live in Carlisle?")[0] == ["AB 12 D"]


def test_the_other_rows_with_the_same_name_are_shown_too() -> None:
    asked = read_question("Which cars are in Carlisle?", "en")
    rows = candidates_in(CARS, asked)
    groups = group_named_rows(asked, rows)
    assert _first_cells(add_rows_with_same_name([rows[2]], groups)) == ["AB 12 D", "XY 7"]
    assert _first_cells(add_rows_with_same_name([rows[0]], groups)) == ["AB 12 C"]


@for_each("question", ["Is the Golf older than Moe's car?", "Who has driven more, Moe or Will Lund?"])
def test_both_sides_of_a_comparison_are_shown(question: str) -> None:
    asked = read_question(question, "en")
    rows = candidates_in(CARS, asked)
    for chosen in (rows[0], rows[2]):
        shown = add_rows_with_same_name([chosen], group_named_rows(asked, rows))
        assert sorted(_first_cells(shown)) == ["AB 12 C", "XY 7"]


def test_several_rows_with_a_name_are_told_from_one() -> None:
    rows = [["Anna", "Hall A"], ["Bella", "Hall B"], ["Carla", "Hall B"]]
    assert names_several_rows(read_question("What is kept in Hall B?", "en"), rows)
    assert names_several_rows(read_question("Is Anna longer than Carla?", "en"), rows)
    assert not names_several_rows(read_question("How long is Anna?", "en"), rows)


def test_a_cell_that_names_the_row_is_not_what_the_question_asks_for() -> None:
    asked = read_question("Which depot does Moe belong to?", "en")
    (named,) = group_named_rows(asked, candidates_in(CARS, asked))
    assert [one.with_name for one in list_cells(named)] == [
        "Moe: Plate: AB 12 C",
        "Moe: Car: Kangoo, diesel",
        "Moe: Depot: Hexham",
        "Moe: Mileage: 44,870",
    ]
    assert remove_name(asked, named) == "Which depot does belong to?"


def chosen_in(question: str, column: str, log_odds: float, scored_by: ScoringModel = "english") -> list[str]:
    """Return the plates of the chosen rows if the model finds that the cells of one column answer with these log-odds."""
    asked = read_question(question, "en")
    readings = [
        ScoredCell(cell, 0.0, 0.0, log_odds if cell.column == column else -9.0, scored_by)
        for named in group_named_rows(asked, candidates_in(CARS, asked))
        for cell in list_cells(named)
    ]
    return _first_cells(choose_named_rows(asked, readings))


@for_each(
    "question, log_odds, rows",
    [
        ("How far has AB 12 C gone?", 1.0, ["AB 12 C"]),
        ("Who painted AB 12 C?", -8.0, []),
        ("Has AB 12 C or XY 7 gone further?", -8.0, ["AB 12 C", "XY 7"]),
        ("Which cars are in Carlisle?", 1.0, ["AB 12 D", "XY 7"]),
        ("How far is Carlisle?", 1.0, []),  # it asks for one thing, and two rows have the name
        ("How far is Porto?", 1.0, []),
    ],
)
def test_a_named_row_answers_if_one_of_its_cells_does(question: str, log_odds: float, rows: list[str]) -> None:
    assert sorted(chosen_in(question, "Mileage", log_odds)) == rows


def test_the_scores_of_each_model_have_a_limit_of_their_own() -> None:
    """The scores of the model for English spread wider."""
    question = "How far has AB 12 C gone?"
    assert chosen_in(question, "Mileage", -2.0, "english") == []
    assert chosen_in(question, "Mileage", -2.0, "languages") == ["AB 12 C"]
