"""Rows beyond a named row or the average: all of them are quoted, and only if it is certain what they are compared with."""

from __future__ import annotations

from tests.support.cases import for_each
from tests.unit.domain.extractive.test_tables import candidates_in, names

from modules.llm_platform.domain.extractive.question import read_question
from modules.llm_platform.domain.extractive.row_questions import find_rows_in_tables
from modules.llm_platform.domain.extractive.rows_beyond import asks_for_rows_beyond, find_rows_beyond, is_compared_with
from modules.llm_platform.domain.extractive.tables import RowsFound, list_tables

HIRE = """# Hire

| Item | Category | Weight | Price per day (£) | Price per week (£) | In stock | Delivery |
|---|---|---|---|---|---|---|
| Rotavator | Garden | 62 kg | 38 | 140 | 2 | yes |
| Log splitter | Garden | 118 kg | 46 | 175 | 1 | yes |
| Hedge trimmer | Garden | 5 kg | 14 | 52 | 6 | no |
| Floor sander | Decorating | 71 kg | 44 | 140 | 2 | yes |
| Paint sprayer | Decorating | 8 kg | 14 | 70 | 0 | no |
| Generator | Power | 46 kg | 41 | 155 | 3 | yes |
"""
ROOMS = """# Meeting rooms

| Room | Floor | Seats | Area | Rate | Opened |
|---|---|---|---|---|---|
| Oak | ground | 20 | 42 m² | £25 | 2015 |
| Elm | first | 12 | 28 m² | £18 | 2018 |
| Ash | first | 40 | 80 m² | £45 | 2011 |
| Great Hall | ground | 120 | 210 m² |  | 1998 |
"""
MEMBERS = """# Members

| Name | Age | Fee | Joined |
|---|---|---|---|
| Anna Keller | 34 | £20 | 2015 |
| Ben Roth | 17 | £12 | 2019 |
| Cleo Marsh | 52 | £20 | 2011 |
| Dan Osei | 45 | £25 | 2021 |
| Ben Carter | 60 | £25 | 2009 |
"""
GERMAN = """# Verleih

| Gerät | Gewicht | Miete pro Tag | Kaution |
|---|---|---|---|
| Bohrhammer | 3,4 kg | 9,50 € | 50 € |
| Stichsäge | 2,3 kg | 5,00 € | 30 € |
| Kreissäge | 4,1 kg | 8,00 € | 60 € |
| Häcksler | 38 kg | 22,00 € | 100 € |
"""
FRENCH = """# Location

| Outil | Poids | Prix par jour |
|---|---|---|
| Perceuse | 3 kg | 9 € |
| Ponceuse | 2 kg | 5 € |
| Scie | 4 kg | 7 € |
| Générateur | 38 kg | 22 € |
"""
SPANISH = """# Alquiler

| Herramienta | Peso | Precio por día |
|---|---|---|
| Taladro | 3 kg | 9 € |
| Lijadora | 2 kg | 5 € |
| Sierra | 4 kg | 7 € |
| Generador | 38 kg | 22 € |
"""
WEEKS = """| Shop | Month | Revenue | Average basket |
|---|---|---|---|
| Lyon | May | €1,400 | €12 |
| Lyon | June | €950 | €11 |
| Lille | May | €700 | €15 |
"""


def found_in(text: str, question: str, language: str = "en", *, is_whole: bool = True) -> RowsFound | None:
    asked = read_question(question, language)
    candidates = candidates_in(text, asked, is_whole=is_whole)
    return find_rows_beyond(asked, list_tables(candidates), candidates)


@for_each(
    ("text", "question", "rows"),
    [
        (HIRE, "Which items cost more per day than the generator?", ["Log splitter", "Floor sander"]),
        (HIRE, "Which items cost less per week than the paint sprayer?", ["Hedge trimmer"]),
        (HIRE, "Which machines are heavier than the floor sander?", ["Log splitter"]),
        (HIRE, "How many items weigh more than the generator?", ["Rotavator", "Log splitter", "Floor sander"]),
        (HIRE, "Which garden tools are less expensive per day than the generator?", ["Rotavator", "Hedge trimmer"]),
        (HIRE, "Which items with delivery are cheaper per day than the floor sander?", ["Rotavator", "Generator"]),
        (HIRE, "Which tools are cheaper than the hedge trimmer and have delivery?", None),
        (ROOMS, "How many rooms are bigger than the Oak room?", ["Ash", "Great Hall"]),
        (ROOMS, "Which rooms have more seats than Elm?", ["Oak", "Ash", "Great Hall"]),
        (ROOMS, "Which rooms on the ground floor are bigger than Elm?", ["Oak", "Great Hall"]),
        (ROOMS, "Which rooms opened later than the Great Hall?", ["Oak", "Elm", "Ash"]),
        (ROOMS, "List the rooms smaller than Ash", ["Oak", "Elm"]),
        (MEMBERS, "Who is older than Anna?", ["Cleo Marsh", "Dan Osei", "Ben Carter"]),
        (MEMBERS, "Who pays a higher fee than Anna Keller?", ["Dan Osei", "Ben Carter"]),
        (MEMBERS, "Who joined earlier than Cleo?", ["Ben Carter"]),
        (MEMBERS, "Who has been a member longer than Anna?", ["Cleo Marsh", "Ben Carter"]),
        (MEMBERS, "Whose fee is lower than Dan Osei's?", ["Anna Keller", "Ben Roth", "Cleo Marsh"]),
    ],
)
def test_all_rows_beyond_a_named_row_are_found(text: str, question: str, rows: list[str] | None) -> None:
    """Equal values are not more. A cell or a column of yes and no that the question names leaves out other rows."""
    found = found_in(text, question)
    assert names(found) == rows
    assert found is None or (found.read == len(found.table.rows) and not found.extreme)


@for_each(
    ("text", "question", "rows"),
    [
        (
            HIRE,
            "Which items cost more per day than the average?",
            ["Rotavator", "Log splitter", "Floor sander", "Generator"],
        ),
        (HIRE, "Which products are cheaper per week than average?", ["Hedge trimmer", "Paint sprayer"]),
        (
            HIRE,
            "Which items are above the average price per week?",
            ["Rotavator", "Log splitter", "Floor sander", "Generator"],
        ),
        (HIRE, "Which items weigh less than the average?", ["Hedge trimmer", "Paint sprayer", "Generator"]),
        (ROOMS, "Which rooms are bigger than the average?", ["Great Hall"]),
        (MEMBERS, "Who is older than average?", ["Cleo Marsh", "Dan Osei", "Ben Carter"]),
    ],
)
def test_all_rows_beyond_the_average_are_found(text: str, question: str, rows: list[str]) -> None:
    assert names(found_in(text, question)) == rows


@for_each(
    ("text", "language", "question", "rows"),
    [
        (GERMAN, "de", "Welche Geräte kosten pro Tag mehr als der Bohrhammer?", ["Häcksler"]),
        (
            GERMAN,
            "de",
            "Welche Geräte haben eine höhere Kaution als die Stichsäge?",
            ["Bohrhammer", "Kreissäge", "Häcksler"],
        ),
        (GERMAN, "de", "Wie viele Geräte sind leichter als die Kreissäge?", ["Bohrhammer", "Stichsäge"]),
        (GERMAN, "de", "Welche Geräte wiegen mehr als der Durchschnitt?", ["Häcksler"]),
        (FRENCH, "fr", "Quels outils sont plus chers que la scie ?", ["Perceuse", "Générateur"]),
        (FRENCH, "fr", "Combien d'outils coûtent moins que la perceuse ?", ["Ponceuse", "Scie"]),
        (FRENCH, "fr", "Qu'est-ce qui coûte plus par jour que la moyenne ?", ["Générateur"]),
        (MEMBERS, "fr", "Qui est plus âgé qu'Anna ?", ["Cleo Marsh", "Dan Osei", "Ben Carter"]),
        (SPANISH, "es", "¿Qué herramientas son más caras que la sierra?", ["Taladro", "Generador"]),
        (SPANISH, "es", "¿Cuántas herramientas pesan menos que la media?", ["Taladro", "Lijadora", "Sierra"]),
    ],
)
def test_other_languages_than_english(text: str, language: str, question: str, rows: list[str]) -> None:
    assert names(found_in(text, question, language)) == rows


def test_columns_that_may_be_meant_must_give_the_same_rows() -> None:
    """Only the log splitter costs more than the generator by the day and by the week, but the sander does so by the day."""
    assert names(found_in(HIRE, "Which items cost more than the generator?")) is None
    assert names(found_in(HIRE, "Which items are cheaper than the hedge trimmer?")) is None
    cheaper = ["Rotavator", "Hedge trimmer", "Floor sander", "Paint sprayer", "Generator"]
    assert names(found_in(HIRE, "Which items are cheaper than the log splitter?")) == cheaper


@for_each(
    ("text", "question"),
    [
        (HIRE, "Which items cost more per day than the log splitter?"),  # none does
        (HIRE, "Which items cost more per month than the generator?"),
        (HIRE, "Which items in stock cost more than the generator?"),
        (HIRE, "Which items cost more per day than the drill?"),
        (HIRE, "Which items cost more per day than the second-hand generator?"),
        (HIRE, "Which items have more wheels than the generator?"),
        (HIRE, "Which items are not heavier than the generator?"),
        (HIRE, "Which items cost £5 more per day than the generator?"),
        (HIRE, "Which items are twice heavier than the generator?"),
        (HIRE, "Which items are heavier and cheaper per day than the generator?"),
        (HIRE, "Which items are heavier than the generator and cheaper per day than the rotavator?"),
        (HIRE, "Which is the cheapest item per day that is heavier than the generator?"),
        (HIRE, "Which items are heavier than the generator or the rotavator?"),
        (HIRE, "How many kilos is the rotavator heavier than the generator?"),
        (HIRE, "Which items are cheaper per day than the national average?"),
        (HIRE, "Which items are cheaper per day than the average garden tool?"),
        (HIRE, "Which items are above average?"),
        (ROOMS, "Which rooms cost more than the Great Hall?"),  # its cell is empty
        (
            ROOMS.replace("| 40 |", "| 60 |"),
            "Which rooms are bigger than the average?",
        ),  # the seats and the area give different rows
        (ROOMS, "Which rooms are on a higher floor than Oak?"),
        (MEMBERS, "Who is older than Ben?"),
        (MEMBERS, "Who is older than Anna Braun?"),
        (MEMBERS, "Who is older than Anna's sister?"),
        (MEMBERS, "Who is a year older than Anna?"),
        (MEMBERS, "Who is older than the average German?"),
        (WEEKS, "Which shops have more revenue than Lyon?"),
        (WEEKS, "Which shops have more revenue than average?"),  # the table has averages of something else
    ],
)
def test_uncertain_comparisons_are_not_answered(text: str, question: str) -> None:
    assert found_in(text, question) is None


def test_a_part_of_a_table_is_not_compared() -> None:
    assert found_in(HIRE, "Which items are heavier than the generator?", is_whole=False) is None


@for_each(
    ("language", "question"),
    [
        ("en", "Is the generator cheaper than the rotavator?"),
        ("en", "Which is cheaper, the generator or the rotavator?"),
        ("en", "Are all items heavier than the hedge trimmer?"),
        ("en", "Which items weigh more than 20 kg?"),
        ("en", "Which rooms seat more than 20 people?"),
        ("en", "Why is the generator cheaper than the rotavator?"),
        ("en", "How much cheaper is the generator than the rotavator?"),
        ("en", "Which cheap items other than the generator do you have?"),
        ("en", "Which is the cheapest item?"),
        ("en", "What is the average price per day?"),
        ("de", "Welche günstigen Geräte dienen als Bohrhammer?"),
        ("fr", "La scie est-elle plus chère que la perceuse ?"),
        ("fr", "Quels sont les outils les plus chers que nous louons ?"),
    ],
)
def test_other_questions_do_not_ask_for_rows_beyond(language: str, question: str) -> None:
    assert not asks_for_rows_beyond(read_question(question, language))


def test_a_long_question_is_not_compared() -> None:
    question = "Which items are " + "cheaper than the average " * 2000 + "?"
    assert not asks_for_rows_beyond(read_question(question, "en"))


def test_rows_beyond_are_preferred_to_other_answers() -> None:
    asked = read_question("Which items are not heavier than the generator?", "en")
    candidates = candidates_in(HIRE, asked)
    assert find_rows_in_tables(asked, list_tables(candidates), candidates) is None
    asked = read_question("How many items are heavier than the floor sander?", "en")
    assert names(find_rows_in_tables(asked, list_tables(candidates), candidates)) == ["Log splitter"]


@for_each(
    ("question", "row", "is_compared"),
    [
        ("Which items are heavier than the generator?", ("Generator", "46 kg"), True),
        ("Which items are heavier than the generator?", ("Rotavator", "62 kg"), False),
        ("Who is older than Anna?", ("Anna Keller", "34"), True),
        ("Is any item heavier than the generator?", ("Generator", "46 kg"), False),
        ("What does the generator weigh?", ("Generator", "46 kg"), False),
    ],
)
def test_the_row_that_others_are_compared_with(question: str, row: tuple[str, ...], is_compared: bool) -> None:
    assert is_compared_with(read_question(question, "en"), row) is is_compared
