"""Rows of the day that a question states: all of them are quoted, and no row of another day."""

from __future__ import annotations

from tests.support.cases import for_each
from tests.unit.domain.extractive.test_tables import names

from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.extractive.candidates import Candidate, match_sources
from modules.llm_platform.domain.extractive.dated_rows import (
    asks_for_dated_rows,
    cut_other_days,
    find_dated_rows,
    remove_other_days,
)
from modules.llm_platform.domain.extractive.quantities import find_question_date
from modules.llm_platform.domain.extractive.question import Question, read_question
from modules.llm_platform.domain.extractive.tables import RowsFound, list_tables

ROTA = """| Date | Shift | Name | Note |
|---|---|---|---|
| 2026-06-03 | early | Ines | |
| 2026-06-04 | early | Ravi | opens the till |
| 2026-06-04 | late | Joao | |
| 2026-06-05 | early | Ines | second till open |
"""
PRICES = """| Season | Tent | Cabin |
|---|---|---|
| 3 – 30 April | 14 | 52 |
| 1 May to 2 July | 18 | 60 |
| 19 Dec – 2 Jan | 12 | 48 |

| Day | Event |
|---|---|
| 14 April | bonfire |
| 9 May | fair |
| 1 June | market |
"""
MEMBERS = """| Name | Joined | Fee |
|---|---|---|
| Ann | 3 May 2020 | 5 |
| Ben | 4 May 2021 | 6 |
| Cem | 5 May 2022 | 7 |
"""
DIENSTPLAN = """| Datum | Schicht | Name |
|---|---|---|
| 03.06.2026 | Früh | Anke |
| 04.06.2026 | Früh | Bernd |
| 04.06.2026 | Spät | Carla |
"""


def match_documents(question: Question, **texts: str) -> list[Candidate]:
    """Return the sentences of documents, each with the name of its file as its title and address."""
    sources = [
        Source(index=number, title="", url=f"doc:{name}.csv", text=text, is_whole=True)
        for number, (name, text) in enumerate(texts.items(), 1)
    ]
    return match_sources(question, sources)


def found_in(question: str, language: str = "en", **texts: str) -> RowsFound | None:
    asked = read_question(question, language)
    candidates = match_documents(asked, **texts)
    return find_dated_rows(asked, list_tables(candidates), candidates)


@for_each(
    ("question", "people"),
    [
        ("Who works at the cafe on 4 June?", ["Ravi", "Joao"]),
        ("who has the late shift at the café on June 4th", ["Joao"]),
        ("Who opens the cafe on 2026-06-05?", ["Ines"]),
        ("Which café shifts are in June?", ["Ines", "Ravi", "Joao", "Ines"]),
        ("Is the cafe open on 5 June?", ["Ines"]),
    ],
)
def test_rows_of_the_day_are_found(question: str, people: list[str]) -> None:
    """Words of the question that cells have choose among the rows of the day. "Open" within a longer cell excludes nothing."""
    found = found_in(question, cafe_rota=ROTA)
    assert found is not None
    assert [row[2] for row in found.rows] == people


@for_each(
    ("question", "rows"),
    [
        ("How much is a tent on 14 April?", ["3 – 30 April"]),
        ("What is on at the campsite on 14 April?", ["14 April"]),
        ("How much is a cabin on 31 December?", ["19 Dec – 2 Jan"]),
        ("How much is a cabin at the campsite in May?", ["1 May to 2 July"]),
    ],
)
def test_a_range_has_all_its_days(question: str, rows: list[str]) -> None:
    """Of two tables, the one with more words of the question answers, and then the one that has the day itself."""
    assert names(found_in(question, campsite=PRICES)) == rows


@for_each(
    ("question", "person"),
    [
        ("Wer hat am 4.6. im Café die Spätschicht?", "Carla"),
        ("Wer hat am 4. Juni im Cafe die Frühschicht?", "Bernd"),
    ],
)
def test_a_compound_names_the_cell_and_its_column(question: str, person: str) -> None:
    found = found_in(question, "de", dienstplan_cafe=DIENSTPLAN)
    assert found is not None
    assert [row[2] for row in found.rows] == [person]


@for_each(
    "question",
    [
        "Who works at the cafe on 6 June?",
        "Who has the late shift at the cafe on 5 June?",
        "Does Joao work at the cafe on 5 June?",
        "Who repairs the roof of the garage on 4 June?",
        "Who is the first at the cafe on 4 June?",
        "Who is not at the cafe on 4 June?",
        "Who works at the cafe on 4 June or on 5 June?",
        "Who works at the cafe on 3/4?",
        "Who worked at the cafe in 2026?",
    ],
)
def test_another_day_or_another_thing_is_not_answered(question: str) -> None:
    assert found_in(question, cafe_rota=ROTA) is None


def test_another_document_with_the_day_does_not_answer() -> None:
    """The bees' diary lacks the day. The rota has it, but is about something else."""
    diary = "The bees of the hive were quiet.\n\nOn 3 May the bees swarmed from the hive."
    assert found_in("What did the bees of the hive do on 4 June?", bees=diary, cafe_rota=ROTA) is None


@for_each("question", ["may I work on the rota?", "Who works before 4 June?", "What does 9.6 mean?"])
def test_no_day_is_stated(question: str) -> None:
    assert not asks_for_dated_rows(read_question(question, "en"))


def left_for(question: str, text: str) -> list[str]:
    asked = read_question(question, "en")
    return [one.sentence.row[0] for one in remove_other_days(asked, match_documents(asked, rota=text))]


def test_rows_of_other_days_are_left_out() -> None:
    """If the first column lacks the day, no row is about it. A month, or a date of something else, leaves all rows."""
    assert left_for("Who opens on 4 June?", ROTA) == ["2026-06-04"] * 2
    assert left_for("Who opens on 7 June?", ROTA) == []
    assert len(left_for("Who opens in July?", ROTA)) == 4
    assert left_for("What does Ann pay on 9 June?", MEMBERS) == ["Ann", "Ben", "Cem"]


HOURS = """# Lifeboat museum

| Season | Hours |
|---|---|
| April to June | 10.30 to 16.30 |
| July and August | 10.00 to 18.00 |
| September and October | 10.30 to 16.00 |

The hall may freeze in winter.
"""


@for_each(
    ("question", "rows"),
    [
        ("Is the museum open in May?", ["April to June"]),
        ("What are the hours in May?", ["April to June"]),
        ("Did the hall freeze in May?", None),
        ("Did it freeze on 9 May?", None),
    ],
)
def test_a_season_answers_only_questions_about_its_table(question: str, rows: list[str] | None) -> None:
    """Its rows have every day of the year, so a day alone says nothing."""
    assert names(found_in(question, museum=HOURS)) == rows


def test_a_text_keeps_what_stands_around_the_rows_that_are_cut() -> None:
    """The rows go from all tables of the text. A question without a day leaves the text as it is."""
    text = f"# Rota\n\n{ROTA}\nRavi is away on 7 June.\n\n{MEMBERS}"
    head = "# Rota\n\n| Date | Shift | Name | Note |\n|---|---|---|---|\n"
    assert cut_other_days(read_question("Who opens on 7 June?", "en"), text, "rota") == (
        f"{head}\nRavi is away on 7 June.\n\n{MEMBERS}"
    )
    assert cut_other_days(read_question("Who opens the till?", "en"), text, "rota") == text


@for_each(
    ("question", "day", "american"),
    [
        ("on 4/3/2026?", 2026_03_04, None),
        ("on 3/14/2026?", None, 2026_03_14),
        ("on 14/3/2026?", 2026_03_14, 2026_03_14),
        ("on 4/4/2026?", 2026_04_04, 2026_04_04),
        ("on 14.3.2026?", 2026_03_14, 2026_03_14),
        ("on 4/3?", 3_04, None),
        ("on 4/3/2026 or 5/3/2026?", None, None),
        ("on 3/14/2026 or 3/15?", None, None),
        ("on 31.2.2026?", None, None),
    ],
)
def test_a_date_that_may_be_two_days_is_none(question: str, day: int | None, american: int | None) -> None:
    """In English, 4/3/2026 may be April 3 or March 4."""
    found = [find_question_date(question, month_first=month_first) for month_first in (False, True)]
    assert [one and one.first for one in found] == [day, american]


WEEKS = """| Week | From | Supervisor |
|---|---|---|
| 27 | 2025-06-30 | Ann Lee |
| 28 | 2025-07-07 | Tom Hill |
| 29 | 2025-07-14 | Sue Ford |
"""
VISITS = WEEKS.replace("Week", "Visit")


@for_each(
    ("text", "question", "expected"),
    [
        (WEEKS, "Who is the supervisor on 10 July?", ["28"]),
        (WEEKS, "Who is the supervisor on 13 July 2025?", ["28"]),
        (WEEKS, "Who is the supervisor on 14 July?", ["29"]),
        (VISITS, "Who is the supervisor on 10 July?", None),  # a day of visits is no week
    ],
)
def test_a_day_belongs_to_the_row_of_its_week(text: str, question: str, expected: list[str] | None) -> None:
    asked = read_question(question, "en")
    candidates = match_documents(asked, supervisor=text)
    assert names(find_dated_rows(asked, list_tables(candidates), candidates)) == expected


def test_rows_of_a_month_are_counted_in_the_table_of_what_is_counted() -> None:
    asked = read_question("How many orders came in in May?", "en")
    orders = "| No | Date |\n|---|---|\n| 7 | 2 May 2025 |\n| 8 | 9 May 2025 |\n| 9 | 1 June 2025 |\n"
    candidates = match_documents(asked, orders=orders, members=MEMBERS)
    found = find_dated_rows(asked, list_tables(candidates), candidates)
    assert names(found) == ["7", "8"]
