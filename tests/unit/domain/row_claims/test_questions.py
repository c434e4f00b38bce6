"""Questions that compare rows, or want a yes or no, are decided by the cells, or left undecided."""

from __future__ import annotations

from tests.support.cases import for_each

from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.extractive.question import read_question
from modules.llm_platform.domain.extractive.selection import choose_by_words
from modules.llm_platform.domain.extractive.tables import RowsFound
from modules.llm_platform.domain.row_claims.questions import find_answering_rows

CREW = """# The crew

| Name | Age | Start | Fee | First aider | Joined |
|---|---|---|---|---|---|
| Ann Whitlock | 67 | 9:00 | £12.50 | yes | 12-Mar-17 |
| Ben Carter | 34 | 10:00 | £9.00 | no | 03-Jun-21 |
| Cleo Adams | 67 | 12:30 | £9.00 | no | 08-Jan-24 |
| Dan Osei | 45 | 8:00 | £20.00 | yes | 21-Sep-19 |
| Eve Lund | 29 | 8:30 | £15.00 | no | 03-Jun-21 |
"""
CARS = """| Car | Year | Mileage | Price | Towing |
|---|---|---|---|---|
| Ford Fiesta | 2016 | 48,200 | £6,495 | no |
| VW Golf | 2018 | 55,300 | £10,990 | yes |
| Fiat 500 | 2020 | 33,450 | £5,750 | |
"""
GERMAN = """| Gerät | Gewicht | Miete pro Tag | Angeschafft |
|---|---|---|---|
| Bohrhammer | 3,4 kg | 9,50 € | 12.04.2019 |
| Stichsäge | 2,3 kg | 5,00 € | 27.09.2022 |
| Kreissäge | 4,1 kg | 8,00 € | 15.05.2020 |
"""


PLOTS = """| Plot | Holder | Size m2 | Rent GBP | Shed |
|---|---|---|---|---|
| 1 | Agnes Doyle | 120 | 48 | yes |
| 2 | Bernard Kemp | 95 | 38 | no |
| 3 | Chidi Okafor | 150 | 60 | yes |
| 4 | Agnes Marsh | 80 | 32 | no |
"""


def decide(question: str, text: str = CREW, language: str = "en", *, is_whole: bool = True) -> RowsFound | None:
    source = Source(index=2, title="list", url="doc:list.md", text=text, text_kind="document", is_whole=is_whole)
    asked = read_question(question, language)
    return find_answering_rows(asked, [source], choose_by_words(asked, [source]).candidates)


def say(question: str, text: str = CREW, language: str = "en", *, is_whole: bool = True) -> str:
    """Return the decision, the name of the row, and the first cells of the rows that show it."""
    found = decide(question, text, language, is_whole=is_whole)
    if found is None or not found.decision:
        return ""
    assert found.table.source == 2
    return f"{found.decision} {found.name}".strip() + ": " + ", ".join(row[0] for row in found.rows)


@for_each(
    ("question", "said"),
    [
        ("Who is older, Ben Carter or Dan Osei?", "first Dan Osei: Dan Osei, Ben Carter"),
        ("Who is older: Ben or Dan?", "first Dan Osei: Dan Osei, Ben Carter"),
        ("Is Ann Whitlock or Cleo Adams older?", "same: Ann Whitlock, Cleo Adams"),
        ("Who costs less, Ann, Ben or Dan?", "first Ben Carter: Ben Carter, Ann Whitlock, Dan Osei"),
        ("Which of Ann and Eve has the higher fee?", "first Eve Lund: Eve Lund, Ann Whitlock"),
        ("Eve vs Dan: who is the most expensive?", "first Dan Osei: Dan Osei, Eve Lund"),
        ("Did Ann or Ben join first?", "first Ann Whitlock: Ann Whitlock, Ben Carter"),
        ("Did Ben or Eve join first?", "same: Ben Carter, Eve Lund"),
        ("Who joined most recently, Ann or Ben?", "first Ben Carter: Ben Carter, Ann Whitlock"),
        ("Who has been with us longer, Ben or Dan?", "first Dan Osei: Dan Osei, Ben Carter"),
        ("Who has the earlier start, Dan or Eve?", "first Dan Osei: Dan Osei, Eve Lund"),
    ],
)
def test_named_rows_are_compared(question: str, said: str) -> None:
    assert say(question) == said


@for_each(
    ("question", "said"),
    [
        ("Is Ben under 40?", "yes: Ben Carter"),
        ("Is Dan Osei under 40?", "no: Dan Osei"),
        ("Did Dan join before 2020?", "yes: Dan Osei"),
        ("Is Cleo a first aider?", "no: Cleo Adams"),
        ("Is Ann older than Ben?", "yes: Ann Whitlock, Ben Carter"),
        ("Does Dan start earlier than Ann?", "yes: Dan Osei, Ann Whitlock"),
        ("Do Ben and Cleo pay the same fee?", "yes: Ben Carter, Cleo Adams"),
        ("Is Eve the youngest?", "yes: Eve Lund"),
        ("Is Ben the youngest?", "no: Ben Carter, Eve Lund"),
        ("Is Ben under 40 and a first aider?", "no: Ben Carter"),
    ],
)
def test_statements_about_named_rows_get_a_yes_or_no(question: str, said: str) -> None:
    assert say(question) == said


@for_each(
    ("question", "text", "language", "said"),
    [
        ("Is Ann older than average?", CREW, "en", "yes 48.4: Ann Whitlock"),
        ("Is Ben Carter older than the average?", CREW, "en", "no 48.4: Ben Carter"),
        ("Is Ben's fee below the average?", CREW, "en", "yes £13.10: Ben Carter"),
        ("Does Dan pay more than the average fee?", CREW, "en", "yes £13.10: Dan Osei"),
        ("Are Ben and Eve younger than average?", CREW, "en", "yes 48.4: Ben Carter, Eve Lund"),
        ("Ist die Kreissäge schwerer als der Durchschnitt?", GERMAN, "de", "yes 3,267 kg: Kreissäge"),
        ("Ist die Stichsäge teurer als die durchschnittliche Miete pro Tag?", GERMAN, "de", "no 7,50 €: Stichsäge"),
        ("La Kreissäge est-elle plus lourde que la moyenne ?", GERMAN, "fr", "yes 3,267 kg: Kreissäge"),
    ],
)
def test_the_average_of_all_rows_decides(question: str, text: str, language: str, said: str) -> None:
    found = decide(question, text, language)
    assert found is not None
    assert f"{found.decision} {found.figure}: {', '.join(row[0] for row in found.rows)}" == said
    assert (found.sum_kind, found.read) == ("average", len(found.table.rows))


@for_each(
    "question",
    [
        "Is Ann older than the average German?",
        "Is Ann older than the national average?",
        "Is Ann two years older than average?",
        "Is Ann not older than average?",
        "Is Ann twice as old as the average?",
        "Is Dan older and dearer than average?",
        "Does Ann cost more per week than the average?",
        "Has Ann more children than average?",
        "Did Ann join earlier than the average?",
    ],
)
def test_another_average_decides_nothing(question: str) -> None:
    assert say(question) == ""


def test_the_average_needs_all_rows() -> None:
    assert say("Is Ann older than average?", is_whole=False) == ""


@for_each(
    ("question", "said"),
    [
        ("Is any of them older than Dan Osei?", "yes : Ann Whitlock, Cleo Adams"),
        ("Who is older than Dan Osei?", " : Ann Whitlock, Cleo Adams"),
        ("Who is older than Dan or Ben?", None),
        ("Is Ann older than Dan or Ben?", None),
    ],
)
def test_rows_beyond_a_named_row_decide(question: str, said: str | None) -> None:
    """Alternatives after a "than" are not compared with each other."""
    found = decide(question)
    assert (found and f"{found.decision} {found.name}: {', '.join(row[0] for row in found.rows)}") == said


@for_each(
    ("question", "said"),
    [
        ("Is anyone under 30?", "yes: Eve Lund"),
        ("Is anyone under 18?", "no: Eve Lund"),
        ("Is everyone over 30?", "no: Eve Lund"),
        ("Is everyone over 18?", "yes: Eve Lund"),
        ("Did anybody join before 2010?", "no: Ann Whitlock"),
        ("Are all of them first aiders?", "no: Ben Carter, Cleo Adams, Eve Lund"),
    ],
)
def test_all_rows_decide(question: str, said: str) -> None:
    """The rows that show it, or the one that is nearest to the limit."""
    assert say(question) == said


@for_each(
    ("question", "text", "language", "said"),
    [
        ("Which car is older, the Fiesta or the Golf?", CARS, "en", "first Ford Fiesta: Ford Fiesta, VW Golf"),
        ("Has the Golf done more miles than the Fiesta?", CARS, "en", "yes: VW Golf, Ford Fiesta"),
        ("Has the Fiesta done fewer than 50,000 miles?", CARS, "en", "yes: Ford Fiesta"),
        (
            "Was ist schwerer, der Bohrhammer oder die Stichsäge?",
            GERMAN,
            "de",
            "first Bohrhammer: Bohrhammer, Stichsäge",
        ),
        ("Kostet die Kreissäge mehr als die Stichsäge?", GERMAN, "de", "yes: Kreissäge, Stichsäge"),
        ("Wurde der Bohrhammer vor 2020 angeschafft?", GERMAN, "de", "yes: Bohrhammer"),
    ],
)
def test_other_tables_and_languages(question: str, text: str, language: str, said: str) -> None:
    assert say(question, text, language) == said


@for_each(
    "question",
    [
        "Who is older, Ben or Frank?",  # only one of them has a row
        "Is Ben Miller under 40?",  # another person
        "Is Frank under 40?",
        "Is the manager under 40?",
        "Is Ben not under 40?",
        "Who is friendlier, Ann or Ben?",
        "Who gets in first of a morning, Ann or Ben?",
        "Who calls more often, Ann or Ben?",
        "Why is Ann older than Ben?",
        "Is Ann about 67?",
        "Is Ben's teacher older than 18?",
        "Did Ben leave before 2022?",  # the table has the day on which he joined
        "Does Ben pay more than £5 per week?",
        "Do Ann and Ben cost more than £20 together?",
        "Does Ann cost less than two Bens?",
        "Is the cheaper of Ann and Ben under £10?",
        "Who is the second oldest, Ann, Ben or Dan?",
        "Was Ann cheaper than Ben last year?",
        "Who is cheaper in Berlin, Ann or Ben?",
        "Is anyone over 30 and under £10?",
        "Are there any dogs under 30?",
        "Has only Ann joined?",
    ],
)
def test_what_the_cells_do_not_say_is_not_decided(question: str) -> None:
    assert not say(question)


def test_an_empty_cell_decides_nothing() -> None:
    assert not say("Does the Fiat 500 have towing?", CARS)
    assert say("Do all cars have towing?", CARS) == "no: Ford Fiesta"


@for_each("question", ["Is anyone under 18?", "Is everyone over 18?", "Is Eve the youngest?"])
def test_all_rows_must_be_known(question: str) -> None:
    """A part of a table cannot show that no row has something."""
    assert not say(question, is_whole=False)
    assert say("Who is older, Ben or Dan?", is_whole=False)


def test_a_column_that_cannot_be_compared_is_not_replaced_by_another() -> None:
    rows = "| Birch | 2 years | 3 days |\n| Maple | 18 months | 2 weeks |\n| Oak | 3 years | 1 week |\n"
    bikes = f"| Bike | Warranty | Delivery |\n|---|---|---|\n{rows}"
    assert not say("Which has the longer warranty, Birch or Maple?", bikes)
    assert say("Which has the longer delivery, Birch or Maple?", bikes) == "first Maple: Maple, Birch"


def test_the_oldest_of_a_column_of_years_is_the_earliest() -> None:
    found = decide("Which car is the oldest?", CARS)
    assert found is not None
    assert [row[0] for row in found.rows] == ["Ford Fiesta"]


@for_each(
    ("question", "said"),
    [
        ("Who pays more rent, Chidi or Bernard?", "first Chidi Okafor: 3, 2"),
        ("Is Chidi's plot bigger than Bernard's?", "yes: 3, 2"),
        ("Who pays more rent, Chidi or Agnes?", ""),
    ],
)
def test_a_part_of_a_name_names_its_row_after_a_column_of_numbers(question: str, said: str) -> None:
    """The second column has the names. Two rows have an Agnes."""
    assert say(question, PLOTS) == said
